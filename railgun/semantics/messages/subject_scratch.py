"""Subjects of a stream that have left memory: the scratch space of the shard holds them, outside of any transaction.

A subject is one number, its newest sequence and its count packed, and where the index keeps them the sequences of all its
messages.
"""

from __future__ import annotations

import struct
from array import array
from collections import deque
from collections.abc import Collection, Iterable, Iterator

from railgun.state import keys
from railgun.state.table import Scratch

COUNT_BITS = 32  # of a packed number: newest sequence << 32 | count
COUNT_MASK = (1 << COUNT_BITS) - 1
_PACKED = struct.Struct("=QI")


class SubjectScratch:
    """The subjects of one stream in the scratch space, which is empty at first."""

    def __init__(self, scratch: Scratch, incarnation: int) -> None:
        self._scratch = scratch
        self._prefix = keys.number(incarnation)
        self.clear()

    def clear(self) -> None:
        self._scratch.clear(self._prefix)

    def put(self, subjects: Iterable[tuple[str, int, Collection[int]]]) -> None:
        """Keep these: subject, packed number and sequences."""
        values: dict[bytes, bytes | None] = {}
        for subject, packed, sequences in subjects:
            value = _PACKED.pack(packed >> COUNT_BITS, packed & COUNT_MASK)
            values[self._key(subject)] = value + array("q", sequences).tobytes() if sequences else value
        self._scratch.apply(values)

    def drop(self, subject: str) -> None:
        """The last message on the subject is gone."""
        self._scratch.apply({self._key(subject): None})

    def get(self, subject: str) -> tuple[int, deque[int]]:
        """The packed number of the subject, 0 if it is not here, and its sequences."""
        value = self._scratch.get(self._key(subject))
        if value is None:
            return 0, deque()
        last, count = _PACKED.unpack_from(value)
        return last << COUNT_BITS | count, deque(memoryview(value)[_PACKED.size :].cast("q"))

    def counts(self) -> Iterator[tuple[str, int]]:
        """All subjects, with the number of messages as it was when they left memory."""
        for key, value in self._scratch.scan(self._prefix):
            yield key[len(self._prefix) :].decode("utf-8"), _PACKED.unpack_from(value)[1]

    def seek(self, begin: str) -> Iterator[str]:
        """Subjects from the text on, ascending."""
        for key, _ in self._scratch.scan(self._prefix, self._key(begin)):
            yield key[len(self._prefix) :].decode("utf-8")

    def _key(self, subject: str) -> bytes:
        return self._prefix + subject.encode("utf-8", "surrogatepass")  # a pattern may be any text
