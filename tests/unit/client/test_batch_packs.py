"""Packs of batches that travel in one record: what each is told, and what travels apart."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

import railgun
from railgun.client.connection.connection import Connection
from railgun.client.facade.async_railgun import AsyncRailgun
from railgun.client.publishing.packer import Packer
from railgun.client.publishing.packs import PACK_BYTES, PACK_MESSAGES, BatchPacks, Lane, Pack
from railgun.client.requests import RequestNumbers
from railgun.client.settlements import Wakeups
from railgun.errors import ApiError, ConnectionLost, RailgunError, RequestTimeout
from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.messages import PubAck
from railgun.protocol.replies import STAGED, PackReply
from tests.support.transports import Silent


def batch(identity: str, count: int, size: int = 10, patience: float = 0.0) -> Pack:
    pack = Pack("S")
    pack.whole, pack.patience = True, patience
    for number in range(1, count + 1):
        pack.subjects.append("s")
        pack.payloads.append(b"x")
        pack.headers.append([(h.BATCH_ID, identity.encode()), (h.BATCH_SEQUENCE, b"%d" % number)])
        pack.size += size
    pack.headers[-1].append((h.BATCH_COMMIT, b"1"))
    return pack


@pytest.mark.rule("BAT-06", "BAT-13")
def test_each_batch_is_told_its_own() -> None:
    batches = [batch("a", 3), batch("b", 2), batch("c", 1), batch("d", 1), batch("e", 2)]
    ready = deque(batches)
    together = BatchPacks.taken_from(ready)
    assert not ready
    assert len(together.payloads) == 9
    # a is stored as 11 to 13, b is refused, c and d are stored one behind the other, e is a counter's.
    reply = PackReply(
        "S",
        40,
        [(0, 2, STAGED), (2, 1, 13), (3, 1, STAGED), (5, 2, 14), (7, 1, STAGED), (8, 1, 17)],
        [],
        [(4, refusals.SEALED), (9, refusals.SEALED)],
        [(8, 99)],
    )
    together.settle(reply, None, Wakeups())
    a, b, c, d, e = batches
    assert a.outcome(2) == PubAck("S", 13, batch="a", count=3)
    failure = b.failure()
    assert isinstance(failure, ApiError)
    assert (failure.code, failure.err_code) == refusals.SEALED[:2]
    assert c.outcome(0) == PubAck("S", 14, batch="c", count=1)
    assert d.outcome(0) == PubAck("S", 15, batch="d", count=1)
    assert e.outcome(1) == PubAck("S", 17, value=99, batch="e", count=2)
    assert [one.failure() for one in (a, c, d, e)] == [None] * 4


def test_what_is_lost_is_lost_for_each_of_them() -> None:
    batches = [batch("a", 3), batch("b", 2)]
    together = BatchPacks.taken_from(deque(batches))
    together.settle(None, ConnectionLost("gone"), Wakeups())
    assert all(isinstance(one.failure(), ConnectionLost) for one in batches)


def test_what_is_overdue_is_called_a_batch_and_named_with_the_time_that_it_was_given() -> None:
    alone, together = (
        batch("a", 3, patience=4.0),
        BatchPacks.taken_from(deque(batch(name, 2, patience=4.0) for name in "bc")),
    )
    assert isinstance(together, BatchPacks)
    for pack in (alone, together):
        assert str(pack.overdue(2.0)).startswith(
            "no answer within 4 s; the batch is stored as a whole or not at all"
        )


@pytest.mark.parametrize(
    "others",
    [
        [Pack("S")],  # of publishes that wait
        [batch("b", PACK_MESSAGES)],
        [batch("b", 1, PACK_BYTES)],
        [batch("b", 1, patience=9.0)],  # it is given up at another time
    ],
)
def test_what_does_not_fit_travels_by_itself(others: list[Pack]) -> None:
    first = batch("a", 1)
    ready = deque([first, *others])
    assert BatchPacks.taken_from(ready) is first
    assert list(ready) == others


def test_an_answer_makes_room_for_as_much_as_was_sent() -> None:
    sent: list[int] = []
    packer = Packer(
        "client",
        lambda *_: sent.append(1),
        RequestNumbers(),
        max_in_flight=10,
        timeout=5.0,
        failed=pytest.fail,
    )
    lane = Lane("S", 0)
    for name in "ab":
        packer.adopt(lane, batch(name, 5), queue=False)
    packer.pump(lane)
    assert (len(sent), packer.unanswered, packer.has_room) == (1, 10, False)
    ((first, _),) = packer._pending.items()
    packer.finish(first, PackReply("S", first, [(4, 1, 5), (9, 1, 10)], [], []), None)
    assert (packer.unanswered, packer.has_room, lane.in_flight) == (0, True, 0)
    packer.close([lane])


def test_a_sender_that_cannot_go_on_says_so() -> None:
    class NoNumbers(RequestNumbers):
        def take(self, count: int = 1) -> int:
            raise ArithmeticError("no numbers are left")

    told: list[RailgunError] = []
    done = threading.Event()

    def failed(error: RailgunError) -> None:
        told.append(error)
        done.set()

    packer = Packer("client", lambda *_: None, NoNumbers(), max_in_flight=10, timeout=5.0, failed=failed)
    packer.add(Lane("S", 0), "s", b"x")
    assert done.wait(10)
    assert "no numbers are left" in str(told[0])


@pytest.mark.parametrize("batches, records", [(1, [100]), (7, [700]), (16, [800, 800])])
async def test_batches_of_one_turn_share_a_record_until_it_is_worth_it(
    monkeypatch: pytest.MonkeyPatch, batches: int, records: list[int]
) -> None:
    sent: list[int] = []
    honest = Pack.encode
    monkeypatch.setattr(
        Pack, "encode", lambda pack, client: sent.append(len(pack.payloads)) or honest(pack, client)
    )
    async with railgun.connect_async("memory://") as rg:
        await rg.create_stream("S", subjects=["s"], allow_atomic=True)

        async def commit() -> None:
            async with rg.batch() as batch:
                for _ in range(100):
                    batch.add("s", b"x")

        await commit()  # from now on it is known where the subject belongs
        sent.clear()
        await asyncio.gather(*(commit() for _ in range(batches)))
        assert sent == records
        assert (await rg.stream("S").info()).state.messages == 100 * (1 + batches)


def test_threads_that_commit_at_once_are_all_told() -> None:
    with railgun.connect("memory://") as rg:
        rg.create_stream("S", subjects=["s"], allow_atomic=True)

        def commit(_: int) -> None:
            for _ in range(25):
                with rg.batch() as batch:
                    batch.add("s", b"x")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(commit, range(8)))
        assert rg.stream("S").info().state.messages == 200


@asynccontextmanager
async def with_silent_owner(
    transport: Silent, *, timeout: float, max_in_flight: int
) -> AsyncIterator[AsyncRailgun]:
    """A facade whose commands are taken and never answered."""
    connection = Connection(transport, timeout=timeout, max_in_flight=max_in_flight, label="nowhere")
    connection.routing.heard = time.monotonic() + 60.0  # nobody asks whether a worker is alive
    try:
        yield AsyncRailgun(connection)
    finally:
        connection.failed(RailgunError("the test is over"))
        connection.close()


async def committed(rg: AsyncRailgun, timeout: float | None = None) -> None:
    async with rg.batch(timeout=timeout) as batch:
        batch.add("s.a", b"x")
        batch.add("s.a", b"y")


async def test_what_waits_for_room_waits_no_longer_than_it_was_told() -> None:
    async with with_silent_owner(Silent(), timeout=0.2, max_in_flight=1) as rg:
        first = asyncio.create_task(committed(rg, 60.0))  # which takes all the room
        while not rg._connection.packer.pending():
            await asyncio.sleep(0)
        others = [asyncio.create_task(committed(rg)), asyncio.create_task(rg.publish("s.a"))]
        done, _ = await asyncio.wait(others, timeout=20.0)
        assert [type(one.exception()) for one in done] == [RequestTimeout, RequestTimeout]
        first.cancel()


async def test_a_connection_that_ends_sends_nothing_of_what_it_gave_up() -> None:
    transport = Silent()
    async with with_silent_owner(transport, timeout=5.0, max_in_flight=10) as rg:
        lane = rg._connection.routing.route("s.a", 5.0)
        task = asyncio.create_task(committed(rg))
        while not lane.ready:  # it is in its lane, and leaves the other tasks their turn
            await asyncio.sleep(0)
        rg._connection.failed(RailgunError("the broker is gone"))
        with pytest.raises(RailgunError, match="the broker is gone"):
            await task
        assert transport.sent == []
