"""Blocks: the index of consecutive messages, as columns.

A block is written once, when a drain ends, and never changed; removals are a bitmap beside it. So one drain costs one
record a block of up to 512 messages, and evicting one old message costs 64 bytes. With its last message a block goes.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from railgun.model.subjects import Filter
from railgun.protocol import avro as wire
from railgun.protocol.columnar.columns import pack_column, unpack_column

BLOCK_SIZE = 512
_BETWEEN = "\0"  # no subject holds it
_KEPT = re.compile("0+")
_NUMBER = 40  # bytes of a number that is an object of its own
_TEXT = 60  # bytes of a text beside its characters
NEVER = -1  # expiry of a message that neither TTL nor age removes


class Entry(NamedTuple):
    """What the index knows of one message."""

    sequence: int
    subject: str
    size: int
    time: int
    # 0: none; NEVER; above: when its TTL ends, ns; below NEVER: the same of a delete marker, negated
    expiry: int
    tombstone: bool = False  # it only says that its key was deleted

    @property
    def ends(self) -> int:
        """When its TTL ends, ns; 0 if it has none."""
        return 0 if self.expiry == NEVER else abs(self.expiry)

    @property
    def is_marker(self) -> bool:
        """A delete marker, left by a message that expired."""
        return self.expiry < NEVER


class Removed(NamedTuple):
    """Messages that are gone: their bytes, and of each subject how many and the newest sequence."""

    size: int
    subjects: dict[str, tuple[int, int]]


class Block:
    """Up to 512 consecutive messages, decoded; ``removed`` is the bitmap beside it (None: nothing removed)."""

    __slots__ = (
        "_joined",
        "_subjects",
        "base",
        "count",
        "expiries",
        "offset_floor",
        "removed",
        "sizes",
        "subject_of",
        "times",
        "tombstones",
    )

    def __init__(
        self,
        base: int,
        joined: str,
        subject_of: array[int] | None,
        sizes: Sequence[int],
        times: Sequence[int],
        expiries: Sequence[int] | None,
        offset_floor: int,
        tombstones: bytes = b"",
    ) -> None:
        """``joined``: each subject once, with NUL between them; ``subject_of``: which of them each message has.

        ``tombstones``: a bit for each message, empty if none is one.
        """
        self.base = base
        self.count = len(sizes)
        self._joined = joined
        self._subjects: list[str] | None = None
        self.subject_of = subject_of
        self.sizes = sizes
        self.times = times
        self.expiries = expiries
        self.offset_floor = offset_floor
        self.tombstones = tombstones
        self.removed: bytearray | None = None

    @property
    def end(self) -> int:
        """The sequence after the last message of the block."""
        return self.base + self.count

    @property
    def memory(self) -> int:
        """Bytes that it takes, at most: once its subjects are taken apart."""
        columns = (self.sizes, self.times, self.subject_of, self.expiries)
        numbers = sum(
            sys.getsizeof(one) if isinstance(one, array) else _NUMBER * len(one)
            for one in columns
            if one is not None
        )
        return numbers + 2 * len(self._joined) + _TEXT * (self._joined.count(_BETWEEN) + 1)

    @property
    def subjects(self) -> list[str]:
        """Each subject once; taken apart when they are asked for, because many a block is only passed over."""
        if self._subjects is None:
            self._subjects = self._joined.split(_BETWEEN)
        return self._subjects

    def number_of(self, subject: str) -> int | None:
        """Which of the subjects it is; None if no message of the block has it."""
        at = f"{_BETWEEN}{self._joined}{_BETWEEN}".find(f"{_BETWEEN}{subject}{_BETWEEN}")
        return None if at < 0 else self._joined.count(_BETWEEN, 0, at)

    def numbers_of(self, wanted: Filter) -> list[int]:
        """Which of the subjects the filter selects."""
        if wanted.literal is None:
            return wanted.places(self._joined)
        number = self.number_of(wanted.literal)
        return [] if number is None else [number]

    @property
    def num_subjects(self) -> int:
        return self._joined.count(_BETWEEN) + 1

    def subject(self, index: int) -> str:
        return self.subjects[self.subject_of[index] if self.subject_of is not None else 0]

    def all_subjects(self) -> list[str]:
        """The subject of each message."""
        if self.subject_of is None:
            return [self.subjects[0]] * self.count
        return [self.subjects[number] for number in self.subject_of]

    def entry(self, index: int) -> Entry:
        expiry = self.expiries[index] if self.expiries is not None else 0
        return Entry(
            self.base + index,
            self.subject(index),
            self.sizes[index],
            self.times[index],
            expiry,
            self.is_tombstone(index),
        )

    def is_tombstone(self, index: int) -> bool:
        """Whether the message only says that its key was deleted."""
        return bool(self.tombstones) and bool(self.tombstones[index >> 3] >> (index & 7) & 1)

    def never_stored(self, index: int) -> int:
        """How many sequences before the index were given to messages that are not in the log: they have no subject."""
        number = None if self.subject_of is None else self.number_of("")
        return 0 if self.subject_of is None or number is None else self.subject_of[:index].count(number)

    def is_removed(self, index: int) -> bool:
        return self.removed is not None and bool(self.removed[index >> 3] >> (index & 7) & 1)

    @property
    def is_gone(self) -> bool:
        """Whether none of its messages exists any more."""
        return self.removed is not None and int.from_bytes(self.removed, "little").bit_count() == self.count

    def count_existing(self, start: int, stop: int) -> int:
        """How many messages of the indexes [start, stop) were not removed."""
        if start >= stop or self.removed is None:
            return max(0, stop - start)
        gone = int.from_bytes(self.removed, "little") >> start & (1 << stop - start) - 1
        return stop - start - gone.bit_count()

    def existing(self, start: int) -> list[tuple[int, int]]:
        """Runs of messages from index ``start`` on that were not removed: index and count of each."""
        count = self.count - start
        if count <= 0:
            return []
        gone = 0 if self.removed is None else int.from_bytes(self.removed, "little") >> start
        if not gone:
            return [(start, count)]
        bits = f"{gone:0{count}b}"[::-1]  # a character for each message, "1" for one that is gone
        return [(start + found.start(), found.end() - found.start()) for found in _KEPT.finditer(bits)]

    def load_removed(self, bitmap: bytes) -> None:
        """Take over the bitmap that was stored beside the block."""
        if len(bitmap) != (self.count + 7) // 8:
            raise ValueError(f"a bitmap of {len(bitmap)} bytes for {self.count} messages")
        self.removed = bytearray(bitmap)

    def mark_removed(self, index: int) -> None:
        self.bitmap()[index >> 3] |= 1 << (index & 7)

    def bitmap(self) -> bytearray:
        """The bitmap of what is removed, to be changed."""
        if self.removed is None:
            self.removed = bytearray((self.count + 7) // 8)
        return self.removed

    def remove_range(self, start: int, stop: int) -> Removed:
        """Mark the messages of [start, stop) as removed; what they were."""
        every = (1 << stop - start) - 1 << start
        before = 0 if self.removed is None else int.from_bytes(self.removed, "little")
        self.removed = bytearray((before | every).to_bytes((self.count + 7) // 8, "little"))
        gone: Sequence[int] = range(start, stop)
        if before & every:
            gone = [index for index in gone if not before >> index & 1]
        if not gone:
            return Removed(0, {})
        sizes = self.sizes[start:stop] if len(gone) == stop - start else [self.sizes[index] for index in gone]
        if self.subject_of is None:
            return Removed(sum(sizes), {self.subjects[0]: (len(gone), self.base + gone[-1])})
        numbers = [self.subject_of[index] for index in gone]
        newest = dict(zip(numbers, gone, strict=True))
        counts = Counter(numbers)
        return Removed(
            sum(sizes),
            {self.subjects[number]: (counts[number], self.base + index) for number, index in newest.items()},
        )

    def encode(self) -> bytes:
        return wire.encode(
            "message_block",
            {
                "subjects": [self._joined],
                "subject_of": b"" if self.subject_of is None else pack_column("H", self.subject_of),
                "sizes": pack_column("I", self.sizes),
                "times": pack_column("q", self.times),
                "expiries": b"" if self.expiries is None else pack_column("q", self.expiries),
                "offset_floor": self.offset_floor,
                "tombstones": self.tombstones,
            },
        )

    @classmethod
    def decode(cls, base: int, data: bytes) -> Block:
        """The block as it was encoded. Raises WireError, or ValueError where the columns do not fit together."""
        value = wire.decode("message_block", data)
        joined = _BETWEEN.join(value["subjects"])  # one text, or as they were written once: a text each
        subject_of = unpack_column("H", value["subject_of"]) if value["subject_of"] else None
        expiries = unpack_column("q", value["expiries"]) if value["expiries"] else None
        sizes, times = unpack_column("I", value["sizes"]), unpack_column("q", value["times"])
        if {len(column) for column in (sizes, times, subject_of, expiries) if column is not None} != {
            len(sizes)
        }:
            raise ValueError("columns of a block that differ in length")
        tombstones = value["tombstones"]
        if len(tombstones) not in (0, (len(sizes) + 7) // 8):
            raise ValueError(f"{len(tombstones)} bytes of tombstones for {len(sizes)} messages")
        return cls(base, joined, subject_of, sizes, times, expiries, value["offset_floor"], tombstones)


def build(
    base: int,
    subjects: Sequence[str],
    sizes: Sequence[int],
    times: Sequence[int],
    expiries: Sequence[int],
    offset_floor: int,
    tombstones: bytes = b"",
) -> Block:
    """A block of the given columns (at most BLOCK_SIZE long); ``expiries`` and ``tombstones`` may be empty."""
    distinct = dict.fromkeys(subjects)
    subject_of = None
    if len(distinct) > 1:
        number: Iterable[int] = range(len(subjects))
        if len(distinct) < len(subjects):
            number = map(dict(zip(distinct, number, strict=False)).__getitem__, subjects)
        subject_of = array("H", number)
    joined = _BETWEEN.join(distinct)
    return Block(base, joined, subject_of, sizes, times, expiries or None, offset_floor, tombstones)
