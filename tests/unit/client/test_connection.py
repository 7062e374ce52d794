"""The connection over a transport that the test holds in its hand: failures, silence, forks, the copy of the registry."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from railgun.client.connection.connection import Connection
from railgun.client.connection.registry import RegistryView
from railgun.client.facade.async_railgun import AsyncRailgun
from railgun.client.facade.railgun import Railgun, connect
from railgun.client.publishing import packer as packing
from railgun.client.publishing.packer import AHEAD_WINDOWS
from railgun.client.transports.memory.memory_cluster import forget
from railgun.errors import (
    ConfigError,
    ConnectionClosed,
    ConnectionLost,
    NotAuthorized,
    NoWorker,
    TooManyWaiting,
)
from railgun.model.stream_config import StreamConfig
from railgun.protocol.replies import PackReply
from railgun.shard.core import ShardCore
from tests.support.transports import Silent, registered
from tests.support.waiting import wait_until


@pytest.fixture
def silent() -> Silent:
    return Silent()


def facade(silent: Silent, **settings: Any) -> Railgun:
    return Railgun(
        Connection(silent, **{"timeout": 0.3, "max_in_flight": 100, "label": "nowhere", **settings})
    )


def test_without_a_worker_nothing_is_sent_and_the_command_is_named(silent: Silent) -> None:
    silent.alive = 0
    with facade(silent) as rg:
        for call in (
            lambda: rg.publish("s.a", b"x"),
            lambda: rg.publish_soon("s.a", b"x"),
            lambda: rg.stream("S").info(),
        ):
            with pytest.raises(NoWorker, match="railgun worker"):
                call()
    assert silent.sent == []


def test_who_may_not_ask_for_workers_waits_for_the_timeout(silent: Silent) -> None:
    silent.alive = None
    with facade(silent) as rg:
        with pytest.raises(TimeoutError, match="stored and its outcome is unknown"):
            rg.publish("s.a", b"x")
        with pytest.raises(TimeoutError):
            rg.stream("S").info()
        future = rg.publish_soon("s.a", b"x")
        with pytest.raises(TimeoutError):
            future.result()


def test_workers_that_vanish_end_what_waits(silent: Silent) -> None:
    with facade(silent, timeout=30.0) as rg:
        future = rg.publish_soon("s.a", b"x")
        silent.alive = 0
        with pytest.raises(NoWorker, match="carried out once one runs"):
            future.result(10)


# ------------------------------------------------------------ a loop that publishes faster than it is answered


def loop_facade(silent: Silent, **settings: Any) -> AsyncRailgun:
    return AsyncRailgun(facade(silent, **settings).connection)


@pytest.mark.parametrize("routed", [True, False])
async def test_a_loop_that_is_far_ahead_of_the_answers_is_told(silent: Silent, routed: bool) -> None:
    rg = loop_facade(silent, max_in_flight=2)
    if routed:
        await asyncio.to_thread(rg.connection.routing.route, "s.a", 1.0)
    futures = [rg.publish_soon("s.a", b"x") for _ in range(2 * AHEAD_WINDOWS)]
    with pytest.raises(TooManyWaiting, match=r"32 messages .* await a future or flush"):
        rg.publish_soon("s.a", b"one too many")
    for future in futures[:2]:  # what is on its way ends by its time-out, and makes room
        with pytest.raises(TimeoutError):
            await future
    futures.append(rg.publish_soon("s.a", b"x"))
    rg.connection.packer.close(rg.connection.routing.routes.values())
    assert not any(isinstance(future.exception(5), TooManyWaiting) for future in futures)
    await rg.close()


async def test_large_messages_count_by_their_bytes(silent: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "AHEAD_BYTES", 10_000)
    rg = loop_facade(silent, timeout=30.0)
    await asyncio.to_thread(rg.connection.routing.route, "s.a", 1.0)
    for _ in range(2):
        rg.publish_soon("s.a", b"x" * 5_000)
    with pytest.raises(TooManyWaiting, match="2 messages"):
        rg.publish_soon("s.a", b"x")
    rg.connection.packer.close(rg.connection.routing.routes.values())
    rg.connection.packer.check_ahead()  # nothing is left that counts
    await rg.close()


async def test_an_awaited_publish_without_an_answer_waits_for_room(silent: Silent) -> None:
    rg = loop_facade(silent, max_in_flight=2, timeout=0.5)
    futures = [rg.publish_soon("s.a", b"x") for _ in range(2)]
    await asyncio.to_thread(wait_until, lambda: len(silent.sent) == 2, "both were sent")
    await rg.publish("s.a", b"y", ack=False)
    assert any(future.done() for future in futures)
    await rg.close()


def test_a_refusal_by_the_broker_ends_what_waits(silent: Silent) -> None:
    with facade(silent, timeout=30.0) as rg:
        future = rg.publish_soon("s.a", b"x")
        silent.wrong = NotAuthorized("the password changed")
        with pytest.raises(NotAuthorized, match="password"):
            future.result(10)


def test_a_transport_that_fails_fails_everything(silent: Silent) -> None:
    rg = facade(silent, timeout=30.0)
    future = rg.publish_soon("s.a", b"x")
    assert silent.receiver is not None
    silent.receiver.failed(ConnectionLost("a reader ended"))
    with pytest.raises(ConnectionLost):
        future.result(1)
    with pytest.raises(ConnectionLost):
        rg.publish("s.a", b"x")
    with pytest.raises(ConnectionLost):
        rg.stream("S").info()
    rg.close()


def test_an_answer_that_cannot_be_read_is_left_out(silent: Silent, caplog: pytest.LogCaptureFixture) -> None:
    with facade(silent) as rg:
        assert silent.receiver is not None
        silent.receiver.replies([b"\xff\xff"])
        assert "cannot be read" in caplog.text
        assert rg.connection.packer.unanswered == 0


def test_arguments_that_cannot_be_used() -> None:
    for address, settings in (
        ("memory://", {"timeout": 0}),
        ("memory://", {"max_in_flight": 0}),
        ("memory://", {"prefix": "no spaces"}),
        ("memory://?nothing=1", {}),
        ("amqp://x", {}),
        ("", {}),
    ):
        with pytest.raises(ConfigError):
            connect(address, **settings)  # type: ignore[arg-type]
    with connect("memory://") as rg:
        rg.create_stream("S", subjects=["s"])
        with pytest.raises(ConfigError):
            rg.publish("s", 7)  # type: ignore[call-overload]
        with pytest.raises(ConfigError):
            rg.publish("s", b"x", headers={"Railgun-Sequence": "1"})
        with pytest.raises(ConfigError):
            rg.create_stream(StreamConfig(name="T"), subjects=["t"])


def test_a_cluster_without_partitions_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        connect("memory://?partitions=0")


def test_a_publish_with_a_bad_timeout_leaves_nothing_behind() -> None:
    with connect("memory://") as rg:
        orders = rg.create_stream("ORDERS")
        rg.publish("ORDERS", b"first")  # from now on it is known where the subject goes
        with pytest.raises(ConfigError):
            rg.publish("ORDERS", b"never sent", timeout="soon")  # type: ignore[call-overload]
        rg.publish("ORDERS", b"second", ack=False)
        rg.flush()
        assert orders.info().state.messages == 2


def test_memory_clusters_are_private_unless_they_have_a_name() -> None:
    with connect("memory://") as one, connect("memory://") as other:
        one.create_stream("S", subjects=["s"])
        assert other.streams() == []
    with connect("memory://shared-by-a-test") as one, connect("memory://shared-by-a-test") as other:
        one.create_stream("S", subjects=["s"])
        assert other.publish("s", b"x").sequence == 1
    with connect("memory://shared-by-a-test") as later:
        assert later.stream("S").info().state.messages == 1


def test_a_child_process_must_connect_for_itself() -> None:
    with connect("memory://") as rg:
        rg.create_stream("S", subjects=["s"])
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                rg.publish("s", b"x")
            except ConnectionClosed:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert rg.publish("s", b"x").sequence == 1


def test_what_comes_while_a_connection_is_closed_is_refused(silent: Silent) -> None:
    """It was taken, and lost where the close did not wait for it; with a publisher that goes on the close had no end."""
    rg = facade(silent, timeout=20)
    packer = rg.connection.packer
    first = rg.publish_soon("s.a", b"1")
    wait_until(lambda: len(packer.pending()) == 1, "it was sent")
    closing = threading.Thread(target=rg.close)
    closing.start()
    wait_until(lambda: packer._refused is not None, "it waits for the answer")
    with pytest.raises(ConnectionClosed):
        rg.publish_soon("s.a", b"2")
    with pytest.raises(ConnectionClosed):
        rg.publish("s.a", b"2", ack=False)
    with pytest.raises(ConnectionClosed):
        _commit(rg, "s.a")
    assert not first.done()
    pack = packer.pending()[0]
    packer.finish(pack.first, PackReply("S", pack.first, [(0, 1, 7)], [], []), None)
    closing.join(10)
    assert first.result(0).sequence == 7


def test_a_request_that_begins_while_the_connection_is_closed_ends_with_it(silent: Silent) -> None:
    rg = facade(silent, timeout=3)
    requests = rg.connection.requests
    requests._push = rg.close  # in the middle of its way
    with pytest.raises(ConnectionClosed):
        rg.stream("S").info()
    assert requests.pending() == []


@pytest.mark.parametrize("committed", [False, True], ids=["before its commit", "after"])
def test_an_interrupt_of_a_cluster_in_memory_loses_and_doubles_nothing(
    monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """What the interrupted thread was deciding is decided by another one, and no thread waits for it."""
    with connect("memory://interrupted", timeout=10) as rg, connect("memory://interrupted") as other:
        rg.create_stream("S", subjects=["s"], allow_msg_counter=True)
        decided = ShardCore.committed if committed else ShardCore.apply

        def interrupted(core: ShardCore, *given: Any) -> Any:
            monkeypatch.undo()
            decided(core, *given)
            raise KeyboardInterrupt

        monkeypatch.setattr(ShardCore, "committed" if committed else "apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rg.counter("s").add(1)
        with ThreadPoolExecutor() as pool:
            assert pool.submit(other.counter("s").add, 10).result(20) == 11
        assert rg.counter("s").add(100) == 111
        assert [one.total for one in other.counter("s").history()] == [1, 11, 111]
    forget("interrupted")


def test_what_a_parent_waits_for_has_no_outcome_in_its_child() -> None:
    """Neither what was sent, nor a batch, nor what is behind it: whoever asks there would wait for ever."""
    with connect("memory://", max_in_flight=2) as rg:
        stream = rg.create_stream("S", subjects=["s"], allow_atomic=True)
        rg.publish("s", b"first")
        packer, held = rg.connection.packer, list[Any]()
        send, packer._send = packer._send, lambda *command: held.append(command)
        with ThreadPoolExecutor() as pool:
            futures = [rg.publish_soon("s", b"x"), rg.publish_soon("s", b"y"), pool.submit(_commit, rg)]
            wait_until(lambda: packer.unanswered == 3 and len(held) > 0, "all of it waits")
            batch = next(iter(rg.connection.routing.lanes())).ready[-1]
            pid = os.fork()
            if pid == 0:
                signal.alarm(30)
                errors = [futures[0].exception(20), futures[1].exception(20), batch.error]
                os._exit(sum(not isinstance(one, ConnectionClosed) for one in errors))
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            packer._send = send
            for command in held:
                send(*command)
            assert [one.result(10) for one in futures]
        assert stream.info().state.messages == 4


def _commit(rg: Any, subject: str = "s") -> object:
    with rg.batch() as batch:
        batch.add(subject, b"z")
    return batch.ack


@pytest.mark.rule("KV-53")
def test_a_cache_serves_nothing_in_a_child_process() -> None:
    with connect("memory://", timeout=60) as rg:
        bucket = rg.create_bucket("B")
        bucket.put("a", "1")
        with bucket.cached() as cache:
            assert cache.wait_ready(10)
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    cache.get("a")
                except ConnectionClosed:
                    signal.alarm(30)  # ends the child if it waits for the thread of the parent
                    cache.close()
                    code = int(cache.ready)
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            assert cache.get("a").text == "1"


def test_time_passes_by_itself_in_memory() -> None:
    with connect("memory://") as rg:
        stream = rg.create_stream("S", subjects=["s"], max_age=0.2)
        rg.publish("s", b"x")
        wait_until(lambda: stream.info().state.messages == 0, "the message is too old", timeout=5.0)


def test_the_copy_of_the_registry() -> None:
    changes: list[int] = []
    view = RegistryView(lambda: changes.append(1))
    view.apply([registered("A", "a.*", "b"), registered("W", "*.x.>", partition=3)])
    found = {subject: view.capturing(subject) for subject in ("a.1", "b", "q.x.1", "a.1.2", "c")}
    assert {subject: known.name for subject, known in found.items() if known} == {
        "a.1": "A",
        "b": "A",
        "q.x.1": "W",
    }
    assert view.stream("W") is not None
    view.apply([registered("A", "a.*", state="deleting"), (b"epoch/0", b"{}")])
    assert view.capturing("a.1") is None
    view.apply([(b"stream/W", None)])
    assert view.capturing("q.x.1") is None
    assert len(changes) == 3


def test_a_registry_record_that_cannot_be_read_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    view = RegistryView(lambda: None)
    view.apply([(b"stream/BAD", b"\xff"), registered("A", "a")])
    assert view.capturing("a") is not None
    assert "cannot be read" in caplog.text
