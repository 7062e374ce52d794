"""Dead letters (DLQ-10): copies of messages that ran out of deliveries or were terminated, in a stream that the consumer names.

The copy is decided in the same transaction as the last delivery or the termination: stored at once where the stream lives on
this shard, sent to its owner otherwise. It keeps subject, headers and payload, whether the stream captures the subject or not.
A copy that cannot be stored is kept in ``rejected`` with the reason: nothing is lost in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.durations import rfc3339
from railgun.model.headers import HeaderList, Headers
from railgun.model.messages import StoredMessage
from railgun.model.refusals import Refusal
from railgun.protocol.commands import STORE, Forward, PublishPack
from railgun.protocol.routing import partition_of
from railgun.semantics.consumers.events import Event
from railgun.semantics.streams import limits
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing import counters
from railgun.shard.copies import Copies
from railgun.shard.drain import Input
from railgun.shard.log_bodies import ReadLog, body_reader, find_messages
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams

# Headers that are orders to the stream that stores the message: kept under another name, so that they are not obeyed again.
ORDERS = {
    h.MSG_ID: h.ORIGIN_MSG_ID,
    h.TTL: h.ORIGIN_TTL,
    h.ROLLUP: h.ORIGIN_ROLLUP,
    h.INCREMENT: h.ORIGIN_INCREMENT,
}
_LONGEST_REASON = 4_096
_UNLIMITED = 1 << 62


class LetterOrigin(NamedTuple):
    """The delivery that a dead letter comes from."""

    stream: str
    sequence: int
    time: int  # of the message, ns
    consumer: str
    deliveries: int

    def headers(self, own: Headers, reason: str) -> HeaderList:
        """DLQ-06: the headers of a copy are those of the message, and where it is from and why."""
        kept = [(ORDERS.get(name, name), value) for name, value in own]
        origin = {
            h.ORIGIN_STREAM: self.stream,
            h.ORIGIN_SEQUENCE: str(self.sequence),
            h.ORIGIN_CONSUMER: self.consumer,
            h.ORIGIN_DELIVERIES: str(self.deliveries),
            h.ORIGIN_REASON: reason,
            h.ORIGIN_TIME: rfc3339(self.time),
        }
        return kept + [(name, value.encode("utf-8")[:_LONGEST_REASON]) for name, value in origin.items()]


class DeadLetters:
    """Finds the messages of a drain's dead letters, and stores or sends their copies."""

    def __init__(
        self,
        partition: int,
        partitions: int,
        streams: OwnedStreams,
        platform: ClusterLimits,
        read_log: ReadLog | None,
    ) -> None:
        self._partition = partition
        self._partitions = partitions
        self._streams = streams
        self._platform = platform
        self._read_log = read_log

    def bury(self, stream: OwnedStream, events: Sequence[Event], drain: OpenDrain) -> None:
        """Copy the messages of these ``dead`` events of one stream."""
        found = find_messages(
            stream, [event.stream_seq for event in events], drain.logs.get(stream.name), self._read_log
        )
        copies = Copies()
        for event, message in zip(events, found, strict=True):
            target = self._target(stream, event)
            if message is None:
                reason = f"message {event.stream_seq} of {stream.name} could not be read for its dead letter"
                drain.reject(_as_input(stream, event, None, drain.moment), reason)
            elif target:
                copies.add(target, message.subject, _origin(stream, event, message), message.payload)
        self.send(copies, drain)

    def send(self, copies: Copies, drain: OpenDrain) -> None:
        """Store copies whose streams live here, and send the others to their owners."""
        for pack in copies.take():
            owner = partition_of(pack.stream, self._partitions)
            if owner == self._partition:
                self.store(pack, drain, drain.moment)
            else:
                copy = Forward(
                    self._partition, "command", pack.stream, command_kind=STORE, command=pack.encode()
                )
                drain.send(owner, copy)

    def store(self, pack: PublishPack, drain: OpenDrain, time: int) -> None:
        """Store copies in a stream of this shard at this time; what it does not take is rejected with the reason."""
        state = self._streams.get(pack.stream)
        for number, payload in enumerate(pack.payloads):
            subject, headers = pack.subjects[number], pack.headers[number] if pack.headers else []
            refused = (
                refusals.STREAM_NOT_FOUND
                if state is None
                else self._check(state, subject, headers, payload, drain)
            )
            if state is None or refused is not None:
                assert refused is not None
                reason = f"a dead letter for {pack.stream}: {refused.description}"
                drain.reject(as_record(pack.stream, subject, headers, payload, time), reason)
                continue
            drain.touch(state)
            drain.stored_at = max(drain.stored_at, time)
            previous = state.last_of(subject)
            size = state.measure.of(subject, h.block_size(headers), payload)
            sequence = state.store(subject, size, time, headers=headers, payload=payload)
            state.last_msg_id = ""  # PUB-13: the last message is one without an id
            drain.log_of(state).add(sequence, subject, headers, payload, time)
            limits.enforce(state, subject, previous)

    def _check(
        self, state: OwnedStream, subject: str, headers: HeaderList, payload: bytes, drain: OpenDrain
    ) -> Refusal | None:
        if state.config.sealed:
            return refusals.SEALED
        if h.block_size(headers) > h.MAX_HEADER_BYTES:
            return refusals.HEADER_TOO_LARGE
        if state.config.allow_msg_counter:
            read = body_reader(state, self._read_log)
            refused = counters.check_plain(state, subject, drain.log_of(state), read)
            if refused is not None:
                return refused
        size = state.measure.of(subject, h.block_size(headers), payload)
        return limits.check(state, subject, size, self._platform, _UNLIMITED, rollup=False)

    @staticmethod
    def _target(stream: OwnedStream, event: Event) -> str:
        consumer = stream.consumers.get(event.consumer)
        return "" if consumer is None else consumer.config.dead_letter or ""


def _origin(stream: OwnedStream, event: Event, message: StoredMessage) -> HeaderList:
    reason = event.reason or "terminated"
    origin = LetterOrigin(stream.name, event.stream_seq, message.time_ns, event.consumer, event.deliveries)
    return origin.headers(message.headers, reason)


def _as_input(stream: OwnedStream, event: Event, message: StoredMessage | None, time: int) -> Input:
    headers = [] if message is None else _origin(stream, event, message)
    return as_record(stream.name, "" if message is None else message.subject, headers, b"", time)


def as_record(stream: str, subject: str, headers: HeaderList, payload: bytes, time: int) -> Input:
    """A copy in the form of a record that was read, which is what ``rejected`` keeps."""
    about = [*headers, (h.PLAIN_SUBJECT, subject.encode("utf-8"))]
    return Input(True, -1, time, stream.encode("utf-8"), about, payload)
