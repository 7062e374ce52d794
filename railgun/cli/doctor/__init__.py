"""The checks of ``railgun doctor``."""
