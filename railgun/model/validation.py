"""What pydantic says about a value, in one line."""

from __future__ import annotations

from pydantic import ValidationError


def in_words(error: ValidationError) -> str:
    """The places and reasons of the failure in one line, without the value's own contents."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [
        f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}".removeprefix(": ") for one in found
    ]
    return f"not a valid {error.title}: {'; '.join(lines[:5])}"[:1024]
