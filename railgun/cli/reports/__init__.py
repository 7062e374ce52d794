"""Answers as reports for people and as objects for machines."""
