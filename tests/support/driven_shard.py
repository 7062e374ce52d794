"""A shard with its thread, its table on disk and its transactions, on a broker that is a dictionary.

Real: :class:`ShardDriver`, its recovery, its writer, RocksDB. Not real: librdkafka and the consumer group. So that a test can
let a disk fill up or a commit take its time exactly where it wants to, and count what every reader of the log would see.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException

from railgun.model import headers as h
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.protocol.commands import ApiRequest, ConsumerCommand, PublishPack, Pull
from railgun.protocol.leases import Lease
from railgun.protocol.replies import Answer, ReplyBatch
from railgun.protocol.topics import Names
from railgun.semantics.messages.budget import WorkerMemory
from railgun.shard.clock import SteadyClock
from railgun.shard.drain import Input
from railgun.worker.context import ShardContext
from railgun.worker.group.membership import Membership
from railgun.worker.shards import claim as claim_module
from railgun.worker.shards import owner as owner_module
from railgun.worker.shards import shard_state as state_module
from railgun.worker.shards.driver import ShardDriver
from tests.support.waiting import wait_until

NAMES = Names()
CLIENT = "client"
MEMBER = Membership("workers", 1, "me")


class Record(NamedTuple):
    """A committed record."""

    offset: int
    key: bytes
    value: bytes | None
    headers: h.Headers
    written: int

    def is_message(self) -> bool:
        return h.first(self.headers, h.LOG_SEQUENCE) is not None


class Broker:
    """Topics of one partition each. ``before_commit`` is called in the thread that commits."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Record]] = {}
        self.ends: dict[str, int] = {}
        self.fences = 0
        self.before_commit: Callable[[], None] = lambda: None

    def append(self, topic: str, key: bytes | None, value: bytes | None, headers: h.Headers = ()) -> int:
        offset = self.ends.get(topic, 0)
        self.ends[topic] = offset + 1
        now = time.time_ns() // 1_000_000
        self.topics.setdefault(topic, []).append(Record(offset, key or b"", value, headers, now))
        return offset


class Delivered(NamedTuple):
    """A delivery report."""

    at: int

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 2, time.time_ns() // 1_000_000


class FakeProducer:
    """A transactional producer: records are on the broker when the transaction commits, and never before."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._broker: Broker = settings["broker"]
        self._waiting: list[tuple[Any, ...]] | None = None
        self._fence = 0

    def init_transactions(self, timeout: float) -> None:
        self._broker.fences += 1
        self._fence = self._broker.fences

    def begin_transaction(self) -> None:
        if self._waiting is not None:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self._waiting = []

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        callback: Any = None,
        alias: Any = None,
        millis: int = 0,
        headers: Any = None,
    ) -> None:
        assert self._waiting is not None
        self._waiting.append((topic, key, value, headers or (), callback))

    def send_offsets_to_transaction(self, *_: Any) -> None: ...

    def commit_transaction(self, timeout: float) -> None:
        self._broker.before_commit()
        if self._fence != self._broker.fences:
            raise KafkaException(KafkaError(KafkaError._FENCED))
        waiting, self._waiting = self._waiting or [], None
        for topic, key, value, headers, callback in waiting:
            offset = self._broker.append(topic, key, value, headers)
            if callback is not None:
                callback(None, Delivered(offset))
        for topic in {one[0] for one in waiting}:
            self._broker.ends[topic] += 1  # the marker of the transaction

    def abort_transaction(self, timeout: float) -> None:
        self._waiting = None

    def purge(self) -> None: ...
    def poll(self, timeout: float) -> None: ...
    def flush(self, timeout: float) -> None: ...


class FakeReader:
    """The changelog of the broker, as a restore reads it."""

    def __init__(self, kafka: Any, topic: str, partition: int) -> None:
        self._broker: Broker = kafka.broker
        self._topic = topic

    def __enter__(self) -> FakeReader:
        return self

    def __exit__(self, *_: object) -> None: ...

    def bounds(self) -> tuple[int, int]:
        return 0, self._broker.ends.get(self._topic, 0)

    def batches(self, start: int, cancelled: Callable[[], bool]) -> Iterator[list[Record]]:
        batch = [record for record in self._broker.topics.get(self._topic, []) if record.offset >= start]
        if batch and not cancelled():
            yield batch


class Undecided:
    """Nothing is ever left undecided."""

    def __init__(self, *_: Any) -> None: ...
    def __enter__(self) -> Undecided:
        return self

    def __exit__(self, *_: object) -> None: ...


class Outbox:
    """Sends at once."""

    has_room = True

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def send(self, topic: str, key: bytes, value: bytes | None, partition: int) -> bool:
        self._broker.append(topic, key, value)
        return True

    offer = send


class Trims:
    """Trims nothing."""

    def add(self, shard: int, trims: Any) -> None: ...
    def leave(self, shard: int) -> None: ...


class Housekeeping:
    """Keeps no house."""

    trims = Trims()

    def forget(self, topic: str) -> None: ...
    def watch_for(self, topic: str, found: Any) -> None: ...


class Driven:
    """One shard of a cluster of one, its broker, and what a client would do with it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, broker: Broker | None = None) -> None:
        self.broker = broker or Broker()
        self.crashed: list[BaseException] = []
        self._old = len(self.broker.topics.get(NAMES.replies, []))  # answers of a former life
        self._request = (
            len(self.broker.topics.get(NAMES.commands, [])) * 10_000
        )  # no answer is taken for another's
        self._fed = {NAMES.commands: 0, NAMES.forwards: 0}
        patch.setattr(claim_module, "Producer", FakeProducer)
        patch.setattr(owner_module, "Undecided", Undecided)
        for name in ("end_state", "end_logs"):
            patch.setattr(owner_module, name, lambda *_: None)
        patch.setattr(owner_module, "check_inputs", lambda *_: True)
        patch.setattr(state_module, "PartitionReader", FakeReader)
        settings = {"broker": self.broker}
        fakes: dict[str, Any] = {
            "admin": None,
            "kafka": SimpleNamespace(broker=self.broker, transactional_producer=lambda _: settings),
            "topics": SimpleNamespace(
                create_log=lambda *_, **__: None, delete=lambda _: None, exists=lambda _: True
            ),
            "housekeeping": Housekeeping(),
            "outbox": Outbox(self.broker),
        }
        self.context = ShardContext(
            **fakes,
            names=NAMES,
            partitions=1,
            reply_factor=1,
            limits=ClusterLimits(),
            test_clock=False,
            node="test",
            origin=(),
            folder=folder,
            identity="changelog",
            clock=SteadyClock(guard=threading.Lock()),
            memory=WorkerMemory(threading.Lock),
            read_log=lambda places: [None for _ in places],
            is_current=lambda _: True,
            confirmed=lambda _: True,
            on_room=lambda _: None,
            on_crash=self.crashed.append,
        )
        self.shard = self.take_over()

    def take_over(self, former: ShardDriver | None = None) -> ShardDriver:
        """A new stay of the partition, which reads its input again from the start, as after expired offsets."""
        self._fed = dict.fromkeys(self._fed, 0)
        self.shard = ShardDriver(0, self.context, MEMBER, former)
        self.shard.start()
        return self.shard

    # -- what a client does

    def request(self, api: str, body: dict[str, Any] | None = None) -> int:
        """Ask; the request."""
        self._request += 1
        data = b"" if body is None else json.dumps(body).encode()
        stream = next(iter(api.split(".")[2:3]), "")
        self._send(ApiRequest(CLIENT, self._request, api, stream, [], data).encode(), b"request")
        return self._request

    def ask(self, api: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask and wait; the answer."""
        number = self.request(api, body)
        self.await_answers(number)
        assert not self.crashed, self.crashed
        found: dict[str, Any] = json.loads(self.answers()[number].frames[0].body)
        return found

    def create(self, stream: str, **config: Any) -> None:
        answer = self.ask(f"STREAM.CREATE.{stream}", {"name": stream, "subjects": [f"{stream}.>"], **config})
        assert "error" not in answer, answer
        self.feed()  # that the registrar is told comes with the answer
        self.ask(f"STREAM.INFO.{stream}")

    def delete(self, stream: str, sequence: int) -> int:
        """Ask for a message to be removed; the request."""
        return self.request(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence})

    def pull(self, stream: str, consumer: str, batch: int = 1) -> Lease:
        """The first answer to a pull that does not wait."""
        self._request += 1
        pull = Pull(self._request, batch, no_wait=True)
        command = ConsumerCommand(stream, 0, consumer, 0, CLIENT, pull=pull)
        self._send(command.encode(), b"consume")
        found: list[Lease] = []

        def answered() -> bool:
            self.feed()
            found.extend(one for batch in self._heard() for one in batch.leases if one.pull == pull.id)
            return bool(self.crashed or found)

        wait_until(answered, f"an answer to a pull of {consumer}", pause=0.005)
        return found[0]

    def publish(
        self, stream: str, ids: list[str], headers: list[list[tuple[str, bytes]]] | None = None
    ) -> int:
        """Send a pack; its last request."""
        first = self._request + 1
        self._request += len(ids)
        pack = PublishPack(
            stream, CLIENT, first, [f"{stream}.a"] * len(ids), ids, headers or [], [b"x"] * len(ids)
        )
        self._send(pack.encode(), b"pack")
        return self._request

    def _send(self, value: bytes, kind: bytes) -> None:
        self.broker.append(NAMES.commands, b"", value, [(h.COMMAND_KIND, kind)])

    def feed(self) -> None:
        """Give the shard what has arrived for it."""
        for topic, forwarded in ((NAMES.commands, False), (NAMES.forwards, True)):
            fresh = [r for r in self.broker.topics.get(topic, []) if r.offset >= self._fed[topic]]
            if fresh:
                self._fed[topic] = fresh[-1].offset + 1
                self.shard.inbox.put(
                    [Input(forwarded, r.offset, r.written * 10**6, r.key, r.headers, r.value) for r in fresh]
                )

    # -- what it hears

    def _heard(self) -> list[ReplyBatch]:
        return [
            ReplyBatch.decode(record.value or b"")
            for record in list(self.broker.topics.get(NAMES.replies, [])[self._old :])
        ]

    def answers(self) -> dict[int, Answer]:
        return {answer.request: answer for batch in self._heard() for answer in batch.answers}

    def refused(self, request: int) -> Refusal | None:
        """Why a message was not stored."""
        for batch in self._heard():
            for pack in batch.packs:
                for index, refusal in pack.refusals:
                    if pack.first_request + index == request:
                        return refusal
        return None

    def acked(self) -> set[int]:
        """Requests that were answered: stored, a duplicate, or refused."""
        found: set[int] = set()
        for batch in self._heard():
            found.update(answer.request for answer in batch.answers)
            for pack in batch.packs:
                for start, length, _ in pack.runs:
                    found.update(range(pack.first_request + start, pack.first_request + start + length))
                found.update(pack.first_request + index for index, _ in [*pack.duplicates, *pack.refusals])
        return found

    def await_answers(self, last: int) -> None:
        """Until everything up to the request is answered, or the shard has crashed."""

        def answered() -> bool:
            self.feed()
            return bool(self.crashed) or last in self.acked()

        wait_until(answered, f"an answer to {last}", pause=0.005)

    def stored_ids(self, stream: str) -> list[str]:
        """The ids in the log, as any reader of Kafka sees them, in order."""
        return [
            (h.first(record.headers, h.MSG_ID) or b"").decode()
            for record in self.broker.topics.get(NAMES.log(stream), [])
            if record.is_message()
        ]

    def close(self) -> None:
        self.shard.stop(10)
        self.shard.close()


class Gate:
    """Holds a thread up where the test wants it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self.opened.wait(30), "nobody opened the gate"
