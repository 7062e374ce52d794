"""The claim of a worker to a partition: what the consumer group says of it, and the producer that fences all former owners."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from confluent_kafka import KafkaException, Producer

from railgun.worker.context import ShardContext
from railgun.worker.group.membership import Membership
from railgun.worker.shards.recovery import OwnerLost, ShardStopped
from railgun.worker.shards.transaction import DrainWriter

log = logging.getLogger("railgun.worker")

_INIT_SECONDS: Final = 15.0
_ASK_SECONDS: Final = 15.0
_PAUSE: Final = 0.2


class Claim:
    """One stay of a partition at this worker. Every wait here ends with ShardStopped once ``stopping`` is set."""

    def __init__(
        self, partition: int, context: ShardContext, membership: Membership, stopping: threading.Event
    ) -> None:
        self._partition = partition
        self._name = f"shard {partition}"
        self._context = context
        self._membership = membership
        self._stopping = stopping
        self.init_started: float | None = None  # monotonic time at which an init began that has not come back

    def fence(self) -> DrainWriter:
        """CLU-15: a writer whose producer fences the former owner, whose later writes are never visible.

        Raises OwnerLost when the partition is no longer this worker's.
        """
        context = self._context
        settings = context.kafka.transactional_producer(context.names.transactional_id(self._partition))
        while True:
            if self._stopping.is_set():
                raise ShardStopped
            if not context.is_current(self._membership):  # a late init would fence the real owner
                raise OwnerLost("the consumer group has moved on")
            producer = Producer(settings)
            self.init_started = time.monotonic()
            try:
                producer.init_transactions(_INIT_SECONDS)
            except KafkaException as error:
                log.warning("%s: the producer could not be initialised: %s", self._name, error.args[0].str())
                self.pause(0.5)
            else:
                return DrainWriter(producer, context.names, self._partition)
            finally:
                self.init_started = None

    def confirm(self) -> None:
        """Wait until the group itself says that the partition is this worker's: what the worker believes may be old."""
        while True:
            if not self._context.is_current(self._membership):
                raise OwnerLost("the consumer group has moved on")
            answer = self._context.confirmed(self._membership)
            if answer:
                return
            if answer is False:
                raise OwnerLost("the consumer group gave the partition to another worker")
            self.pause(_PAUSE)

    def holds(self) -> bool:
        """Ask the group, for as long as it is in the middle of a rebalance; in doubt the partition is another worker's."""
        deadline = time.monotonic() + _ASK_SECONDS
        while time.monotonic() < deadline and self._context.is_current(self._membership):
            answer = self._context.confirmed(self._membership)
            if answer is not None:
                return answer
            self.pause(_PAUSE)
        return False

    def pause(self, seconds: float) -> None:
        """Wait so long. Raises ShardStopped."""
        if self._stopping.wait(seconds):
            raise ShardStopped
