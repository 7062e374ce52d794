"""The messages of a batch before the one that is examined: they count as stored, although nothing is stored yet."""

from __future__ import annotations

from collections import deque
from itertools import islice

from railgun.model.subjects import Filter
from railgun.semantics.streams.owned_stream import OwnedStream


class Ahead:
    """What a stream would hold with the first messages of a batch stored; the stream itself is not changed.

    Messages that the limits would remove count until the batch is stored, but for those that a later message of the same
    subject pushes out under discard ``new``, and those that a roll-up removes.
    """

    def __init__(self, state: OwnedStream) -> None:
        self._state = state
        self.begun = False  # whether there are any
        self.written: set[str] = set()  # their subjects
        self.totals: dict[str, int | None] = {}  # of those subjects, as counters; None: not one
        self.messages = state.messages
        self.bytes = state.bytes
        self._rolled_up = False  # all that was stored before the batch
        self._sizes: dict[str, deque[int]] = {}  # of the messages of a subject, oldest first

    def wrote(self, what: str | Filter) -> bool:
        """Whether one of them is on the subject, or on one that the filter matches."""
        if isinstance(what, str):
            return what in self.written
        return any(map(what.matches, self.written))

    def has(self, subject: str) -> bool:
        """Whether the subject would have any message."""
        return subject in self.totals or (not self._rolled_up and bool(self._state.last_of(subject)))

    def count_of(self, subject: str) -> int:
        """The messages that the subject would have."""
        return len(self._of(subject))

    def oldest_size(self, subject: str) -> int:
        """Bytes of the oldest message that the subject would have; it has one."""
        return self._of(subject)[0]

    def add(self, subject: str, size: int, rollup: str, total: int | None, *, wanted: bool) -> None:
        """One more message of the batch. ``wanted``: it is stored, and does not only take a sequence."""
        self.begun = True
        self.written.add(subject)
        if not wanted:
            return
        self.totals[subject] = total
        self.messages += 1
        self.bytes += size
        if rollup == "all":
            self._rolled_up, self._sizes = True, {subject: deque([size])}
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

    def _of(self, subject: str) -> deque[int]:
        sizes = self._sizes.get(subject)
        if sizes is None:
            sizes = self._sizes[subject] = deque(self._stored(subject))
        return sizes

    def _stored(self, subject: str) -> list[int]:
        """Sizes of the messages that the subject has now, oldest first."""
        count = 0 if self._rolled_up else self._state.count_of(subject)
        if count <= 1:
            return [self._state.newest_of(subject).size] if count else []
        found = self._state.iterate(subjects=Filter([subject]), reverse=True)
        return [entry.size for entry in islice(found, count)][::-1]
