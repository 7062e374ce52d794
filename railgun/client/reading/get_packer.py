"""Gets that one client has in flight travel as one record.

A get of a stream that nothing is unanswered of leaves at once, in its caller's thread. The others are collected while that is
under way, and leave together as soon as the sender thread has its turn: none waits for an answer to another one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from railgun.client.reading.pending_reads import PendingReads, Record, WaitingGets, deadline_in
from railgun.client.requests import RequestNumbers
from railgun.errors import RailgunError
from railgun.protocol.commands import GETS

_MOST_LANES = 1_000  # beyond, those that nothing is under way of are forgotten


class GetLane:
    """The gets that wait for one stream."""

    __slots__ = ("gathered", "open", "partition", "queued", "under_way")

    def __init__(self, stream: str, partition: int) -> None:
        self.partition = partition
        self.open = WaitingGets(stream)
        self.gathered: deque[WaitingGets] = deque()  # full ones
        self.under_way: list[WaitingGets] = []  # sent
        self.queued = False  # the sender knows of it

    @property
    def idle(self) -> bool:
        """Whether nothing of it waits or is unanswered."""
        self.under_way = [gets for gets in self.under_way if not gets.done]
        return not (self.under_way or len(self.open) or self.gathered)


class GetPacker:
    """The gets of one connection, and the thread that sends what has gathered. Thread-safe.

    ``check`` raises what ended the connection. ``push`` sends the publishes that wait, so that a get sees what this client
    published before it.
    """

    def __init__(
        self,
        client: str,
        numbers: RequestNumbers,
        pending: PendingReads,
        check: Callable[[], None],
        push: Callable[[], None],
    ) -> None:
        self._client = client
        self._numbers = numbers
        self._pending = pending
        self._check = check
        self._push = push
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._lanes: dict[str, GetLane] = {}
        self._queue: deque[GetLane] = deque()
        self._thread: threading.Thread | None = None
        self._closed: RailgunError | None = None

    def add(
        self, stream: str, partition: int, form: int, sequence: int, subject: str, timeout: float
    ) -> tuple[WaitingGets, int]:
        """Put one get on its way: what it travels in, and its index there. Raises what ended the connection."""
        self._check()
        self._push()
        with self._lock:
            if self._closed is not None:
                raise self._closed.with_traceback(None)
            lane = self._lanes.get(stream)
            if lane is None or lane.partition != partition:
                if len(self._lanes) >= _MOST_LANES:
                    self._lanes = {name: one for name, one in self._lanes.items() if not one.idle}
                lane = self._lanes[stream] = GetLane(stream, partition)
            alone = lane.idle
            gets = lane.open
            if not gets.has_room(subject):
                lane.gathered.append(gets)
                gets = lane.open = WaitingGets(stream)
            index = gets.add(form, sequence, subject, deadline_in(timeout))
            if alone:
                self._begin(lane)
            elif not lane.queued:
                self._enqueue(lane)
        if alone:
            self._hand_over(lane.partition, gets)
        return gets, index

    def send(self, partition: int, gets: WaitingGets) -> None:
        """Send gets that were put together by their caller. Raises what ended the connection."""
        self._check()
        self._push()
        gets.request = self._numbers.take()
        self._pending.add(gets)
        self._hand_over(partition, gets)

    def _enqueue(self, lane: GetLane) -> None:
        lane.queued = True
        self._queue.append(lane)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="railgun-gets", daemon=True)
            self._thread.start()
        self._work.notify()

    def _begin(self, lane: GetLane) -> WaitingGets | None:
        """Take the next gets of the lane; None if there are none."""
        if lane.gathered:
            gets = lane.gathered.popleft()
        elif len(lane.open):
            gets, lane.open = lane.open, WaitingGets(lane.open.stream)
        else:
            return None
        gets.request = self._numbers.take()
        lane.under_way.append(gets)
        self._pending.add(gets)
        return gets

    def _hand_over(self, partition: int, gets: WaitingGets) -> None:
        try:
            record = Record(partition, gets.stream.encode("utf-8"), GETS, gets.encode(self._client))
            self._pending.send(gets, record)
        except RailgunError as error:
            self._pending.end(gets, error)
        except Exception as error:  # noqa: BLE001 - no caller may wait for ever for gets that never left
            self._pending.end(gets, RailgunError(f"the get could not be sent: {error!r}"))

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._queue:
                    if self._closed is not None:
                        return
                    self._work.wait()
                lane = self._queue.popleft()
                lane.queued = False
                taken: list[WaitingGets] = []
                while (gets := self._begin(lane)) is not None:
                    taken.append(gets)
            for gets in taken:
                self._hand_over(lane.partition, gets)

    def close(self, error: RailgunError) -> None:
        """End the thread, and all gets that were not sent."""
        with self._lock:
            self._closed = error
            waiting = [gets for lane in self._lanes.values() for gets in (*lane.gathered, lane.open)]
            self._lanes.clear()
            self._queue.clear()
            self._work.notify_all()
        for gets in waiting:
            self._pending.end(gets, error)

    def abandon(self) -> None:
        """In a forked child: the lock may be held by a thread that does not exist here."""
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._lanes, self._queue, self._thread = {}, deque(), None
