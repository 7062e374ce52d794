"""Hidden consumers: a stream that copies another one has a consumer there, which no user sees (SRC-10)."""

from __future__ import annotations

from datetime import timedelta
from hashlib import blake2b
from typing import NamedTuple

from railgun.model.consumer_config import ConsumerConfig
from railgun.model.durations import LONGEST, from_nanos
from railgun.protocol import avro as wire
from railgun.protocol.sourcing import SourceCommand, SourceLease
from railgun.semantics.consumers.configuration import start
from railgun.semantics.consumers.consumer_state import ConsumerState
from railgun.semantics.steps import finish
from railgun.semantics.streams.owned_stream import OwnedStream

_NEVER: timedelta = from_nanos(LONGEST)  # nothing is lost on the way, so nothing comes again by itself


class Feed(NamedTuple):
    """The stream for which a hidden consumer reads, and what is under way; the schema says what the fields mean."""

    stream: str
    incarnation: int
    origin: str
    session: int
    sent: int = 0
    copied: int = 0
    reached: int = 0

    def encode(self) -> bytes:
        return wire.encode("feed_record", self._asdict())

    @classmethod
    def decode(cls, data: bytes) -> Feed:
        return cls(**wire.decode("feed_record", data))

    @property
    def under_way(self) -> int:
        """Bytes that were sent and are not confirmed."""
        return self.sent - self.copied

    def lease(self, stream: OwnedStream, consumer: ConsumerState) -> SourceLease:
        """A lease without messages: how far the consumer is, and what is left for it."""
        return SourceLease(
            stream.name,
            stream.incarnation,
            self.stream,
            self.incarnation,
            self.origin,
            self.session,
            after=self.reached,
            reached=consumer.position.next - 1,
            pending=consumer.num_pending,
            retains=stream.config.retention != "limits",
        )


def consumer_name(command: SourceCommand) -> str:
    """A name that no user can give."""
    text = f"{command.stream}\0{command.incarnation}\0{command.origin}"
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"source/{command.stream}/{digest}"


def hidden_config(command: SourceCommand) -> ConsumerConfig:
    """The configuration of the consumer that the command asks for."""
    name = consumer_name(command)
    return ConsumerConfig(
        name=name,
        durable_name=name,
        ack_policy="all",
        ack_wait=_NEVER,
        max_ack_pending=command.window,
        filter_subjects=list(command.filters) or None,
        direct=True,
    )


def first_wanted(command: SourceCommand, stream: OwnedStream) -> int:
    """Where the copying begins: behind the position, or where the source says (MIR-06)."""
    first = max(stream.first_seq, 1)
    if command.position:
        return command.position + 1
    if command.start_sequence:
        return max(command.start_sequence, first)
    if command.start_time:
        config = ConsumerConfig(deliver_policy="by_start_time", opt_start_time=command.start_time)
        return finish(start.find(stream, config)).sequence
    return first


def set_window(consumer: ConsumerState, window: int) -> None:
    """So many messages may be under way from now on."""
    if window != consumer.config.max_ack_pending:
        consumer.reconfigure(consumer.config.model_copy(update={"max_ack_pending": window}))
