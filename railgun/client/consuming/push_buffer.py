"""Messages that are pushed to a subject, until they are taken; flow control, statuses, and a consumer that is gone."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from typing import TYPE_CHECKING

from railgun.api.names import ApiName, Operation, parse
from railgun.client.consuming.buffer import Buffer
from railgun.client.consuming.delivery import Delivery, status_message
from railgun.client.consuming.parcels import Parcel
from railgun.client.requests import PendingCall
from railgun.errors import ConsumerNotFound, RailgunError
from railgun.model import headers as h
from railgun.model.consumer_config import ConsumerConfig
from railgun.protocol.leases import Lease

if TYPE_CHECKING:
    from railgun.client.consuming.ack_box import Address
    from railgun.client.consuming.hub import ConsumerHub

logger = logging.getLogger(__name__)

MOST_WAITING = 65_536  # messages that wait in one listener; a slower one loses what comes beyond
_SILENCE = 10.0  # seconds after which it is asked whether a consumer is still there


class PushBuffer(Buffer):
    """The messages that are sent to one subject, until they are taken."""

    def __init__(
        self,
        hub: ConsumerHub,
        make: type[Delivery],
        subject: str,
        group: str,
        *,
        shard: int | None = None,
        statuses: bool = False,
    ) -> None:
        super().__init__(hub, make)
        self.subject = subject
        self.group = group
        self.shard = shard  # the only one that sends there, if that is known
        self.lost = 0  # messages that were not taken in time
        self._statuses = statuses
        self._credits: deque[tuple[int, str]] = deque()  # (messages to be taken first, where to answer)
        self._arrived = 0

    def pushed(self, lease: Lease) -> None:
        """Messages or a status that were sent to the subject."""
        if lease.sequences:
            if len(self.ready) + sum(parcel.count for parcel in self._parcels) >= MOST_WAITING:
                self._lose(lease)
                return
            with self.lock:
                self._arrived += sum(lease.counts)
            self.put(lease)
        if lease.status:
            self._take_status(lease)

    def _take_status(self, lease: Lease) -> None:
        if self._statuses:
            one = status_message(
                self._make, self.subject, lease.status, lease.description, lease.status_headers, lease.reply
            )
            parcel = Parcel(lease._replace(sequences=[], counts=[]), None, self._make, self)
            parcel.messages, parcel.done = [one], True
            with self.lock:  # behind the messages that were sent before it
                self._parcels.append(parcel)
            self.moved(parcel)
        else:
            stalled = h.first(lease.status_headers, h.CONSUMER_STALLED)
            reply = lease.reply or (stalled or b"").decode("utf-8")
            if reply:
                with self.lock:
                    self._credits.append((self._arrived, reply))
                self.hub.later(self.refill)
        self.heartbeat(lease)

    def heartbeat(self, lease: Lease) -> None:
        """Called for a status of the consumer: a heartbeat or flow control."""

    def refill(self) -> None:
        """Answer flow control once everything before it was taken (PSH-07)."""
        if not self._credits:
            return
        due = []
        with self.lock:
            waiting = len(self.ready) + sum(parcel.count - parcel.passed for parcel in self._parcels)
            while self._credits and self._credits[0][0] <= self._arrived - waiting:
                due.append(self._credits.popleft()[1])
        for reply in due:
            name = parse(reply)
            if name is not None:
                self.hub.link.requests.send_unanswered(self.hub.address(name.stream, "").partition, name)

    def discard(self) -> None:
        """Drop what is here: another consumer delivers it again."""
        with self.lock:
            self.ready.clear()
            for parcel in self._parcels:
                parcel.drop()
            self._parcels.clear()

    def _lose(self, lease: Lease) -> None:
        if self.lost == 0:
            logger.error(
                "messages on %s come faster than they are taken: those of the consumer %r are delivered again if it "
                "wants acknowledgements, and lost if not",
                self.subject,
                lease.consumer,
            )
        self.lost += sum(lease.counts)

    def close(self) -> None:
        if not self.closed:
            self.hub.listeners.remove(self)
        super().close()


class BoundBuffer(PushBuffer):
    """The messages of one push consumer. The consumer is asked for now and then: no listener is told when it is gone."""

    def __init__(
        self, hub: ConsumerHub, make: type[Delivery], address: Address, config: ConsumerConfig
    ) -> None:
        assert config.deliver_subject is not None
        group = config.deliver_group or ""
        super().__init__(hub, make, config.deliver_subject, group, shard=address.partition)
        self.keep_alive(config)
        self._name = ApiName(Operation.CONSUMER_INFO, address.stream, address.consumer)
        self._heard = time.monotonic()

    def pushed(self, lease: Lease) -> None:
        self._heard = time.monotonic()
        super().pushed(lease)

    def tick(self, now: float) -> None:
        super().tick(now)
        if now - self._heard >= _SILENCE and not self.closed:
            self._heard = now
            try:
                assert self.shard is not None
                call = self.hub.link.requests.begin(self.shard, self._name, b"", None, _SILENCE)
            except RailgunError as error:
                logger.info("consumer %s could not be asked for: %s", self._name.text, error)
            else:
                call.when_done(lambda: self._answered(call))

    def _answered(self, call: PendingCall) -> None:
        """End if the answer says that the consumer is gone; no answer may be a worker that restarts."""
        if call.error is None and call.value:
            error = json.loads(call.value[0].body or b"{}").get("error")
            if error is not None and error.get("code") == 404:
                self.failed(ConsumerNotFound(404, 10014, "consumer not found", stream=self._name.stream))
