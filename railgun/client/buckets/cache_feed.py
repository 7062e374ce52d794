"""The feed of a cache: a watch of the whole bucket, in a thread of its own, that tells the cache what is stored (KV-50).

It reads the newest value of each key and then every change, on the primary, by an ordered consumer. A consumer that is lost is not
resumed: what is cached is forgotten and told anew, since a delete may have come and gone meanwhile (KV-53). Once a second the
feed also asks where the bucket begins: values that a limit or a purge of all keys removed are not told by any message.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from typing import Final

from railgun.client import steps
from railgun.client.buckets.coding import Coding
from railgun.client.buckets.kept_values import KeptValues
from railgun.client.connection.connection import Connection
from railgun.client.consuming.delivery import Delivery
from railgun.client.operations import flows, streams
from railgun.client.operations.ordered_delivery import OrderedDelivery
from railgun.client.steps import Blocking, Steps
from railgun.errors import ConnectionClosed, RailgunError, RequestTimeout
from railgun.model.consumer_info import ConsumerInfo
from railgun.model.messages import StreamInfo

logger = logging.getLogger(__name__)

_LOOK: Final = 1.0  # seconds between two looks at where the bucket begins
_ANSWER: Final = 2.0  # seconds that it waits for the answer, at most: messages may be waiting
_PAUSE: Final = 0.5  # before a lost watch is begun again


class NewestDelivery(OrderedDelivery):
    """The newest message of each key, and then every message, of one consumer."""

    nothing_there = False

    def begun(self, info: ConsumerInfo) -> None:
        self.nothing_there = info.num_pending + info.delivered.consumer_seq == 0

    @property
    def alive(self) -> bool:
        """Whether its consumer is still the first one, and heard of."""
        buffer = self._buffer
        return buffer is not None and not buffer.closed and not buffer.silent

    def wake(self) -> None:
        """Let a caller that waits return."""
        buffer = self._buffer
        if buffer is not None:
            buffer.close()


class CacheFeed:
    """Tells the values of one bucket, until it is stopped or the connection ends."""

    def __init__(self, connection: Connection, coding: Coding, values: KeptValues) -> None:
        self._connection = connection
        self._coding = coding
        self._stream = coding.config.stream
        self._values = values
        self._delivery: NewestDelivery | None = None
        self._created = ""  # when the stream was made
        self._over = False
        self._stop = threading.Event()
        self._done = threading.Event()
        self._ready = threading.Condition()
        connection.consuming.kept_alive.begin(self)
        self._thread = threading.Thread(target=self._run, name="railgun-cache", daemon=True)
        self._thread.start()

    # -- the thread

    def _run(self) -> None:
        try:
            while not self._over:
                try:
                    self._connection.check()
                    self._follow()
                except ConnectionClosed:
                    return
                except RailgunError as error:
                    logger.warning("the cache of %s is not ready: %s", self._stream, error)
                finally:
                    self._lost()
                self._stop.wait(_PAUSE)
        finally:
            self._over = True
            self._connection.consuming.kept_alive.end(self)
            self._done.set()
            self._tell()

    def _follow(self) -> None:
        """Tell everything; returns when the watch is lost, or nobody wants it any more. Raises what a call raises."""
        info = self._info()
        if info.created != self._created:
            self._created = info.created
            self._values.new_life()
        fields = {
            "deliver_policy": "last_per_subject",
            "filter_subject": f"{self._coding.prefix}>",
        }
        delivery = self._delivery = NewestDelivery(self._connection, self._stream, Delivery, fields)
        try:
            steps.run(delivery.begin())
            self._tell_until_lost(delivery, info)
        finally:
            self._delivery = None
            steps.run(delivery.close())

    def _tell_until_lost(self, delivery: NewestDelivery, info: StreamInfo) -> None:
        behind, complete = info.state.last_seq, delivery.nothing_there
        looked = time.monotonic()
        self._values.told_first(info.state.first_seq)
        while not self._over:
            if complete and not self._values.ready:
                self._values.told_all()
                self._tell()
            for message in steps.run(delivery.round()):
                self._values.told(message.subject, self._coding.entry(message))
                complete = complete or message.sequence >= behind or message.pending == 0  # KV-51
            if not delivery.alive:
                return
            complete = complete or delivery.idle
            if time.monotonic() - looked >= _LOOK:
                looked = time.monotonic()
                with suppress(RequestTimeout):  # a busy owner: as long as it is heard of, it is not lost
                    now = self._info()
                    if now.created != info.created:  # deleted, and made again under its name
                        return
                    self._values.told_first(now.state.first_seq)

    def _info(self) -> StreamInfo:
        call = streams.stream_info(self._stream)
        return steps.run(flows.call(self._connection, call, min(_ANSWER, self._connection.timeout)))

    def _lost(self) -> None:
        self._values.lost()  # KV-53
        self._tell()

    def _tell(self) -> None:
        with self._ready:
            self._ready.notify_all()

    # -- its users

    def wait_ready(self, timeout: float) -> Steps[bool]:
        """Wait until the cache is ready; whether it is."""
        if self._values.ready:
            return True
        return bool((yield Blocking(lambda: self._wait_ready(timeout))))

    def _wait_ready(self, timeout: float) -> bool:
        with self._ready:
            return (
                self._ready.wait_for(lambda: self._values.ready or self._over, timeout) and self._values.ready
            )

    def close(self) -> Steps[None]:
        """End the feed and its consumer."""
        self._over = True
        self._stop.set()
        delivery = self._delivery
        if delivery is not None:
            delivery.wake()
        yield Blocking(lambda: self._done.wait(self._connection.timeout))

    def abandoned(self) -> None:
        """The user object was garbage-collected without being closed: the thread sees it within a heartbeat. Nothing is locked here."""
        self._over = True

    def ended(self, timeout: float) -> bool:
        """Wait in a thread until the feed has ended. For the connection, when it is closed."""
        return self._done.wait(timeout)

    def abandon(self) -> None:
        """In a forked child: the thread does not exist here, so nothing is told any more and nothing may be served (KV-53)."""
        self._over = True
        self._delivery = None
        self._ready, self._done = threading.Condition(), threading.Event()
        self._done.set()
        self._values.abandon()
