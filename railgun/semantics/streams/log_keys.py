"""The keys of a stream's log records, and the tombstones that let compaction drop what is gone.

A log that is compacted keeps the newest record of each key, so no key may ever cost a message that lives:

- While a subject holds one message at most, the subject is the key: the next message replaces the one before.
- Where it may hold several, each message has a key of its own, with its sequence behind the subject. This begins when the limit
  is first other than one, and never ends, because messages with keys of both kinds may live side by side.

A message that is removed gets a tombstone, unless a record of the same key follows it. Tombstones are part of the transaction that
removes the messages, behind all other records of the stream: one for a key that a message has by then is not written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railgun.protocol.log_record import record_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railgun.semantics.streams.owned_stream import OwnedStream

NOT_KNOWN = -1  # of a stream that was recorded before it was asked for


class LogKeys:
    """How the records of one log are named."""

    def __init__(self, stream: OwnedStream, *, compacted: bool) -> None:
        """``compacted``: chosen once, when the stream is created."""
        self._stream = stream
        self.compacted = compacted
        self.own_from = 0  # messages from this sequence on have keys of their own; 0: none has
        # By this drain: key to sequence and subject, which is empty where no other message ever has the key.
        self._buried: dict[bytes, tuple[int, str]] = {}
        self.values_from = stream.last_seq + 1  # where bodies are kept under subjects
        self.newest_from = self.values_from  # a value from here on is the newest message of its subject
        self.follow_limit()

    def load(self, compacted: bool, own_from: int, values_from: int, newest_from: int) -> None:
        """Take over what was recorded."""
        stream = self._stream
        self.values_from = stream.last_seq + 1 if values_from == NOT_KNOWN else values_from
        self.newest_from = stream.last_seq + 1 if newest_from == NOT_KNOWN else newest_from
        limit = stream.config.max_msgs_per_subject
        if (
            own_from == NOT_KNOWN
        ):  # by the limit that holds now; a subject may have kept several under a former one
            own_from = 1 if limit != 1 else stream.last_seq + 1 if stream.crowded else 0
        self.compacted, self.own_from = compacted, own_from if compacted else 0

    def follow_limit(self) -> None:
        """The limit per subject may have changed."""
        if self.compacted and not self.own_from and self._stream.config.max_msgs_per_subject != 1:
            self.own_from = self._stream.last_seq + 1

    def of(self, subject: str, sequence: int) -> bytes:
        """The key of the message's log record."""
        return record_key(subject, sequence, slotted=0 < self.own_from <= sequence)

    def is_value(self, sequence: int) -> bool:
        """Whether the table keeps the body of the message under its subject, as the log does: one at most has that key."""
        return self.compacted and sequence >= self.values_from and not 0 < self.own_from <= sequence

    @property
    def is_one_each(self) -> bool:
        """Whether every subject has, and ever had, one message at most: the newest ones are kept under their subjects."""
        return self.compacted and not self.own_from

    def is_newest(self, sequence: int) -> bool:
        """Whether a body of this sequence that is kept under a subject must be that of its newest message."""
        return self.is_one_each and sequence >= max(self.newest_from, self.values_from)

    def distrust_values(self) -> None:
        """Bodies were not kept, and are from now on: there may be values of messages that were replaced or removed meanwhile."""
        self.newest_from = self._stream.last_seq + 1

    def all_of(self, subjects: list[str], sequences: list[int]) -> list[bytes]:
        """The keys of many messages."""
        if self.own_from:
            return [self.of(*one) for one in zip(subjects, sequences, strict=True)]
        different = set(subjects)
        if len(different) > len(subjects) // 2:
            return [subject.encode("utf-8") for subject in subjects]
        encoded = {subject: subject.encode("utf-8") for subject in different}
        return [encoded[subject] for subject in subjects]  # which share the bytes

    # -- tombstones

    def bury(self, subject: str, sequence: int) -> None:
        """The message is gone: compaction may drop its record."""
        if self.compacted:
            own = 0 < self.own_from <= sequence
            self._buried[self.of(subject, sequence)] = sequence, "" if own else subject

    def not_replaced(self, gone: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Those of the messages that made room for others on their subjects whose bodies are not replaced by those of the others."""
        if not self.compacted or self.own_from:
            return gone
        return [one for one in gone if one[0] < self.values_from]

    def bury_replaced(self, gone: Iterable[tuple[int, str]]) -> None:
        """The messages made room for others on their subjects; those that share the key of the other go by themselves."""
        if self.own_from and self.compacted:
            for sequence, subject in gone:
                self.bury(subject, sequence)

    def tombstones(self) -> list[bytes]:
        """The keys of what this drain removed, in order; none that a message has now."""
        return sorted(
            key
            for key, (sequence, subject) in self._buried.items()
            if not subject or self.is_free(subject, sequence)
        )

    def is_free(self, subject: str, sequence: int) -> bool:
        """Whether no message lives whose key is the subject, now that the one of the sequence is gone."""
        oldest = self._stream.next_of(subject, 0)
        if oldest is not None:
            return oldest == 0 or 0 < self.own_from <= oldest
        # Several live: the limit was raised, and has sunk. Before that a subject had one message at most; if that was a value, it is the
        # one that is gone, unless this very drain stored another before it raised the limit.
        return self.is_value(sequence) and 0 < self.own_from <= self._stream.new_from

    def seal(self) -> None:
        """The drain ends."""
        self._buried = {}
