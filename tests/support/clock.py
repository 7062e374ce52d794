"""What tests know of time: it can be moved forward."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The clock of the cluster under test."""

    def advance(self, seconds: float) -> None:
        """Move time forward; what is due then happens."""
