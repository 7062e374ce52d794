"""Messages that are pulled ahead of the user: how many, and when to pull again.

Two pulls at most wait at the shard. The window, how many messages are asked for or wait here, begins small, grows fourfold when
the user had to wait although there was more, and halves when it lasted too long: a slow worker holds few messages back from
others that share the consumer. It is bounded in messages and, by the size of those that came lately, in bytes.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from railgun.client.consuming.ack_box import Address
from railgun.client.consuming.buffer import Buffer
from railgun.client.consuming.fetch import pull_refused
from railgun.client.consuming.pulls import OpenPull
from railgun.errors import NotAuthorized, RailgunError
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.durations import NANOS, to_nanos
from railgun.protocol.commands import Pull
from railgun.protocol.leases import Lease
from railgun.protocol.statuses import EXCEEDED_MAX_WAITING, MESSAGE_TOO_BIG

if TYPE_CHECKING:
    from railgun.client.consuming.delivery import Delivery
    from railgun.client.consuming.hub import ConsumerHub

logger = logging.getLogger(__name__)

MOST_MESSAGES = 16_000
MOST_BYTES = 16 * 1024 * 1024
_PULLS = 2
_EXPIRES = 30 * NANOS
_SLOW = 1.0  # seconds; a window that lasts longer is too large
_OVERDUE = 5.0  # seconds behind its end after which a pull counts as lost
_SAMPLE = 32  # messages that are measured of those that come together
_PAUSE = 0.5  # before a pull that was refused for now is sent again


class PullBuffer(Buffer):
    """The messages of a pull consumer, leased ahead."""

    def __init__(
        self,
        hub: ConsumerHub,
        make: type[Delivery],
        address: Address,
        config: ConsumerConfig,
        *,
        least: int,
        most: int = MOST_MESSAGES,
    ) -> None:
        super().__init__(hub, make)
        self.keep_alive(config)
        self._address = address
        self._expires = min(_EXPIRES, to_nanos(config.max_expires or 0) or _EXPIRES)
        self._batch = min(most, config.max_batch or most)
        self._bytes = min(MOST_BYTES // 2, config.max_bytes or MOST_BYTES)
        self._least, self._most = least, most
        self._window = least
        self._size = 0.0  # of a message, on average
        self._open: dict[int, OpenPull] = {}
        self._backlog = False  # the last lease left messages behind
        self._one_large = False  # the next message is larger than what a pull may bring
        self._not_before = 0.0
        self._turned = time.monotonic()
        self._seen_dry = 0

    # -- asking

    def refill(self) -> None:
        """Ask for more once half of the window is used up."""
        pull = self._next_pull()
        if pull is None:
            return
        box = self.hub.latest_box(self._address.stream, self._address.consumer)
        try:
            self.hub.pulls.open(pull, box, self._sent)
        except RailgunError as error:
            self._sent(error)

    def run_dry(self) -> None:
        """Send the acknowledgements now: the caller may wait for the room that they make."""
        if self._parcels:
            return  # more is being read
        box = self.hub.latest_box(self._address.stream, self._address.consumer)
        if box is not None and box.entries:
            self.hub.flush(box)

    def _next_pull(self) -> OpenPull | None:
        now = time.monotonic()
        with self.lock:
            if self.closed or self._error is not None or len(self._open) >= _PULLS or now < self._not_before:
                return None
            window = self._window
            if self._size:
                window = max(min(window, int(MOST_BYTES / self._size)), 1)
            asked = sum(pull.asked.batch - pull.got for pull in self._open.values())
            unread = sum(parcel.count - parcel.passed for parcel in self._parcels)
            room = window - asked - unread - len(self.ready)
            if room * 2 < window:
                return None
            self._adapt(now)
            batch, limit = (1, 0) if self._one_large else (min(room, self._batch), self._bytes)
            number = self.hub.link.requests.numbers.take()
            pull = OpenPull(self._address, self, Pull(number, batch, limit, self._expires))
            self._open[number] = pull
            return pull

    def _adapt(self, now: float) -> None:
        """Half of the window was used up: was it too small, or did it last too long?"""
        lasted, self._turned = now - self._turned, now
        waited, self._seen_dry = self.dry > self._seen_dry, self.dry
        if waited and self._backlog:
            self._window = min(self._window * 4, self._most)
        elif lasted > _SLOW:
            self._window = max(self._window // 2, self._least)

    def _sent(self, error: RailgunError | None) -> None:
        if error is None:
            return
        if isinstance(error, NotAuthorized):
            self.failed(error)
        else:
            logger.warning("a pull from %s did not reach the broker: %s", self._name, error)
            with self.lock:  # sent again by ``tick``
                for pull in self._open.values():
                    pull.ends = time.monotonic() - _OVERDUE + _PAUSE

    @property
    def _name(self) -> str:
        return f"{self._address.stream}/{self._address.consumer}"

    # -- what comes

    def leased(self, pull: OpenPull, lease: Lease) -> None:
        if lease.sequences:
            self._one_large = False
            self._backlog = lease.pending > 0
            self.put(lease)
        if lease.done:
            with self.lock:
                self._open.pop(pull.id, None)
            if lease.status:
                self._ended(lease, pull)
            self.hub.later(self.refill)

    def _ended(self, lease: Lease, pull: OpenPull) -> None:
        if lease.description == EXCEEDED_MAX_WAITING.description:
            self._not_before = time.monotonic() + _PAUSE
            return
        if lease.description == MESSAGE_TOO_BIG.description and pull.got == 0:
            self._one_large = True
        refusal = pull_refused(lease, self._address)
        if refusal is not None:
            self.failed(refusal)

    def arrived(self, messages: list[Delivery]) -> None:
        some = messages[:: len(messages) // _SAMPLE + 1]
        size = sum([len(message.payload) for message in some]) / len(some)
        self._size = size if size > self._size else (self._size * 3 + size) / 4

    # -- time

    def tick(self, now: float) -> None:
        super().tick(now)
        with self.lock:
            lost = [one for one in self._open.values() if one.ends and now > one.ends + _OVERDUE]
            for pull in lost:
                pull.ends = now + self._expires / NANOS
        for pull in lost:
            logger.warning(
                "a pull from %s was not answered and is sent again; is a worker alive?", self._name
            )
            self.hub.commands.send_or_log(pull.address, pull=pull.rest())
        if self._not_before:
            self.refill()

    def close(self) -> None:
        super().close()
        with self.lock:
            pulls = list(self._open.values())
            self._open.clear()
        for pull in pulls:
            self.hub.pulls.cancel(pull)
