"""Ceilings of the platform, which are settings of the cluster section; and what a restart of the only worker keeps."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import railgun
from railgun.errors import InvalidStreamConfig, Overloaded, WrongLastMessageId
from tests.support.raw import create_refused, refused, update_refused
from tests.support.worker_process import WorkerProcess

BACKENDS = ["memory", pytest.param("kafka", marks=pytest.mark.kafka)]
CEILINGS = {"max_store_bytes": 1_000, "max_in_flight": 2, "max_stream_bytes": 400}
RESERVED = {"require_max_bytes": 1, "max_stream_bytes": 1_000}


@pytest.fixture(scope="module")
def workers(
    kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, WorkerProcess]]:
    """Two workers with settings that exclude each other, started together."""
    settings = {"ceilings": CEILINGS, "reserved": {**RESERVED, "require_max_bytes": True}}
    own = {
        which: WorkerProcess(
            tmp_path_factory.mktemp(which), kafka_bootstrap, cluster={"partitions": 1, **limits}
        )
        for which, limits in settings.items()
    }
    with ExitStack() as running:
        for worker in own.values():
            running.enter_context(worker)
        for worker in own.values():
            worker.await_ready()
        yield own


def opened(
    backend: str, request: pytest.FixtureRequest, which: str, limits: dict[str, int]
) -> railgun.Railgun:
    if backend == "memory":
        query = "&".join(f"{name}={value}" for name, value in limits.items())
        return railgun.connect(f"memory://{uuid.uuid4().hex}?partitions=1&{query}")
    worker = request.getfixturevalue("workers")[which]
    return railgun.connect(worker.bootstrap, prefix=worker.prefix, timeout=15.0)


def emptied(rg: railgun.Railgun) -> Iterator[railgun.Railgun]:
    """The facade for one test; then its streams are deleted and it is closed."""
    with rg:
        yield rg
        for stream in rg.streams():
            rg.delete_stream(stream.config.name)


@pytest.fixture(params=BACKENDS)
def ceilings(request: pytest.FixtureRequest) -> Iterator[railgun.Railgun]:
    """A cluster with little room."""
    yield from emptied(opened(request.param, request, "ceilings", CEILINGS))


@pytest.fixture(params=BACKENDS)
def reserved(request: pytest.FixtureRequest) -> Iterator[railgun.Railgun]:
    """A cluster in which each stream must say how large it may become."""
    yield from emptied(opened(request.param, request, "reserved", RESERVED))


@pytest.mark.rule("PUB-19")
def test_a_full_platform_takes_nothing_more(ceilings: railgun.Railgun) -> None:
    for name in "ABC":
        ceilings.create_stream(name, subjects=[name], max_bytes=400)
    for name in "AB":
        ceilings.publish(name, b"x" * 350)
    assert refused(ceilings, "C", b"x" * 300) == (10023, 503, "insufficient resources")
    assert ceilings.stream("C").info().state.last_seq == 0
    assert ceilings.publish("C", b"x" * 100).sequence == 1
    ceilings.stream("A").purge()
    assert ceilings.publish("C", b"x" * 200).sequence == 2


@pytest.mark.rule("PUB-19")
def test_a_stream_without_a_limit_meets_the_platforms(ceilings: railgun.Railgun) -> None:
    ceilings.create_stream("A", subjects=["A"])
    ceilings.create_stream("B", subjects=["B"], max_bytes=400)
    for name in "AB":
        ceilings.publish(name, b"x" * 300)
    assert refused(ceilings, "A", b"x" * 100) == (10002, 400, "resource limits exceeded for account")
    assert ceilings.publish("B", b"x" * 100).sequence == 2  # its own limit makes room


@pytest.mark.rule("PUB-20")
def test_more_at_once_than_the_platform_takes_are_told_to_slow_down(ceilings: railgun.Railgun) -> None:
    stream = ceilings.create_stream("A", subjects=["A"])
    futures = [ceilings.publish_soon("A", b"") for _ in range(100)]
    ceilings.flush()
    errors = [error for future in futures if (error := future.exception()) is not None]
    assert all(isinstance(error, Overloaded) for error in errors)
    slowed = [error for error in errors if error.err_code == 10167]
    assert slowed
    assert (slowed[0].code, slowed[0].description) == (429, "too many requests")
    stored = stream.info().state
    assert stored.last_seq == stored.messages == len(futures) - len(errors) >= 2
    assert ceilings.publish("A", b"").sequence == stored.last_seq + 1  # nothing is left of the overload


@pytest.mark.rule("LIM-18")
def test_a_stream_must_say_how_large_it_may_become(reserved: railgun.Railgun) -> None:
    required = (10113, 400, "account requires a stream config to have max bytes set")
    too_much = (10122, 400, "stream max bytes exceeds account limit max stream bytes")
    assert create_refused(reserved, "A", subjects=["A"]) == required
    assert create_refused(reserved, "A", subjects=["A"], max_bytes=1_001) == too_much
    reserved.create_stream("A", subjects=["A"], max_bytes=1_000)
    assert update_refused(reserved, "A", subjects=["A"]) == required
    with pytest.raises(InvalidStreamConfig):
        reserved.update_stream("A", max_bytes=1_001)
    assert reserved.stream("A").info().config.max_bytes == 1_000


@pytest.mark.rule("DUP-10", "PUB-13", "PUB-04")
@pytest.mark.kafka
@pytest.mark.parametrize("disk", ["kept", "lost"])
def test_a_killed_worker_comes_back_with_ids_and_sequences(
    workers: dict[str, WorkerProcess], disk: str
) -> None:
    worker, name = workers["reserved"], f"BACK{disk}"
    with railgun.connect(worker.bootstrap, prefix=worker.prefix, timeout=30.0) as rg:
        stream = rg.create_stream(name, subjects=[name], max_bytes=1_000)
        for number in range(3):
            rg.publish(name, b"%d" % number, msg_id=f"id-{number}")
        stream.delete_message(2)
        before = stream.info(deleted=True)
        worker.kill()
        if disk == "lost":
            worker.wipe()
        worker.start()
        worker.await_ready()
        assert stream.info(deleted=True) == before
        with pytest.raises(WrongLastMessageId) as caught:
            rg.publish(name, expected_last_msg_id="id-1")
        assert caught.value.actual == "id-2"
        acks = [rg.publish(name, msg_id=f"id-{number}") for number in range(3)]
        assert [(ack.sequence, ack.duplicate) for ack in acks] == [(1, True), (2, True), (3, True)]
        assert rg.publish(name).sequence == 4
        assert stream.get(1).payload == b"0"
