"""The quick way of messages that need no closer look: one pass over their columns, and a run of them is stored at once.

The general way (:mod:`~railgun.semantics.streams.publishing.publish`) is the meaning of a publish. This one only finds out that a
message would be stored as it is: its conditions hold, its id is new, nothing has to go for it. A run ends before the first
message of which that is not certain; the general way decides it, and knows why. A property test holds the two to each other.
"""

from __future__ import annotations

from itertools import repeat

from railgun.model import headers as h
from railgun.model.headers import Headers
from railgun.model.refusals import Refusal
from railgun.model.subjects import Filter, has_wildcard
from railgun.semantics.streams import ttl
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing import counters
from railgun.semantics.streams.publishing.expectations import instructions, number_in
from railgun.semantics.streams.publishing.origin import with_origin
from railgun.semantics.streams.publishing.outcomes import Stored
from railgun.semantics.streams.publishing.watched_patterns import WatchedPatterns

_CLOSER_LOOK = frozenset({h.STREAM_SOURCE, h.INCREMENT})
_CONDITIONS = frozenset(
    {
        h.EXPECTED_STREAM,
        h.EXPECTED_LAST_SEQUENCE,
        h.EXPECTED_LAST_SUBJECT_SEQUENCE,
        h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
        h.EXPECTED_LAST_MSG_ID,
    }
)
# Headers that ask for more than to be stored.
SAYS_SOMETHING = _CLOSER_LOOK | _CONDITIONS | {h.MSG_ID, h.TTL, h.ROLLUP}
_ALONE = 8  # ids of a shorter run join the block of their neighbours


def has_quick_way(state: OwnedStream) -> bool:
    """Whether a message of the stream can be stored without a closer look at others."""
    config = state.config
    return not config.sealed and state.transform is None and not config.discard_new_per_subject


class QuickWay:
    """The messages of one pack, or of one batch, of a stream that has a quick way."""

    def __init__(
        self,
        state: OwnedStream,
        subjects: list[str],
        headers: list[Headers],
        payloads: list[bytes],
        largest: int,
        log: Stored,
        read: counters.ReadBody | None,
        *,
        batch: bool = False,
    ) -> None:
        """``headers``: with the ids; empty if no message has any. ``largest``: bytes that a message may have.

        ``batch``: conditions compare with the stream before the messages (BAT-29), and not with those before.
        """
        self._state = state
        self._subjects = subjects
        self._headers = headers
        self._payloads = payloads
        self._largest = largest
        self._log = log
        self._read = read
        self._batch = batch
        names = {name for given in headers for name, _ in given}
        self._lengths = {name: len(name.encode("utf-8")) + 3 for name in names}
        self._special = names & SAYS_SOMETHING
        self._may_delete = not names.isdisjoint((h.KV_OPERATION, h.MARKER_REASON))
        self._tracks = not names.isdisjoint((h.EXPECTED_LAST_SUBJECT_SEQUENCE, h.ROLLUP))
        self._per_subject = state.config.max_msgs_per_subject
        # What an origin adds to a message with other headers, and to one without.
        self._origin_bytes = h.block_size(state.origin) - 2 if state.origin else 0
        self._origin_alone = self._origin_bytes + 2 + state.measure.headers if state.origin else 0
        self._has_ids = h.MSG_ID in names
        self._overheads: dict[str, int] = {}
        self._lifetimes: dict[bytes, ttl.Lifetime | Refusal] = {}
        self._patterns = WatchedPatterns(
            {
                value.lstrip(b" ").decode("utf-8", "replace")
                for given in headers
                for name, value in given
                if name == h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT
            }
            if h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT in names
            else ()
        )
        self._begin(0)

    def _begin(self, start: int) -> None:
        """A new run, before the message at ``start``: nothing is known of what it writes."""
        self._start = start
        self._sizes: list[int] = []
        self._ids: list[str] = []  # of every message of the run, if any of the pack has one
        self._expiries: dict[int, ttl.Lifetime] = {}  # by place in the run
        self._rolled_up: set[int] = set()  # places in the run
        self._last_id = self._state.last_msg_id
        self._new_ids: set[str] = set()
        self._written: dict[str, int] = {}  # newest sequence by subject
        self._newest: dict[str, int] = {}  # the same by pattern
        if self._state.config.allow_msg_counter:
            self._overheads.clear()  # a subject may have become a counter

    # -- looking

    def look(self, start: int, room: int) -> int:
        """How many messages from ``start`` on can be stored as a run. ``room``: bytes that there is space for."""
        self._begin(start)
        state, config = self._state, self._state.config
        stop = len(self._subjects)
        if config.max_msgs > 0:
            stop = min(stop, start + config.max_msgs - state.messages)
        if config.max_bytes > 0:
            room = min(room, config.max_bytes - state.bytes)
        headers, payloads, lengths, special = self._headers, self._payloads, self._lengths, self._special
        overheads, extra, largest, sizes = self._overheads, state.measure.headers, self._largest, self._sizes
        sequence = state.last_seq + 1
        for index in range(start, stop):
            subject = self._subjects[index]
            overhead = overheads.get(subject)
            if overhead is None:
                overhead = self._overhead(subject)
                if overhead is None:
                    break
            size, added = len(payloads[index]), self._origin_alone
            asks, asked, expected = 0, "", b""
            if headers and headers[index]:
                block = 2
                for name, value in headers[index]:
                    block += lengths[name] + len(value)
                    if name in special:
                        asks, asked, expected = asks + 1, name, value
                size += block
                overhead += extra
                added = self._origin_bytes
                if block > h.MAX_HEADER_BYTES:
                    break
            if size > largest or size + overhead + added > room:
                break
            if special:
                if not asks:
                    message_id: str | None = ""
                elif asks == 1 and asked == h.EXPECTED_LAST_SUBJECT_SEQUENCE and expected.isdigit():
                    message_id = "" if self._is_last(subject, expected) else None  # most ask for nothing else
                else:
                    message_id = self._asked(subject, instructions(headers[index]), sequence)
                if message_id is None:
                    break
                self._last_id = message_id
                if self._has_ids:
                    self._ids.append(message_id)
                if self._tracks:
                    self._written[subject] = sequence
                    if self._patterns:
                        self._note(subject, sequence)
            room -= size + overhead + added
            sizes.append(size + overhead + added)
            sequence += 1
        return len(sizes)

    def _overhead(self, subject: str) -> int | None:
        """What a message on the subject counts beside headers and payload; None: it needs a closer look."""
        state = self._state
        overhead = state.captured.overhead(subject)
        if overhead is None or not state.is_wanted(subject):
            return None
        if (
            state.config.allow_msg_counter
            and counters.check_plain(state, subject, self._log, self._read) is not None
        ):
            return None
        if 0 < self._per_subject < state.count_of(subject):
            return None  # the limit sank, and what is beyond it is not gone yet
        self._overheads[subject] = overhead
        return overhead

    def _asked(self, subject: str, given: dict[str, bytes], sequence: int) -> str | None:
        """The id of a message, empty if it has none; None where not all that it asks for is as simple as that."""
        if not _CLOSER_LOOK.isdisjoint(given):
            return None
        if not _CONDITIONS.isdisjoint(given) and not self._holds(subject, given, sequence):
            return None
        rollup = given.get(h.ROLLUP)
        if rollup is not None and not self._rolls_up(subject, rollup):
            return None
        header = given.get(h.TTL)
        if header is not None:
            lifetime = self._lifetimes.get(header)
            if lifetime is None:
                lifetime = self._lifetimes[header] = ttl.lifetime(self._state.config, header)
            if isinstance(lifetime, Refusal) or lifetime.rewritten is not None:
                return None
            self._expiries[len(self._sizes)] = lifetime
        message_id = given.get(h.MSG_ID, b"").decode("utf-8", "backslashreplace")
        if message_id:
            if self._batch:
                return None  # BAT-23
            window = self._state.window
            if window.window:
                if message_id in self._new_ids or window.original(message_id) is not None:
                    return None
                self._new_ids.add(message_id)
        if rollup is not None:
            self._rolled_up.add(len(self._sizes))
        return message_id

    def _rolls_up(self, subject: str, kind: bytes) -> bool:
        """Whether the message may replace all others on its subject, and doing so asks for no closer look."""
        state, config = self._state, self._state.config
        if kind.lower() != b"sub" or not config.allow_rollup_hdrs or config.deny_purge:
            return False
        written = subject in self._written
        if written and self._batch:
            return False  # BAT-35
        alone = not written and not state.count_of(subject)
        # Consumers are told of each message that a roll-up removes, of those that a limit does together.
        return alone or self._per_subject == 1 or (self._per_subject > 1 and not state.consumers)

    def _holds(self, subject: str, given: dict[str, bytes], sequence: int) -> bool:
        """Whether the conditions hold, once the messages before this one are stored."""
        stream = given.get(h.EXPECTED_STREAM)
        if stream is not None and stream.decode("utf-8", "replace") != self._state.name:
            return False
        on_subject = given.get(h.EXPECTED_LAST_SUBJECT_SEQUENCE)
        pattern = given.get(h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT)
        if on_subject is None:
            if pattern is not None:
                return False
        elif number_in(on_subject) != self._last(
            subject if pattern is None else pattern.decode("utf-8", "replace")
        ):
            return False
        last_sequence = given.get(h.EXPECTED_LAST_SEQUENCE)
        if last_sequence is not None and (
            number_in(last_sequence) != sequence - 1 or (self._batch and self._sizes)
        ):
            return False
        last_id = given.get(h.EXPECTED_LAST_MSG_ID)
        return last_id is None or (not self._batch and last_id.decode("utf-8", "replace") == self._last_id)

    def _is_last(self, subject: str, expected: bytes) -> bool:
        """Whether the number is that of the newest message on the subject, once the messages before this one are stored."""
        found = self._written.get(subject)
        if found is None:
            found = self._state.last_of(subject)
        elif self._batch:
            return False  # it is one of its own
        return number_in(expected) == found

    def _last(self, pattern: str) -> int | None:
        """The newest message on a subject, or on those that a pattern matches; None: of a batch, it is one of its own."""
        wild = has_wildcard(pattern)
        written = self._newest if wild else self._written
        found = written.get(pattern)
        if found is not None:
            return None if self._batch else found
        return self._state.last_matching(Filter([pattern])) if wild else self._state.last_of(pattern)

    def _note(self, subject: str, sequence: int) -> None:
        """The run writes to the subject, which patterns may match."""
        for pattern in self._patterns.matching(subject):
            self._newest[pattern] = sequence

    # -- storing

    @property
    def size(self) -> int:
        """Bytes of the run that was looked at."""
        return sum(self._sizes)

    def store(self, time: int) -> int:
        """Store the run that was looked at, at ``time``; the sequence of the first."""
        state, log, count = self._state, self._log, len(self._sizes)
        start, stop = self._start, self._start + count
        subjects, payloads = self._subjects[start:stop], self._payloads[start:stop]
        headers = with_origin(self._headers[start:stop] or [()] * count, state.origin)
        expiries = {place: lifetime.ends(time) for place, lifetime in self._expiries.items() if place < count}
        tombstones = self._tombstones(headers)
        if self._per_subject > 0:
            first = state.store_capped(
                *(subjects, self._sizes, [time] * count, expiries, tombstones),
                *(self._rolled_up, headers, payloads),
            )
        else:
            first = state.store_run(subjects, self._sizes, time, expiries, tombstones)
            if state.bodies.keeps:
                state.bodies.keep_run(first, subjects, headers, payloads, ())
        state.last_msg_id = self._ids[count - 1] if self._ids else ""
        if self._new_ids:
            self._accept(self._ids[:count], first, time)
        log.sequences += range(first, first + count)
        log.subjects += subjects
        log.headers += headers
        log.payloads += payloads
        log.times += repeat(time, count)
        return first

    def _tombstones(self, headers: list[Headers]) -> list[int]:
        return h.tombstones_among(headers) if self._may_delete else []

    def _accept(self, ids: list[str], first: int, time: int) -> None:
        """DUP-12: after every refusal."""
        if len(ids) >= _ALONE and all(ids):
            self._state.window.accept_run(ids, first, time)
            return
        for sequence, message_id in enumerate(ids, first):
            if message_id:
                self._state.window.accept(message_id, sequence, time)
