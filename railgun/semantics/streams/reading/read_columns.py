"""The messages of an answer, collected as columns: each whole if the owner has it at hand and it is not large, else its place in the log."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from railgun.model.cluster_limits import LARGE_MESSAGE
from railgun.model.headers import MAX_HEADER_BYTES, MSG_SIZE, Headers, is_tombstone
from railgun.protocol.columnar.read_records import HEADERS, HERE, INDEX, WHOLE, ReadReply
from railgun.semantics.messages.blocks import Block
from railgun.semantics.messages.body_lookup import Value
from railgun.semantics.streams.owned_stream import Entry, OwnedStream

MOST_BYTES = 4_194_304  # an answer is one record
MOST_MESSAGES = 16_384
_EACH = 48  # bytes of a message in an answer, beside its subject, headers and payload


class ReadColumns:
    """Columns that are filled until a number of messages or bytes is reached; one message always fits."""

    def __init__(
        self,
        stream: OwnedStream,
        form: str = WHOLE,
        limit: int = MOST_MESSAGES,
        max_bytes: int = MOST_BYTES,
    ) -> None:
        self._stream = stream
        self._form = form
        self._limit = min(limit, MOST_MESSAGES)
        self._room = min(max_bytes, MOST_BYTES)
        self._sequences: list[int] = []
        self._times: list[int] = []
        self._subjects: list[str] = []
        self._headers: list[Headers] = []
        self._payloads: list[bytes] = []
        self._places: dict[
            int, int
        ] = {}  # offsets in the log of what is not at hand, by place in the columns
        self._tombstones: list[int] = []
        self._known: Headers = ()  # of the value that was added last, and whether they make it a tombstone
        self._buries = False

    def __len__(self) -> int:
        return len(self._sequences)

    @property
    def is_full(self) -> bool:
        """Whether no other message is taken."""
        return len(self) >= self._limit or (self._room <= 0 and len(self) > 0)

    def add(self, entry: Entry) -> bool:
        """Take one message, if there is room for it."""
        cost = self._cost(entry.size, entry.subject)
        if self.is_full or (cost > self._room and len(self)):
            return False
        self._room -= cost
        if entry.tombstone:
            self._tombstones.append(len(self))
        body = None if self._form == INDEX else self._stream.body(entry.sequence)
        headers, payload = ((), None) if body is None else body
        self._extend(
            [entry.subject],
            [entry.time],
            [headers],
            [payload],
            range(entry.sequence, entry.sequence + 1),
            [entry.size],
        )
        return True

    def add_value(self, subject: str, value: Value) -> bool:
        """Take one message that was found under its subject, if there is room for it."""
        cost = value.size + 4 * len(subject) + _EACH
        if self.is_full or (cost > self._room and len(self)):
            return False
        self._room -= cost
        if value.headers is not self._known:  # most share them
            self._known, self._buries = value.headers, is_tombstone(value.headers)
        if self._buries:
            self._tombstones.append(len(self))
        self._sequences.append(value.sequence)
        self._times.append(value.time)
        self._subjects.append(subject)
        self._headers.append(value.headers)
        self._payloads.append(value.payload)
        return True

    def add_run(self, block: Block, first: int, behind: int) -> int:
        """Take messages of the block as long as there is room: the sequence behind the last one taken."""
        behind = min(behind, first + self._limit - len(self))
        start, stop = first - block.base, behind - block.base
        numbers, named = block.subject_of, block.subjects
        subjects = (
            [named[0]] * (stop - start) if numbers is None else [named[one] for one in numbers[start:stop]]
        )
        sizes = block.sizes[start:stop]
        costs = list(map(self._cost, sizes, subjects))
        if sum(costs) > self._room:
            count = sum(spent <= self._room for spent in accumulate(costs)) or int(not len(self))
            stop, behind = start + count, first + count
            sizes, costs, subjects = sizes[:count], costs[:count], subjects[:count]
        if start >= stop:
            self._room = 0  # what comes next may be smaller, and must not overtake
            return first
        self._room -= sum(costs)
        if block.tombstones:
            before = len(self) - start
            self._tombstones += [before + index for index in range(start, stop) if block.is_tombstone(index)]
        headers, payloads = self._bodies(block, first, behind)
        self._extend(subjects, block.times[start:stop], headers, payloads, range(first, behind), sizes)
        return behind

    def _bodies(
        self, block: Block, first: int, behind: int
    ) -> tuple[Sequence[Headers], Sequence[bytes | None]]:
        if self._form == INDEX:
            return (), ()
        return self._stream.bodies.find_run(block, first, behind)

    def _extend(
        self,
        subjects: list[str],
        times: Sequence[int],
        headers: Sequence[Headers],
        payloads: Sequence[bytes | None],
        sequences: range,
        sizes: Sequence[int],
    ) -> None:
        before = len(self)
        self._sequences += sequences
        self._times += times
        self._subjects += subjects
        if self._form == INDEX:
            return
        if None in payloads or max(sizes) > LARGE_MESSAGE:
            index, log_end = self._stream.index, self._stream.log_end
            away = [at for at, payload in enumerate(payloads) if payload is None or sizes[at] > LARGE_MESSAGE]
            self._places |= {before + at: index.offset(sequences[at], log_end) for at in away}
            headers = [() if before + at in self._places else one for at, one in enumerate(headers)]
            payloads = [b"" if before + at in self._places else one for at, one in enumerate(payloads)]
        whole = [payload or b"" for payload in payloads]
        if self._form == HEADERS:
            headers = [
                one if before + at in self._places else [*one, (MSG_SIZE, b"%d" % len(payload))]
                for at, (one, payload) in enumerate(zip(headers, whole, strict=True))
            ]
            whole = [b""] * len(whole)
        self._headers += headers
        self._payloads += whole

    def _cost(self, size: int, subject: str) -> int:
        """Bytes of the message in the answer, at most; its size counts subject, headers and payload."""
        if self._form == WHOLE and size <= LARGE_MESSAGE:
            return size + _EACH
        named = 4 * len(subject) + _EACH
        return named + min(size, MAX_HEADER_BYTES) if self._form == HEADERS else named

    def reply(
        self, request: int, indexes: Sequence[int] = (), *, end: int = 0, following: int = 0
    ) -> ReadReply:
        """What was collected, as an answer. ``indexes``: which of the gets each message answers."""
        places = self._places
        return ReadReply(
            request,
            self._stream.topic,
            self._stream.incarnation,
            indexes,
            self._sequences,
            self._times,
            self._subjects,
            self._headers if any(self._headers) else (),
            self._payloads if any(self._payloads) else (),
            [places.get(at, HERE) for at in range(len(self))] if places else (),
            frozenset(self._tombstones),
            (),
            end,
            following,
        )
