"""The logic of the ordered consumer: every message of a stream once and in order, without acknowledgements (PSH-12).

It is an ephemeral push consumer that the client watches. Where a delivery is missing, or nothing is heard for too long, the
consumer is made anew behind the last message that was seen. Nothing of it outlives the iteration.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from railgun.client.connection.connection import Connection
from railgun.client.consuming.delivery import Delivery
from railgun.client.consuming.fetch import prepared
from railgun.client.consuming.listeners import listen
from railgun.client.consuming.push_buffer import PushBuffer
from railgun.client.operations import consumers, flows
from railgun.client.steps import Steps
from railgun.errors import ConfigError, RailgunError
from railgun.model import headers as h
from railgun.model.consumer_info import ConsumerInfo
from railgun.protocol.leases import Lease
from railgun.protocol.statuses import IDLE_HEARTBEAT

logger = logging.getLogger(__name__)

HEARTBEAT = 1.0
_SILENCE = 3 * HEARTBEAT  # seconds without a message or heartbeat after which a consumer is gone
_OURS = (
    "name", "durable_name", "ack_policy", "max_deliver", "deliver_subject", "deliver_group", "idle_heartbeat",
    "flow_control",
)  # fmt: skip
_START = ("deliver_policy", "opt_start_seq", "opt_start_time")


class WatchedBuffer(PushBuffer):
    """The messages of one of the consumers, and when it last sent something."""

    def __init__(self, connection: Connection, make: type[Delivery], subject: str, shard: int) -> None:
        super().__init__(connection.consuming, make, subject, "", shard=shard)
        self.made = self.heard = time.monotonic()
        self.reported = 0  # number of deliveries, by its heartbeats
        self.idle_after: int | None = None  # the delivery behind which there was nothing more

    def pushed(self, lease: Lease) -> None:
        self.heard = time.monotonic()
        super().pushed(lease)

    def heartbeat(self, lease: Lease) -> None:
        self.reported = int(h.first(lease.status_headers, h.LAST_CONSUMER) or self.reported)
        stalled = h.first(lease.status_headers, h.CONSUMER_STALLED) is not None
        if lease.description == IDLE_HEARTBEAT.description and not stalled:
            self.idle_after = self.reported

    @property
    def silent(self) -> bool:
        return time.monotonic() - self.heard > _SILENCE


class OrderedDelivery:
    """The deliveries of one ordered consumer, sync or async."""

    def __init__(
        self, connection: Connection, stream: str, make: type[Delivery], fields: dict[str, Any]
    ) -> None:
        given = [name for name in fields if name in _OURS]
        if given:
            raise ConfigError(f"an ordered consumer sets {', '.join(given)} itself: leave it out")
        self._connection = connection
        self._stream = stream
        self._make = make
        self._fields = fields
        self._seen: int | None = (
            None  # the last message that was handed out; before it, where the stream was begun
        )
        self._expected = 1  # the number of the next delivery
        self._buffer: WatchedBuffer | None = None
        self._name = ""
        self.closed = False

    def batch(self) -> Steps[list[Any]]:
        """The next messages, in order; none once this is closed."""
        while not self.closed:
            found = yield from self.round()
            if found:
                return found
        yield from self._end()  # it may have begun while it was closed
        return []

    def begin(self) -> Steps[None]:
        """Make the consumer, unless it is there."""
        if self._buffer is None and not self.closed:
            yield from self._begin()

    def round(self) -> Steps[list[Any]]:
        """The messages that come within a heartbeat, in order; there may be none."""
        buffer = self._buffer
        if buffer is None:
            buffer = yield from self._begin()
        yield from buffer.some(HEARTBEAT)
        found = self._in_order(buffer)
        if not found:
            missed = buffer.reported >= self._expected and buffer.empty
            if missed or buffer.silent or buffer.lost:
                yield from self._end()
        return found

    @property
    def idle(self) -> bool:
        """Whether all that there was for the consumer was handed out, as its last heartbeat says."""
        buffer = self._buffer
        return buffer is not None and buffer.idle_after == self._expected - 1 and buffer.empty

    def _in_order(self, buffer: WatchedBuffer) -> list[Any]:
        """Messages up to the first that does not follow; what comes behind it is delivered again by a new consumer."""
        found = []
        while buffer.ready:
            message = buffer.ready.popleft()
            if message.consumer_sequence != self._expected:
                buffer.reported = message.consumer_sequence
                buffer.discard()
                break
            self._expected += 1
            self._seen = message.sequence
            found.append(message)
        return found

    def _begin(self) -> Steps[WatchedBuffer]:
        connection = self._connection
        address = yield from prepared(connection.consuming, self._stream, "")
        subject = f"_INBOX.{connection.client}.{connection.requests.numbers.take()}"
        buffer = WatchedBuffer(connection, self._make, subject, address.partition)
        yield from listen(connection.consuming, buffer)
        fields = {
            **self._fields,
            "ack_policy": "none",
            "max_deliver": 1,
            "mem_storage": True,
            "deliver_subject": subject,
            "idle_heartbeat": HEARTBEAT,
            "flow_control": True,
        }
        if self._seen is not None and not self._starts_over:
            fields = {name: value for name, value in fields.items() if name not in _START}
            fields |= {"deliver_policy": "by_start_sequence", "opt_start_seq": self._seen + 1}
        config = consumers.consumer_config(None, fields, ephemeral=True)
        create = consumers.create_call(self._stream, config, consumers.CREATE)
        try:
            info: ConsumerInfo = yield from flows.call(connection, create, connection.timeout)
        except BaseException:  # of a task that is cancelled, too
            buffer.close()
            raise
        self._buffer, self._name, self._expected = buffer, info.name, 1
        if self._seen is None:
            self._seen = max(info.ack_floor.stream_seq, 0) if info.delivered.stream_seq == 0 else None
        self.begun(info)
        return buffer

    def begun(self, info: ConsumerInfo) -> None:
        """Called when a consumer was made."""

    @property
    def _starts_over(self) -> bool:
        """Whether a new consumer begins where the first one did, and not behind the last message that was seen."""
        return False

    def _end(self) -> Steps[None]:
        """The consumer is of no more use; whatever is left of it vanishes by itself at the latest."""
        buffer, self._buffer = self._buffer, None
        if buffer is None:
            return
        buffer.close()
        try:
            delete = consumers.delete_consumer(self._stream, self._name)
            yield from flows.call(self._connection, delete, self._connection.timeout)
        except RailgunError as error:
            logger.info("the consumer %s of %s was not deleted: %s", self._name, self._stream, error)

    def close(self) -> Steps[None]:
        """End the iteration and its consumer."""
        self.closed = True
        yield from self._end()
