"""Storage overhead (STO): what a message counts towards ``bytes`` and ``max_bytes``.

The overhead is a fixed number for each message and its subject (STO-08), so the bytes of a stream are the sum over its
messages (STO-05), and every limit in bytes is a limit of these sizes (STO-06).
"""

from __future__ import annotations

from typing import NamedTuple, Self


class Measure(NamedTuple):
    """The fixed part of a message's size: of each record, and of one that has headers."""

    record: int
    headers: int

    @classmethod
    def of_storage(cls, storage: str) -> Self:
        """The overhead in a stream of this storage: file, or memory (STO-07)."""
        return cls(16, 0) if storage == "memory" else cls(30, 4)

    def of(self, subject: str, header_bytes: int, payload: bytes) -> int:
        """What the message counts, with a header block of so many bytes (STO-01, STO-02, STO-03)."""
        base = self.record + len(subject.encode("utf-8")) + len(payload)
        return base + self.headers + header_bytes if header_bytes else base
