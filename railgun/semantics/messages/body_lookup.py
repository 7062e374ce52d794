"""Headers and payloads that the owner of a stream has at hand: an answer that needs one of them need not send to the log.

Among the newest messages of the shard, in the table where the stream keeps bodies (``allow_direct``) or stragglers were copied
there, or beside their block on the owner's disk. Only kept bodies are state: they leave the table over several drains once nobody needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice, repeat, takewhile
from typing import NamedTuple

from railgun.model.headers import Headers
from railgun.protocol import avro as wire
from railgun.protocol.columnar.columns import PackedBodies
from railgun.semantics.messages.blocks import Block
from railgun.semantics.messages.budget import ShardMemory
from railgun.semantics.messages.index import MessageIndex
from railgun.semantics.messages.kept_body import BodyReader
from railgun.semantics.messages.recent import RecentMessages
from railgun.state import keys
from railgun.state.table import Overlay
from railgun.state.unreadable_entries import decoded


class Value(NamedTuple):
    """A message that is kept under its subject."""

    sequence: int
    headers: Headers
    payload: bytes
    time: int  # ns; 0: only its block tells
    size: int  # bytes in the table


class BodyLookup:
    """The bodies of one stream's messages, as far as its owner has them."""

    def __init__(self, overlay: Overlay, incarnation: int, memory: ShardMemory) -> None:
        self._overlay = overlay
        self._incarnation = incarnation
        self._memory = memory
        self.keeps = False  # new bodies are kept in the table
        self.copied_below = 0  # bodies of messages below are there too, and need not be in the log
        self.recent: RecentMessages | None = None  # of the shard; a stream can do without
        # Of the block that was looked at last: neighbours follow.
        self._beside: tuple[int, PackedBodies | None] = (0, None)
        # Where the removal of strays goes on: a table is slow where much was removed.
        self._swept_below = 0
        self._swept_values = b""
        self._reader = BodyReader()
        # Whether a body is kept under the subject of its message, of which there is one at most: the next one replaces it.
        self.is_value: Callable[[int], bool] = lambda _: False

    def find(self, sequence: int, index: MessageIndex) -> tuple[Headers, bytes] | None:
        """Headers and payload of a message that exists, None if only the log has them."""
        found = self._find_recent(sequence)
        if found is None and self._may_have(sequence):
            entry = index.trace(sequence) if self.is_value(sequence) else None
            found = self._find_kept(sequence, None if entry is None else entry.subject)
        if found is not None:
            return found
        block = index.block_of(sequence)
        return None if block is None else self._find_beside(block.base, sequence)

    def find_of(self, block: Block, sequence: int) -> tuple[Headers, bytes] | None:
        """As :meth:`find`, of a message of this block."""
        found = self._find_recent(sequence)
        if found is None and self._may_have(sequence):
            subject = block.subject(sequence - block.base) if self.is_value(sequence) else None
            found = self._find_kept(sequence, subject)
        return found or self._find_beside(block.base, sequence)

    def find_run(self, block: Block, first: int, behind: int) -> tuple[list[Headers], list[bytes | None]]:
        """Headers and payloads of the messages [first, behind) of this block; None for a payload that only the log has."""
        if self.may_have_some or first < self.copied_below:
            found = [self.find_of(block, sequence) for sequence in range(first, behind)]
            headers: list[Headers] = [() if one is None else one[0] for one in found]
            return headers, [None if one is None else one[1] for one in found]
        newest = None if self.recent is None else self.recent.first(self._incarnation)
        if newest is not None and self.recent is not None and first >= newest:
            return self.recent.find_run(self._incarnation, first, behind)
        middle = behind if newest is None else min(newest, behind)
        beside = self._packed_beside(block.base)
        count = middle - first
        headers, payloads = [()] * count, list[bytes | None]([None] * count)
        if beside is not None:
            headers, payloads = beside.find_run(first - block.base, middle - block.base)
        if middle < behind:
            more_headers, more_payloads = self.find_run(block, middle, behind)
            return [*headers, *more_headers], [*payloads, *more_payloads]
        return headers, payloads

    def values_of(self, subjects: Sequence[str]) -> list[Value | None]:
        """What is kept under each of the subjects, whether or not it is the newest message there."""
        prefix = keys.all_of(keys.VALUE, self._incarnation)
        names = [prefix + subject.encode("utf-8") for subject in subjects]
        return list(map(self._value, names, self._overlay.get_many(names)))

    def _value(self, key: bytes, data: bytes | None) -> Value | None:
        if data is None:
            return None
        headers, payload, time = decoded(key, self._reader.read, data, keys.NUMBER_BYTES)
        return Value(keys.number_in(data), headers, payload, time, len(data))

    def is_recent(self, sequence: int) -> bool:
        """Whether the message is as new as the newest of the shard that are in memory."""
        oldest = None if self.recent is None else self.recent.first(self._incarnation)
        return oldest is not None and sequence >= oldest

    def _find_recent(self, sequence: int) -> tuple[Headers, bytes] | None:
        """Among the newest of the shard."""
        return None if self.recent is None else self.recent.find(self._incarnation, sequence)

    def _find_kept(self, sequence: int, subject: str | None) -> tuple[Headers, bytes] | None:
        """In the table, also what this drain removed or replaced there. ``subject``: of a message that is kept under it."""
        if subject is None:
            key, data = self._key(sequence), self._overlay.before_or_after(self._key(sequence))
        else:
            key, number = self._value_key(subject), keys.number(sequence)
            found = (one for one in self._overlay.versions(key) if one is not None and one.startswith(number))
            data = next((one[len(number) :] for one in found), None)
        if data is None:
            return None
        body = decoded(key, self._reader.read, data)
        return list(body.headers), body.payload

    def _find_beside(self, base: int, sequence: int) -> tuple[Headers, bytes] | None:
        """Beside the block that begins at ``base``."""
        beside = self._packed_beside(base)
        return None if beside is None else beside.find(sequence - base)

    def _packed_beside(self, base: int) -> PackedBodies | None:
        """All that is beside the block that begins at ``base``."""
        if self._beside[0] != base or self._beside[1] is None:
            data = self._overlay.companion(keys.of(keys.BLOCK, self._incarnation, base))
            self._beside = base, None if data is None else PackedBodies(data)
            if data is not None:
                self._memory.caches.keep(self._incarnation, "bodies", len(data), self._let_go)
        return self._beside[1]

    def _let_go(self) -> None:
        self._beside = (0, None)

    # -- kept in the table

    def keep(self, sequence: int, subject: str, headers: Headers, payload: bytes, time: int) -> None:
        """``time``: when it was stored. A value has it beside it; of others only their blocks tell."""
        body = wire.encode_headers(headers) + wire.encode_bytes(payload)
        if self.is_value(sequence):
            self._overlay.put(self._value_key(subject), keys.number(sequence) + body + wire.encode_time(time))
        else:
            self._overlay.put(self._key(sequence), body)

    def keep_run(
        self,
        first: int,
        subjects: list[str],
        headers: list[Headers],
        payloads: list[bytes],
        gone: Collection[int],
        times: Sequence[int] = (),
    ) -> None:
        """Many, with consecutive sequences; those that are ``gone`` already are not kept at all.

        ``times``: as in :meth:`keep`, for each; not needed where no subject has a limit, so that none is a value.
        """
        as_values = self.is_value(first)
        prefix = keys.all_of(keys.VALUE if as_values else keys.BODY, self._incarnation)
        known: Headers | None = None
        head = b""
        kept: dict[bytes, bytes | None] = {}
        sequences = range(first, first + len(payloads))
        stored: Iterable[int] = times or repeat(0, len(payloads))
        for sequence, subject, given, payload, time in zip(
            sequences, subjects, headers, payloads, stored, strict=True
        ):
            if given is not known:  # most share them
                known, head = given, wire.encode_headers(given)
            body = head + wire.encode_bytes(payload)
            if as_values:
                kept[prefix + subject.encode("utf-8")] = keys.number(sequence) + body + wire.encode_time(time)
            elif sequence not in gone:
                kept[prefix + keys.number(sequence)] = body
        self._overlay.change(kept)

    def drop(self, sequence: int, *, new: bool = False) -> None:
        """The message is gone, whose body is not a value. ``new``: it is of the drain that runs, so the table has nothing of it."""
        if self._may_have(sequence):
            if new:
                self._overlay.forget(self._key(sequence))
            else:
                self._overlay.delete(self._key(sequence))

    def drop_run(self, sequences: list[int], new_from: int) -> None:
        """As :meth:`drop`, of many; ``new_from``: from this sequence on they are of the drain that runs."""
        prefix = keys.all_of(keys.BODY, self._incarnation)
        doomed: dict[bytes, bytes | None] = {}
        for sequence in sequences:
            if sequence >= new_from:
                self.drop(sequence, new=True)
            elif self._may_have(sequence):
                doomed[prefix + keys.number(sequence)] = None
        self._overlay.change(doomed)

    def drop_value(self, subject: str) -> None:
        """No message is left whose body is kept under the subject."""
        if self.may_have_some:
            self._overlay.delete(self._value_key(subject))

    @property
    def may_have_some(self) -> bool:
        """Whether the table may hold bodies of messages other than copies."""
        return self.keeps or self._incarnation in self._memory.untidy

    def _may_have(self, sequence: int) -> bool:
        """Whether the table may hold the body."""
        return sequence < self.copied_below or self.may_have_some

    # -- strays: bodies in the table that nobody needs

    def find_strays(self, first: int) -> None:
        """Untidy if there are any. ``first``: the first message."""
        self._swept_below, self._swept_values = 0, b""
        if next(self._strays(first), None) is not None:
            self._memory.untidy.add(self._incarnation)

    def drop_strays(self, first: int, most: int) -> int:
        """Remove at most ``most``; returns how many. The stream is tidy if that was all."""
        doomed = list(islice(self._strays(first), most))
        for key in doomed:
            self._overlay.delete(key)
        if len(doomed) < most:
            self._memory.untidy.discard(self._incarnation)
        elif doomed[-1].startswith(keys.VALUE):
            self._swept_values = doomed[-1]
        else:
            self._swept_below = keys.sequence_in(doomed[-1]) + 1
        return len(doomed)

    def _strays(self, first: int) -> Iterator[bytes]:
        """Keys of stray bodies, as things are now: below the first message; and where none are kept, all but the copies.

        What is a stray is never remembered: a body that is one now is a copy once its message is a straggler.
        """
        yield from takewhile(lambda key: keys.sequence_in(key) < first, self._kept_from(0))
        if not self.keeps:
            yield from self._kept_from(max(first, self.copied_below))
            prefix = keys.all_of(keys.VALUE, self._incarnation)
            yield from (key for key, _ in self._overlay.scan(prefix, self._swept_values or None))

    def _kept_from(self, sequence: int) -> Iterator[bytes]:
        """Keys of kept bodies from the sequence on, without those that were looked at before."""
        prefix = keys.all_of(keys.BODY, self._incarnation)
        start = prefix + keys.number(max(sequence, self._swept_below))
        return (key for key, _ in self._overlay.scan(prefix, start))

    def _key(self, sequence: int) -> bytes:
        return keys.of(keys.BODY, self._incarnation, sequence)

    def _value_key(self, subject: str) -> bytes:
        return keys.all_of(keys.VALUE, self._incarnation) + subject.encode("utf-8")
