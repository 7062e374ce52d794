"""Reading leases from the logs of a real Kafka: what is gone, what is jumped to, and that an idle reader leaves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from railgun import Message, Railgun
from railgun.client.consuming.parcels import Parcel
from railgun.client.transports.kafka.feed import KafkaFeed
from railgun.errors import ConnectionClosed, RailgunError
from railgun.protocol.leases import Lease
from railgun.protocol.topics import Names
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.contract.conftest import Cluster

pytestmark = pytest.mark.kafka


class Owner:
    """Whoever the messages are for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sequences: list[int] = []
        self.error: RailgunError | None = None
        self.done = False

    def moved(self, parcel: Parcel) -> None:
        with self.lock:
            self.sequences += [message.sequence for message in parcel.messages]
            parcel.messages = []
            self.error, self.done = parcel.error, parcel.done


class Log:
    """A stream of 3,000 messages, and a connection that reads its log."""

    def __init__(self, rg: Railgun, cluster: Cluster, name: str) -> None:
        self.feed = rg.connection.consuming.feed
        known = rg.connection.registry_view.stream(name)
        assert known is not None
        self._incarnation = known.incarnation
        self.topic = Names(cluster.prefix).log(name)
        self.name = name

    def read(self, runs: Sequence[tuple[int, int, int]], topic: str = "") -> Owner:
        """Runs are (sequence, count, offset)."""
        lease = Lease(
            self.name, self._incarnation, "", 0, topic or self.topic,
            sequences=[run[0] for run in runs], counts=[run[1] for run in runs], offsets=[run[2] for run in runs],
            consumer_sequences=[run[0] for run in runs], deliveries=[1] * len(runs),
        )  # fmt: skip
        owner = Owner()
        self.feed.read(Parcel(lease, None, Message, owner))
        return owner

    def get(self, runs: Sequence[tuple[int, int, int]], topic: str = "") -> list[int]:
        owner = self.read(runs, topic)
        wait_until(lambda: owner.done, "the lease was read", pause=0.005)
        assert owner.error is None
        return owner.sequences


@pytest.fixture
def own(kafka_cluster: Cluster) -> Iterator[Railgun]:
    with kafka_cluster.connect() as facade:
        yield facade


@pytest.fixture
def log(own: Railgun, kafka_cluster: Cluster) -> Iterator[Log]:
    name = f"LOG_{time.time_ns()}"
    own.create_stream(name, subjects=[name])
    for number in range(3_000):
        own.publish_soon(name, b"%d" % number)
    own.flush()
    yield Log(own, kafka_cluster, name)
    own.delete_stream(name)


def test_leases_are_read_wherever_they_are(log: Log) -> None:
    assert log.get([(1, 1_000, 0)]) == list(range(1, 1_001))
    assert log.get([(1_001, 500, 0)]) == list(
        range(1_001, 1_501)
    )  # goes on, though the offset is a low guess
    assert log.get([(5, 3, 0), (2_900, 2, 2_000), (10, 2, 0)]) == [5, 6, 7, 2_900, 2_901, 10, 11]
    owners = [log.read([(start, 700, 0)]) for start in (2_000, 1, 900, 2_100)]
    wait_until(lambda: all(owner.done for owner in owners), "all were read")
    assert [owner.sequences for owner in owners] == [
        list(range(start, start + 700)) for start in (2_000, 1, 900, 2_100)
    ]


def test_what_is_not_there_any_more_is_left_out(log: Log) -> None:
    assert log.get([(2_999, 5, 2_000)]) == [2_999, 3_000]  # behind the end of the log
    assert log.get([(2_999, 5, 1_000_000)]) == [
        2_999,
        3_000,
    ]  # an offset that the log has not got: begun anew
    assert log.get([(1, 5, 0)], topic=f"{log.topic}-never") == []


def test_a_log_that_nobody_reads_is_left(log: Log) -> None:
    log.get([(1, 10, 0)])
    feed = log.feed
    assert isinstance(feed, KafkaFeed)
    wait_until(lambda: not any(track.assigned for track in feed._tracks.values()), "nothing is assigned")
    assert log.get([(11, 10, 0)]) == list(range(11, 21))


def test_closing_fails_what_is_still_being_read(log: Log, own: Railgun) -> None:
    owner = log.read([(3_001, 1, 2_900)])
    log.feed.close()
    wait_until(lambda: owner.done, "it has ended")
    assert isinstance(owner.error, ConnectionClosed)
    late = log.read([(1, 1, 0)])
    assert isinstance(late.error, ConnectionClosed)
