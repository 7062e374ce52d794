"""The classes that programs use, sync and async."""
