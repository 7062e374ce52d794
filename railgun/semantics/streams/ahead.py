"""The messages of a batch before the one that is examined: they count as stored, although nothing is stored yet."""

from __future__ import annotations

from collections import deque
from itertools import islice

from railgun.model.subjects import Filter
from railgun.semantics.streams.owned_stream import Entry, OwnedStream


class Ahead:
    """What a stream would hold with the first messages of a batch stored; the stream itself is not changed.

    Messages that the limits would remove count until the batch is stored, but for those that a later message of the same
    subject pushes out under discard ``new``, and those that a roll-up removes.
    """

    def __init__(self, state: OwnedStream) -> None:
        self._state = state
        self.begun = False  # whether there are any
        self.written: dict[str, None] = {}  # their subjects, in order
        self._none_of: dict[
            tuple[str, ...], int
        ] = {}  # by patterns: so many of the subjects match none of them
        self.totals: dict[str, int | None] = {}  # of those subjects, as counters; None: not one
        self.messages = state.messages
        self.bytes = state.bytes
        self._rolled_up = False  # all that was stored before the batch
        self._sizes: dict[str, _Sizes] = {}  # by subject

    def wrote(self, what: str | Filter) -> bool:
        """Whether one of them is on the subject, or on one that the filter matches."""
        if isinstance(what, str):
            return what in self.written
        known = self._none_of.get(what.patterns, 0)  # a batch asks the same of each of its messages
        if any(map(what.matches, islice(self.written, known, None))):
            return True
        self._none_of[what.patterns] = len(self.written)
        return False

    @property
    def begins_anew(self) -> bool:
        """Whether a roll-up takes all that the stream holds."""
        return self._rolled_up

    def has(self, subject: str) -> bool:
        """Whether the subject would have any message."""
        return subject in self.totals or (not self._rolled_up and bool(self._state.last_of(subject)))

    def count_of(self, subject: str) -> int:
        """The messages that the subject would have."""
        return len(self._of(subject))

    def oldest_size(self, subject: str) -> int:
        """Bytes of the oldest message that the subject would have; it has one."""
        return self._of(subject).oldest

    def add(self, subject: str, size: int, rollup: str, total: int | None, *, wanted: bool) -> None:
        """One more message of the batch. ``wanted``: it is stored, and does not only take a sequence."""
        self.begun = True
        self.written[subject] = None
        if not wanted:
            return
        self.totals[subject] = total
        self.messages += 1
        self.bytes += size
        if rollup == "all":
            self._rolled_up, self._sizes = True, {subject: _Sizes(self._state, subject, 0)}
            self._sizes[subject].append(size)
            self.messages, self.bytes = 1, size
        elif rollup or self._caps:
            sizes = self._of(subject)
            sizes.append(size)
            while len(sizes) > 1 and (rollup or len(sizes) > self._state.config.max_msgs_per_subject):
                self.messages -= 1
                self.bytes -= sizes.popleft()

    @property
    def _caps(self) -> bool:
        return self._state.config.discard == "new" and self._state.config.max_msgs_per_subject > 0

    def _of(self, subject: str) -> _Sizes:
        sizes = self._sizes.get(subject)
        if sizes is None:
            count = 0 if self._rolled_up else self._state.count_of(subject)
            sizes = self._sizes[subject] = _Sizes(self._state, subject, count)
        return sizes


class _Sizes:
    """The sizes of the messages that one subject would have, oldest first.

    Those of the stream are looked at when they are asked for: a subject may have many, and most batches ask for one.
    """

    def __init__(self, state: OwnedStream, subject: str, stored: int) -> None:
        """``stored``: how many the stream holds now, and would go on to hold."""
        self._state, self._subject = state, subject
        self._stored = stored  # of them, those that are not pushed out
        self._from = 0  # where the oldest of those is looked for
        self._added: deque[int] = deque()
        if (
            stored and state.next_of(subject, 0) is None
        ):  # only the messages themselves tell: all are read at once
            found = state.iterate(subjects=Filter([subject]), reverse=True)
            self._added.extendleft(entry.size for entry in islice(found, stored))
            self._stored = 0

    def __len__(self) -> int:
        return self._stored + len(self._added)

    @property
    def oldest(self) -> int:
        return self._first().size if self._stored else self._added[0]

    def append(self, size: int) -> None:
        self._added.append(size)

    def popleft(self) -> int:
        if not self._stored:
            return self._added.popleft()
        entry = self._first()
        self._stored -= 1
        self._from = entry.sequence + 1
        return entry.size

    def _first(self) -> Entry:
        entry = self._state.entry(self._state.next_of(self._subject, self._from) or 0)
        assert entry is not None
        return entry
