"""One message of an answer, and a whole answer, as both systems give them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Frame:
    """A message that came to the reply address: a status, or headers and a body."""

    body: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)
    status: int | None = None
    description: str = ""
    subject: str = ""
    reply: str = ""


def header_block(block: bytes) -> tuple[int | None, str, list[tuple[str, str]]]:
    """Status, description and headers of a block as NATS writes it. A value's leading spaces are not part of it."""
    first, *lines = block.decode("utf-8", "replace").split("\r\n")
    status, _, description = first.removeprefix("NATS/1.0").strip().partition(" ")
    pairs = [line.partition(":")[::2] for line in lines if line]
    return (
        int(status) if status else None,
        description.strip(),
        [(name, value.strip()) for name, value in pairs],
    )
