"""Publishes that wait for the same stream travel as one record.

Each stream has a :class:`Lane`: a pack that is being filled, and full ones that wait. A lane is emptied by one thread at a time, so messages
leave in the order in which they came (PUB-23). A lone ``publish`` is encoded and handed over by its own thread; others by the sender thread.

At most ``max_in_flight`` messages are unanswered. Beyond that a blocking caller waits for room, and what came without
blocking stays in its lane until there is some; not without bound (:meth:`Packer.check_ahead`).
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

from railgun.client.publishing.packs import (
    PACK_BYTES,
    PACK_MESSAGES,
    BatchPacks,
    Lane,
    Pack,
    PublishFuture,
    message_size,
    waiting_in,
)
from railgun.client.requests import RequestNumbers
from railgun.client.settlements import Wakeups
from railgun.client.transport import Send
from railgun.errors import ConnectionClosed, RailgunError, RequestTimeout, TooManyWaiting
from railgun.model.headers import HeaderList
from railgun.protocol.commands import PACK
from railgun.protocol.replies import PackReply

logger = logging.getLogger(__name__)

# How far what does not block may run ahead of the answers: it waits in the process's memory.
AHEAD_WINDOWS = 16  # times max_in_flight
AHEAD_BYTES = 256 * 1024 * 1024
_LONGEST_WAIT = 3_600.0  # seconds, before it is looked again: no lock waits for ever in one call
_FIRST_PACKS = 64  # of a lane, which are counted for each that comes
_FOR_OTHERS = 10 * PACK_MESSAGES  # that came later and that a caller's thread sends with its own


class Packer:
    """All lanes of a connection, the window of what is unanswered, and the thread that empties lanes."""

    def __init__(
        self,
        client: str,
        send: Send,
        numbers: RequestNumbers,
        *,
        max_in_flight: int,
        timeout: float,
        failed: Callable[[RailgunError], None],
    ) -> None:
        """``failed`` is told if the sender thread cannot go on."""
        self._client = client
        self._send = send
        self._numbers = numbers
        self._max = max_in_flight
        self._low = max_in_flight * 3 // 4  # wake blocked callers in bulk, not for each pack
        self._timeout = timeout
        self._failed = failed
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._work = threading.Condition(self._lock)
        self._quiet = threading.Condition(self._lock)
        self._queue: deque[Lane] = deque()
        self._gated: list[Lane] = []  # lanes that wait for room in the window
        self._pending: dict[int, tuple[Lane, Pack]] = {}
        self._unanswered = 0  # in lanes or sent
        self._unanswered_bytes = 0
        self._sent = 0
        self._closed: RailgunError | None = None  # nothing is sent any more
        self._refused: RailgunError | None = None  # nothing more is taken
        self._idle = False
        self._busy: set[Lane] = set()  # lanes that some thread is emptying
        self._thread = threading.Thread(target=self._run, name="railgun-sender", daemon=True)
        self._thread.start()

    # -- adding

    def add(
        self,
        lane: Lane,
        subject: str,
        payload: bytes,
        msg_id: str = "",
        headers: HeaderList | None = None,
        *,
        block: bool = True,
        silent: bool = False,
        patience: float | None = None,
        queue: bool = True,
    ) -> PublishFuture:
        """Put one message into the lane. ``queue=False``: the caller goes on to :meth:`pump`.

        ``patience``: seconds that the caller waits, for room and for the answer; None: as long as it takes. Raises RequestTimeout
        where there was no room in time: the message is in no lane.
        """
        size = message_size(subject, payload, msg_id, headers)
        with self._lock:
            if self._refused is not None or (block and self._unanswered >= self._max):
                self._wait_for_room(patience)
            pack = lane.open
            index = len(pack.payloads)
            if (
                pack.silent is not silent
                or index >= PACK_MESSAGES
                or (index and pack.size + size > PACK_BYTES)
            ):
                pack, index = lane.close_pack(silent=silent), 0
            if patience is not None and patience > pack.patience:
                pack.patience = patience
            pack.subjects.append(subject)
            pack.payloads.append(payload)
            if msg_id or pack.ids:
                if len(pack.ids) < index:
                    pack.ids = [""] * index
                pack.ids.append(msg_id)
            if headers or pack.headers:
                if len(pack.headers) < index:
                    pack.headers = [[] for _ in range(index)]
                pack.headers.append(headers or [])
            pack.size += size
            self._unanswered += 1
            self._unanswered_bytes += size
            if queue and not lane.queued:
                self._enqueue(lane)
        return PublishFuture(pack, index)

    def add_now(
        self, lane: Lane, subject: str, payload: bytes, msg_id: str, headers: HeaderList | None, **how: Any
    ) -> PublishFuture:
        """As :meth:`add`; a message that is alone leaves in the caller's thread, before this returns."""
        alone = lane.alone or how.get("silent", False)
        future = self.add(lane, subject, payload, msg_id, headers, queue=not alone, **how)
        if alone:
            self.pump(lane)
        return future

    def adopt(self, lane: Lane, pack: Pack, *, queue: bool = True) -> int:
        """Put a pack that was filled elsewhere behind what the lane holds; how many messages its first packs have now.

        ``queue=False``: the caller goes on to :meth:`pump`.
        """
        with self._lock:
            if self._closed is not None:
                raise self._closed
            lane.close_pack()
            lane.ready.append(pack)
            self._unanswered += len(pack.payloads)
            self._unanswered_bytes += pack.size
            if queue and not lane.queued:
                self._enqueue(lane)
            return sum(len(one.payloads) for one in islice(lane.ready, _FIRST_PACKS))

    def check_ahead(self, others: int = 0, other_bytes: int = 0) -> None:
        """Raise TooManyWaiting where too much is unanswered, with what waits elsewhere to be added."""
        count, size = self._unanswered + others, self._unanswered_bytes + other_bytes
        if count >= self._max * AHEAD_WINDOWS or size >= AHEAD_BYTES:
            raise TooManyWaiting(
                f"{count} messages ({size} bytes) have no answer yet, so this one was not taken: "
                "await a future or flush() now and then"
            )

    @property
    def has_room(self) -> bool:
        return self._unanswered < self._max

    @property
    def is_full(self) -> bool:
        """Whether something waits for room to be sent: the time that it is given has not begun, so its caller keeps a clock."""
        return self._unanswered > self._max

    def wait_for_room(self) -> None:
        """Until fewer than ``max_in_flight`` are unanswered. Raises what the connection ended with."""
        with self._lock:
            self._wait_for_room()

    def _wait_for_room(self, patience: float | None = None) -> None:
        deadline = math.inf if patience is None else time.monotonic() + patience
        while self._refused is None and self._unanswered >= self._max:
            left = deadline - time.monotonic()
            if left <= 0:
                raise RequestTimeout(
                    f"no room within {patience:g} s: {self._unanswered} messages of this connection have no answer yet, and this one was "
                    "not sent"
                )
            self._room.wait(min(left, _LONGEST_WAIT))
        self.check()

    def check(self) -> None:
        """Raises what the connection ended with, from the moment when nothing more is taken."""
        if self._refused is not None:
            raise self._refused.with_traceback(None)

    def _enqueue(self, lane: Lane) -> None:
        lane.queued = True
        self._queue.append(lane)
        if self._idle:
            self._work.notify()

    # -- sending

    def pump(self, lane: Lane, *, all_of_it: bool = False) -> None:
        """Send what the lane holds, unless another thread is doing so; what comes meanwhile, too, or leave it to the sender thread."""
        with self._lock:
            if lane.busy:
                return
            lane.busy = True
            self._busy.add(lane)
            goal = math.inf if all_of_it else lane.added + _FOR_OTHERS
        try:
            while (pack := self._next_pack(lane, goal)) is not None:
                self._send_pack(lane, pack)
        except BaseException:
            with self._lock:  # an interrupt: the sender thread goes on with what others wait for
                self._leave(lane)
            raise

    def _next_pack(self, lane: Lane, goal: float) -> Pack | None:
        """The next pack to send; None if there is none now, or the goal is reached, and then nobody empties the lane any more."""
        with self._lock:
            lane.handed_over()
            pack = self._take(lane) if lane.left < goal else None
            if pack is None:
                self._leave(lane)
            return pack

    def _leave(self, lane: Lane) -> None:
        """The thread that emptied the lane is done; what is left is for the sender thread."""
        lane.handed_over()
        lane.busy = False
        self._busy.discard(lane)
        over = self._closed is not None or lane.queued or lane in self._gated
        if not over and lane.left < lane.added:
            self._enqueue(lane)
        self._quiet.notify_all()

    def _send_pack(self, lane: Lane, pack: Pack) -> None:
        """Hand the pack over. One that an interrupt keeps from leaving ends at its deadline: it may have left."""
        try:
            value = pack.encode(self._client)
            self._send(lane.partition, lane.key, PACK, value, partial(self._delivered, lane, pack))
        except RailgunError as error:
            self.finish(pack.first, None, error)
        except Exception as error:  # noqa: BLE001 - no caller may wait for ever for a pack that never left
            self.finish(pack.first, None, RailgunError(f"the publish could not be sent: {error!r}"))

    def _take(self, lane: Lane) -> Pack | None:
        if self._closed is not None:
            return None  # what the lane holds has ended, and its messages are gone
        if self._sent >= self._max:
            self._gated.append(lane)
            return None
        if lane.ready:
            pack = BatchPacks.taken_from(lane.ready)
        elif lane.open.payloads:
            pack, lane.open = lane.open, Pack(lane.stream)
        else:
            return None
        pack.count = len(pack.payloads)
        pack.first = self._numbers.take(pack.count)
        pack.deadline = time.monotonic() + max(self._timeout, pack.patience)
        self._sent += pack.count
        lane.in_flight += 1
        lane.leaving = pack.count
        self._pending[pack.first] = (lane, pack)
        return pack

    def _delivered(self, lane: Lane, pack: Pack, error: RailgunError | None) -> None:
        pack.delivered = error is None
        if error is not None or pack.silent:
            reply = None if error is not None else PackReply(pack.stream, pack.first, [], [], [])
            self.finish(pack.first, reply, error)
        elif lane.no_ack:
            with self._lock:
                self._discount(lane, pack)

    def _run(self) -> None:
        try:
            while (lane := self._next()) is not None:
                self.pump(lane, all_of_it=True)
        except Exception as error:
            logger.exception("the sender's thread ended")
            self._failed(RailgunError(f"the sender's thread ended: {error!r}"))

    def _next(self) -> Lane | None:
        """The next lane to empty, waited for; None when all is over."""
        with self._lock:
            while not self._queue:
                if self._closed is not None:
                    return None
                self._idle = True
                self._work.wait()
                self._idle = False
            lane = self._queue.popleft()
            lane.queued = False
            return lane

    def push(self) -> None:
        """Everything that waits in lanes leaves before this returns, as far as the window allows; what comes meanwhile need not."""
        with self._lock:
            goals = {lane: lane.added for lane in (*self._queue, *self._busy)}
        for lane, goal in goals.items():
            self.pump(lane)
            with self._lock:
                while lane.busy and lane.left < goal:
                    self._quiet.wait(0.1)

    # -- ending

    def finish(
        self, first: int, reply: PackReply | None, error: RailgunError | None, wakeups: Wakeups | None = None
    ) -> None:
        """The pack that began with this request has ended. One that is not known (late, ended) is left alone."""
        with self._lock:
            entry = self._pending.pop(first, None)
            if entry is None:
                return
            lane, pack = entry
            self._discount(lane, pack)
        own = Wakeups() if wakeups is None else wakeups
        pack.settle(reply, error, own)
        if wakeups is None:
            own.deliver()

    def _discount(self, lane: Lane, pack: Pack) -> None:
        """The pack no longer counts as unanswered: there is room for others."""
        if not pack.counted:
            return
        pack.counted = False
        lane.in_flight -= 1
        self._sent -= pack.count
        self._unanswered -= pack.count
        self._unanswered_bytes -= pack.size
        for gated in self._gated:
            if not gated.queued:
                self._enqueue(gated)
        self._gated.clear()
        if self._unanswered <= self._low:
            self._room.notify_all()

    @property
    def unanswered(self) -> int:
        return self._unanswered

    def pending(self) -> list[Pack]:
        """What was sent and has not ended, oldest first."""
        with self._lock:
            return [pack for _, pack in self._pending.values()]

    def wait_empty(self, timeout: float) -> bool:
        """Whether everything that was added has ended within the time."""
        deadline = time.monotonic() + timeout
        self.push()
        with self._lock:
            while self._unanswered and (left := deadline - time.monotonic()) > 0:
                self._room.wait(min(left, 0.1))
            return not self._unanswered

    def refuse(self) -> None:
        """Take no more messages; what is there goes on, and a batch to its end."""
        with self._lock:
            self._refused = self._refused or ConnectionClosed("the connection is closed")
            self._room.notify_all()

    def close(self, lanes: Iterable[Lane], error: RailgunError | None = None) -> None:
        """Take no more; everything that has not ended ends now, with this error."""
        reason = error or ConnectionClosed(
            "the connection was closed before the answer came: the outcome is unknown"
        )
        wakeups = Wakeups()
        with self._lock:
            self._closed = error or ConnectionClosed("the connection is closed")
            self._refused = self._refused or self._closed
            waiting = waiting_in(lanes) + [pack for _, pack in self._pending.values()]
            self._pending.clear()
            self._unanswered = self._unanswered_bytes = self._sent = 0
            self._room.notify_all()
            self._work.notify_all()
        for pack in waiting:
            pack.settle(None, reason, wakeups)
        wakeups.deliver()

    def abandon(self, lanes: Iterable[Lane], error: RailgunError) -> None:
        """In a forked child: the locks may be held by threads that do not exist here, and nothing has an outcome."""
        self._lock = threading.Lock()
        self._room = self._work = self._quiet = threading.Condition(self._lock)
        self._closed = self._refused = error
        for pack in waiting_in(lanes) + [pack for _, pack in self._pending.values()]:
            pack.abandon(error)
