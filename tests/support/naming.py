"""Names that no other test uses, since all tests of a session may share one cluster."""

from __future__ import annotations

import secrets


def unique(name: str) -> str:
    """The name with a random end; good as a stream's name and as the first token of its subjects."""
    return f"{name}_{secrets.token_hex(4)}"
