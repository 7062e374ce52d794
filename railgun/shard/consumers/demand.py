"""The demand for messages of a shard's consumers: waiting pulls, whose messages are wanted, and alarms.

It is in memory only: not durable, and not lost by an aborted drain. All of it is known by (stream, incarnation, number), so
it outlives the reload of a stream and never passes to a successor of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from railgun.model.consumer_config import ConsumerConfig
from railgun.model.durations import to_nanos
from railgun.model.subjects import Filter
from railgun.semantics.consumers.consumer_state import ConsumerState
from railgun.semantics.consumers.delivery.waiting_pulls import PullKey, Waiting, WaitingPulls
from railgun.semantics.consumers.undo import UndoLog
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.consumers.alarms import Alarms
from railgun.shard.streams.owned import OwnedStreams


class ConsumerKey(NamedTuple):
    """The identity of a consumer: no other ever has the same."""

    stream: str
    incarnation: int
    number: int


def key_of(stream: OwnedStream, consumer: ConsumerState) -> ConsumerKey:
    return ConsumerKey(stream.name, stream.incarnation, consumer.number)


def living(streams: OwnedStreams, key: ConsumerKey) -> tuple[OwnedStream, ConsumerState] | None:
    """The consumer of that key with its stream; None if it is gone."""
    stream = streams.get(key.stream)
    if stream is None or stream.incarnation != key.incarnation:
        return None
    consumer = stream.consumers.by_number(key.number)
    return None if consumer is None else (stream, consumer)


class Alarm(NamedTuple):
    """Why a consumer must be looked at again: ``pull`` (one of its pulls), ``push`` or ``idle``."""

    kind: str
    consumer: ConsumerKey
    pull: PullKey = ("", 0)


class Demand:
    """The waiting pulls and the alarms of one shard's consumers."""

    def __init__(self, undo: UndoLog) -> None:
        self._undo = undo
        self._lines: dict[ConsumerKey, WaitingPulls] = {}
        self._of_client: dict[str, dict[tuple[ConsumerKey, PullKey], None]] = {}
        # Consumers whose messages are wanted: their one subject, or "".
        self._wanted: dict[ConsumerKey, str] = {}
        # The same, by incarnation and subject.
        self._by_subject: dict[tuple[int, str], dict[ConsumerKey, None]] = {}
        self._postponed: dict[ConsumerKey, None] = {}
        self.alarms: Alarms[Alarm] = Alarms(undo)

    # -- pulls

    def line(self, key: ConsumerKey) -> WaitingPulls | None:
        """The waiting pulls of a consumer, None if there are none."""
        return self._lines.get(key)

    def waiting(self, key: ConsumerKey) -> int:
        line = self._lines.get(key)
        return 0 if line is None else len(line)

    def join(self, key: ConsumerKey, pull: Waiting, wanted: Filter) -> None:
        """A pull waits for messages on the wanted subjects, at the end of the line."""
        line = self._lines.get(key)
        if line is None:
            line = WaitingPulls(self._undo)
            self._undo.put(self._lines, key, line)
        line.join(pull)
        self.alarms.set(Alarm("pull", key, pull.key), pull.due)
        self._undo.add_to(self._of_client, pull.client, (key, pull.key))
        self.want(key, wanted)

    def change(self, key: ConsumerKey, pull: Waiting) -> None:
        """A pull got messages or a status: it waits on, at its place."""
        self._lines[key].change(pull)
        self.alarms.set(Alarm("pull", key, pull.key), pull.due)

    def leave(self, key: ConsumerKey, pull: PullKey) -> Waiting | None:
        """A pull waits no longer. Returns it; None if it did not wait."""
        line = self._lines.get(key)
        left = None if line is None else line.leave(pull)
        if line is None or left is None:
            return None
        self.alarms.set(Alarm("pull", key, pull), 0)
        self._undo.take_from(self._of_client, pull[0], (key, pull))
        if not line:
            self._undo.drop(self._lines, key)
            self.unwant(key)
        return left

    def of_client(self, client: str) -> list[tuple[ConsumerKey, PullKey]]:
        """The pulls with which the client waits."""
        return list(self._of_client.get(client, ()))

    # -- use

    def used(self, key: ConsumerKey, config: ConsumerConfig, time: int) -> None:
        """The consumer is in use: unless it is used again, it goes so much later. A pull, a delivery and an ack are uses (CON-05)."""
        if config.inactive_threshold:
            alarm = Alarm("idle", key)
            self.alarms.set(alarm, max(time + to_nanos(config.inactive_threshold), self.alarms.get(alarm)))

    def unused(self, key: ConsumerKey) -> None:
        """The last use is forgotten: the threshold may have changed."""
        self.alarms.set(Alarm("idle", key), 0)

    # -- whose messages are wanted

    def want(self, key: ConsumerKey, wanted: Filter) -> None:
        """A pull or a listener wants this consumer's messages, which are those on the wanted subjects."""
        subject = wanted.literal or ""
        if self._wanted.get(key) != subject:
            self.unwant(key)
            self._undo.put(self._wanted, key, subject)
            self._undo.add_to(self._by_subject, (key.incarnation, subject), key)

    def unwant(self, key: ConsumerKey) -> None:
        """No pull and no listener wants this consumer's messages any more."""
        subject = self._undo.drop(self._wanted, key)
        if subject is not None:
            self._undo.take_from(self._by_subject, (key.incarnation, subject), key)
        self._undo.drop(self._postponed, key)

    def is_wanted(self, key: ConsumerKey) -> bool:
        return key in self._wanted

    def wanting(self, incarnation: int, subjects: Iterable[str]) -> Iterator[ConsumerKey]:
        """Consumers of the stream whose messages are wanted, and that may deliver messages on these subjects."""
        if not self._wanted:
            return
        for subject in ("", *subjects):
            yield from self._by_subject.get((incarnation, subject), ())

    # -- what one drain leaves to the next

    @property
    def postponed(self) -> dict[ConsumerKey, None]:
        """Consumers that the next drain must serve, whatever it is about."""
        return self._postponed

    def postpone(self, key: ConsumerKey) -> None:
        if key not in self._postponed:
            self._undo.put(self._postponed, key, None)

    def resume(self, key: ConsumerKey) -> None:
        self._undo.drop(self._postponed, key)

    # -- the end

    def forget(self, key: ConsumerKey) -> list[Waiting]:
        """The consumer is gone. Returns the pulls that waited."""
        line = self._lines.get(key)
        keys = [] if line is None else line.keys()
        waiting = [left for pull in keys if (left := self.leave(key, pull)) is not None]
        self.unwant(key)
        for kind in ("push", "idle"):
            self.alarms.set(Alarm(kind, key), 0)
        return waiting
