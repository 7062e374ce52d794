"""Where two answers differ: paths into them, with what is found on either side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final


class _Missing:
    """Stands for what one side does not have."""

    def __repr__(self) -> str:
        return "–"


MISSING: Final = _Missing()
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where the answers differ."""

    path: Path
    nats: Any
    railgun: Any

    @property
    def field(self) -> str | int:
        """The last part of the path; empty where whole answers differ."""
        return self.path[-1] if self.path else ""

    @property
    def place(self) -> str:
        """The path for people, without positions in lists: ``body.config.max_msgs``."""
        return ".".join(part for part in self.path if isinstance(part, str))


def differences(nats: Any, railgun: Any, path: Path = ()) -> Iterator[Difference]:
    """Every place where the two values differ, the deepest that can be named. An empty object is as good as none."""
    if isinstance(nats, dict) and railgun is MISSING:
        railgun = {}
    elif isinstance(railgun, dict) and nats is MISSING:
        nats = {}
    if isinstance(nats, dict) and isinstance(railgun, dict):
        for key in {**nats, **railgun}:
            yield from differences(nats.get(key, MISSING), railgun.get(key, MISSING), (*path, key))
    elif isinstance(nats, list) and isinstance(railgun, list) and len(nats) == len(railgun):
        for position, (one, other) in enumerate(zip(nats, railgun, strict=True)):
            yield from differences(one, other, (*path, position))
    elif type(nats) is not type(railgun) or nats != railgun:
        yield Difference(path, nats, railgun)
