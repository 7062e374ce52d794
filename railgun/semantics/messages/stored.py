"""Which messages a stream holds: the counters, the index by sequence and the index by subject.

Nothing here knows what a message may be, who waits for it or where its body is. Counters and indexes move together:
a message that is added or removed here is added or removed in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from railgun.model.subjects import Filter
from railgun.semantics.messages import searching
from railgun.semantics.messages.blocks import BLOCK_SIZE, Block, Entry
from railgun.semantics.messages.budget import ShardMemory
from railgun.semantics.messages.index import MessageIndex
from railgun.semantics.messages.subject_index import FoundSubject, SubjectIndex
from railgun.semantics.messages.subject_search import Place
from railgun.semantics.steps import finish
from railgun.state.table import Overlay

_MOST_PATTERNS = 1_000  # whose newest message is remembered


class StoredMessages:
    """The messages of one stream, by sequence and by subject."""

    def __init__(self, overlay: Overlay, incarnation: int, first_seq: int, memory: ShardMemory) -> None:
        self.overlay = overlay
        self.incarnation = incarnation
        self._memory = memory
        self.first_seq = first_seq
        self.last_seq = max(first_seq - 1, 0)
        self.messages = 0
        self.bytes = 0
        self.last_time = 0
        self.log_end = 0  # no later message lies below this offset of the log
        self._bases: list[int] = []  # blocks of the drain that runs
        # By patterns, of the drain that runs: the newest message, found when the stream had this last sequence and so many messages.
        self._matching: dict[tuple[str, ...], int] = {}
        self._matching_at = (0, 0)
        self._by_subject: SubjectIndex  # begun once it is known whether subjects are ordered
        self._subject_gone: Callable[[str], None] | None = (
            None  # told of a subject that lost its last message
        )
        self.looked_at = 0  # messages, by searches that might have put the subjects in order instead
        self.subjects_built = 0  # how often it was: a place in an earlier one says nothing
        self.open_index()

    def open_index(self) -> None:
        """Look into the table from the last sequence on."""
        caches = self._memory.caches
        caches.forget(self.incarnation)
        self.index = MessageIndex(self.overlay, self.incarnation, self.last_seq + 1, caches)

    def _begin_subjects(self, *, ordered: bool) -> None:
        """An empty index by subject; ``ordered``: the oldest message of a subject will be asked for."""
        self.subjects_built += 1
        self._by_subject = SubjectIndex(
            ordered=ordered,
            incarnation=self.incarnation,
            scratch=self.overlay.scratch,
            budget=self._memory.subjects,
        )
        self._by_subject.gone = self._subject_gone

    def _count_subjects(self, ends: Callable[[int, int], None]) -> None:
        """Count all messages by subject; ``ends`` is told when each message with a TTL ends, and its sequence."""
        for block in self.index.blocks(self.first_seq) if self.messages else ():
            if block.removed is None and block.expiries is None and block.base >= self.first_seq:
                self._by_subject.add_run(block.all_subjects(), block.base)  # the common case, as columns
                self._by_subject.settle()
                continue
            runs = block.existing(max(0, self.first_seq - block.base))
            if not runs:
                self.index.give_up(block)
            for start, count in runs:
                for index in range(start, start + count):
                    entry = block.entry(index)
                    self._by_subject.add(entry.subject, entry.sequence)
                    if entry.ends:
                        ends(entry.ends, entry.sequence)
            self._by_subject.settle()

    # -- reading

    def exists(self, sequence: int) -> bool:
        return self.entry(sequence) is not None

    def entry(self, sequence: int) -> Entry | None:
        if not self.messages or not self.first_seq <= sequence <= self.last_seq:
            return None
        return self.index.entry(sequence)

    def iterate(
        self, start: int = 0, *, subjects: Filter | None = None, reverse: bool = False
    ) -> Iterator[Entry]:
        """Existing messages from ``start`` on, or from ``start`` (0: the end) down to the first."""
        if not self.messages:
            return iter(())
        if reverse:
            return self.index.descending(start or self.last_seq, self.first_seq, subjects)
        return self.index.ascending(max(start, self.first_seq), subjects)

    def blocks(self, start: int, end: int | None = None) -> Iterator[Block]:
        """The index of what exists from ``start`` on, a block at a time; only that below ``end`` is asked for."""
        if not self.messages:
            return iter(())
        if end is None or end > self.index.tail_base:
            self._flush_index()
        return self.index.blocks(max(start, self.first_seq))

    def block_up_to(self, sequence: int) -> Block | None:
        """The last block that begins at the sequence or below it."""
        if sequence >= self.index.tail_base:
            self._flush_index()
        return self.index.block_up_to(sequence) if self.messages else None

    def sizes(self, start: int, end: int) -> Sequence[int]:
        """What the messages of [start, end) count, which all exist."""
        if end > self.index.tail_base:
            self._flush_index()
        return self.index.sizes(start, end)

    def first_at(self, time: int) -> int:
        """The sequence of the first message stored at that time or later; the one after the last if there is none."""
        low, high = self.first_seq, self.last_seq + 1
        while low < high:  # times never go back, so halving finds the place; holes are stepped over
            middle = (low + high) // 2
            entry = next(self.iterate(middle), None)
            if entry is None or entry.time >= time:
                high = middle
            else:
                low = entry.sequence + 1
        entry = next(self.iterate(low), None)
        return self.last_seq + 1 if entry is None else entry.sequence

    def last_of(self, subject: str) -> int:
        """The newest existing sequence on the literal subject, 0 if none."""
        return self._by_subject.last(subject)

    def last_of_each(self, subjects: list[str]) -> list[int]:
        """As :meth:`last_of`, of many."""
        return self._by_subject.last_of_each(subjects)

    def held_last_of(self, subject: str) -> int:
        """As :meth:`last_of`, 0 too if memory does not tell."""
        return self._by_subject.held_last(subject)

    def count_of(self, subject: str) -> int:
        return self._by_subject.count(subject)

    def oldest_of(self, subject: str) -> Entry:
        """The oldest message on a subject; only where a per-subject limit is set."""
        entry = self.entry(self._by_subject.oldest(subject))
        assert entry is not None
        return entry

    def newest_of(self, subject: str) -> Entry:
        """The newest message on a subject that has one."""
        entry = self.entry(self._by_subject.last(subject))
        assert entry is not None
        return entry

    def last_matching(self, subjects: Filter) -> int:
        """The newest existing sequence over all matching subjects, 0 if none.

        A search is as long as the stream has subjects. It is done once for all messages that ask before anything comes or goes,
        such as those of a batch.
        """
        if subjects.literal is not None:
            return self.last_of(subjects.literal)
        now = (
            self.last_seq,
            self.messages,
        )  # a sequence is never given twice, so nothing has changed while both are the same
        if self._matching_at != now or len(self._matching) >= _MOST_PATTERNS:
            self._matching_at, self._matching = now, {}
        found = self._matching.get(subjects.patterns)
        if found is None:
            found = self._matching[subjects.patterns] = finish(searching.newest(self, subjects))
        return found

    def next_of(self, subject: str, start: int) -> int | None:
        """The first sequence on the literal subject from ``start`` on, 0 if none; None if only looking at messages tells."""
        return self._by_subject.next(subject, start)

    def all_of(self, subject: str) -> Collection[int] | None:
        """The sequences on the literal subject, ascending; None if only looking at messages tells."""
        return self._by_subject.sequences(subject)

    @property
    def subjects_sorted(self) -> bool:
        """Whether a search by subject can begin at once: the first one puts those in memory in order."""
        return self._by_subject.is_sorted

    def search_subjects(
        self, wanted: Filter, place: Place, steps: int
    ) -> tuple[list[FoundSubject], Place | None]:
        """As :meth:`SubjectIndex.search`."""
        return self._by_subject.search(wanted, place, steps)

    def subjects(self, matching: Filter | None = None) -> dict[str, int]:
        """Literal subject to the number of its existing messages."""
        return self._by_subject.matching(matching)

    @property
    def num_subjects(self) -> int:
        return len(self._by_subject)

    def first_time(self) -> int:
        """When the first existing message was stored, 0 if there is none."""
        entry = self.entry(self.first_seq)
        return 0 if entry is None else entry.time

    @property
    def num_deleted(self) -> int:
        """Removed messages between the first and the last (RET-20)."""
        return self.last_seq - self.first_seq + 1 - self.messages if self.messages else 0

    def deleted(self) -> list[int]:
        """Sequences between first and last that no longer exist."""
        return finish(searching.deleted(self, self.last_seq))

    # -- changing

    def _add(self, subject: str, size: int, time: int, expiry: int, *, tombstone: bool = False) -> int:
        sequence = self.index.append(subject, size, time, expiry, tombstone=tombstone)
        self._by_subject.add(subject, sequence)
        self._count(sequence, 1, size, time)
        return sequence

    def _add_run(
        self,
        subjects: list[str],
        sizes: list[int],
        time: int,
        expiries: Mapping[int, int],
        tombstones: Collection[int] = (),
    ) -> int:
        first = self.index.extend(subjects, sizes, time, expiries, tombstones)
        self._by_subject.add_run(subjects, first)
        self._count(first, len(sizes), sum(sizes), time)
        return first

    def _add_capped(
        self,
        subjects: list[str],
        sizes: list[int],
        times: list[int],
        expiries: Mapping[int, int],
        tombstones: Collection[int],
        limit: int,
        rolled_up: Collection[int],
    ) -> tuple[int, list[tuple[int, str]]]:
        """As :meth:`_add_columns`, where each subject keeps its newest ``limit`` messages, or of a roll-up only that.

        The sequence of the first, and sequences and subjects of what is gone for them. :meth:`_move_first` must follow.
        """
        first = self.index.extend_at(subjects, sizes, times, tombstones, expiries)
        gone = self._by_subject.add_capped(subjects, first, limit, rolled_up)
        freed = self.index.remove_some([sequence for sequence, _ in gone])
        self._count(first, len(sizes), sum(sizes), times[-1])
        self.messages -= len(gone)
        self._set_bytes(self.bytes - freed)
        return first, gone

    def _move_first(self) -> None:
        """The first message may be gone, others are there."""
        if self.index.entry(self.first_seq) is None:
            self.first_seq = self._first_from(self.first_seq + 1)

    def _count(self, first: int, count: int, size: int, time: int) -> None:
        if not self.messages:
            self.first_seq = first
        self.messages += count
        self._set_bytes(self.bytes + size)
        self.last_seq = first + count - 1
        self.last_time = time

    def _add_columns(
        self, subjects: list[str], sizes: list[int], times: list[int], tombstones: Collection[int]
    ) -> int:
        first = self.index.extend_at(subjects, sizes, times, tombstones)
        self._by_subject.add_run(subjects, first)
        self._count(first, len(sizes), sum(sizes), times[-1])
        return first

    def jump(self, sequence: int) -> None:
        """The next message gets this sequence; those between were never stored here (MIR-07)."""
        gap = sequence - self.last_seq - 1
        if gap <= 0:
            return
        if not self.messages:
            self._take_all(sequence)
            return
        if gap < BLOCK_SIZE:
            for _ in range(gap):
                self.index.skip(self.last_time)
        else:
            self._flush_index()
            self.index.begin_at(sequence)
        self.last_seq = sequence - 1

    def _set_bytes(self, size: int) -> None:
        self.bytes = size
        self._memory.stored_bytes.note(self.incarnation, size)

    def skip(self, time: int) -> int:
        """A message that nobody wants: it gets a sequence and is not stored."""
        sequence = self.index.skip(time)
        if not self.messages:
            self.first_seq = sequence + 1
        self.last_seq, self.last_time = sequence, time
        return sequence

    def _take(self, sequence: int) -> Entry | None:
        """One message goes; None if there was none."""
        if not self.messages or not self.first_seq <= sequence <= self.last_seq:
            return None
        entry = self.index.remove(sequence)
        if entry is not None:
            self.messages -= 1
            self._set_bytes(self.bytes - entry.size)
            self._by_subject.discard(entry.subject, sequence, self._newest_before)
            if sequence == self.first_seq:
                self.first_seq = self._first_from(sequence + 1)
        return entry

    def _take_run(self, start: int, end: int) -> dict[str, int]:
        """Every message of [start, end) goes; how many of each subject. Only where subjects are not ordered."""
        if end > self.index.tail_base:
            self._flush_index()
        counts: dict[str, int] = {}
        for removed in self.index.remove_run(max(start, self.first_seq), end):
            self._set_bytes(self.bytes - removed.size)
            for subject, (count, newest) in removed.subjects.items():
                self.messages -= count
                counts[subject] = counts.get(subject, 0) + count
                self._by_subject.discard_run(subject, count, newest, self._newest_before)
        if start <= self.first_seq < end:
            self.first_seq = self._first_from(end)
        return counts

    def _take_all(self, next_sequence: int) -> None:
        """Every message goes, and the next one gets that sequence."""
        self.index.hide_below(next_sequence)
        self._by_subject.clear()
        self.messages = 0
        self._set_bytes(0)
        self.first_seq, self.last_seq = next_sequence, next_sequence - 1

    def _first_from(self, sequence: int) -> int:
        if not self.messages:
            return self.last_seq + 1
        return next((entry.sequence for entry in self.index.ascending(sequence)), self.last_seq + 1)

    def _newest_before(self, subject: str, sequence: int) -> int:
        below = self.index.descending(sequence - 1, self.first_seq, Filter([subject]))
        return next((entry.sequence for entry in below), 0)

    # -- the end of a drain

    def _flush_index(self) -> None:
        self._bases += self.index.flush(self.log_end)

    def _take_bases(self) -> list[int]:
        """The bases of the blocks that were written since this was last asked: the drain ends."""
        bases, self._bases, self._matching = self._bases, [], {}
        return bases

    def committed(self, offsets: Mapping[int, int], log_end: int) -> None:
        """The drain is durable: where its blocks begin in the log, and where no later message lies below."""
        self.index.note_offsets(offsets)
        self.log_end = log_end
