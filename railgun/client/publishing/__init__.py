"""Publishes on their way: checked, packed, written as one record."""
