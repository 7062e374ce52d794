"""What a worker is told that is not so: forged acknowledgements, garbage, clients that vanish. Nothing of it stops a shard."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any, Final

import pytest

from railgun.protocol.avro import WireError
from railgun.protocol.commands import AckRun, ApiRequest, ConsumerCommand, Presence, Pull
from railgun.protocol.leases import Lease
from railgun.protocol.replies import Frame, ReplyBatch
from railgun.protocol.routing import partition_of
from tests.support.cell import Cell
from tests.support.naming import unique
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS

pytestmark = pytest.mark.kafka

SECOND: Final = 1_000_000_000
HUGE: Final = 2**62


class ConsumingClient(RawClient):
    """A client of the wire format that also consumes. It sends no presence unless told to."""

    def __init__(self, cell: Cell) -> None:
        self.leases: list[Lease] = []
        self._numbers = itertools.count(1_000_000)
        super().__init__(cell.bootstrap, cell.prefix, PARTITIONS)

    def __enter__(self) -> ConsumingClient:
        return self

    def _take(self, message: Any) -> None:
        if message is not None and message.error() is None and message.key() == self.client.encode():
            self.leases += ReplyBatch.decode(message.value() or b"").leases
        super()._take(message)

    # -- sending

    def tell(self, stream: str, command: ConsumerCommand | Presence) -> None:
        kind = "presence" if isinstance(command, Presence) else "consume"
        self.send(partition_of(stream, PARTITIONS), command.encode(), stream.encode(), kind)

    def pull(self, stream: str, consumer: str, batch: int = 1, **fields: Any) -> Lease:
        """Pull what is there; the lease with it."""
        number = next(self._numbers)
        body = json.dumps({"batch": batch, "no_wait": True, **fields}).encode()
        request = ApiRequest(self.client, number, f"CONSUMER.MSG.NEXT.{stream}.{consumer}", stream, [], body)
        self.send(partition_of(stream, PARTITIONS), request.encode(), stream.encode(), "request")
        self._wait(lambda: any(one.pull == number and one.done for one in self.leases))
        found = [one for one in self.leases if one.pull == number]
        return next((one for one in found if one.sequences), found[-1])

    def frames(self, number: int) -> list[Frame]:
        """The answer to a request of this number."""
        self._wait(lambda: number in self._answers)
        found: list[Frame] = self._answers.pop(number)
        return found

    def number(self) -> int:
        return next(self._numbers)

    # -- looking

    def consumer(self, stream: str, name: str = "C") -> Any:
        info = self.request(f"CONSUMER.INFO.{stream}.{name}", stream=stream)
        assert "error" not in info, info
        return info

    def unreadable(self, stream: str) -> list[bytes | None]:
        """What the stream's shard has put into ``rejected``, each with its reason and its place."""
        partition = partition_of(stream, PARTITIONS)
        values = []
        for record in self.records(self.names.rejected, partition):
            headers: dict[str, Any] = dict(record.headers() or [])
            assert headers["Railgun-Reason"]
            assert headers["Railgun-Source"].startswith(f"{self.names.commands}/{partition}/".encode())
            values.append(record.value())
        return values


@pytest.fixture(scope="module")
def cell(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    """One cell for all tests here: each shows at its end that the shard still works."""
    with Cell(kafka_bootstrap, tmp_path_factory.mktemp("bad_input")) as made:
        made.ready_worker()
        yield made


@pytest.fixture
def client(cell: Cell) -> Iterator[ConsumingClient]:
    made = ConsumingClient(cell)
    yield made
    made.close()


def stream_with_consumer(client: ConsumingClient, messages: int = 10, **config: Any) -> str:
    """A new stream with messages and a pull durable ``C`` that acks explicitly."""
    name = unique("S")
    assert client.create_stream(name)["did_create"] is True
    client.publish(name, *[b"%d" % number for number in range(1, messages + 1)])
    fields = {"durable_name": "C", "ack_policy": "explicit", **config}
    made = client.request(f"CONSUMER.CREATE.{name}.C", {"stream_name": name, "config": fields}, stream=name)
    assert "error" not in made, made
    return name


def counts(info: dict[str, Any]) -> tuple[int, int, int, int]:
    """(delivered, floor, unresolved, not yet delivered) of a consumer, by stream sequence."""
    return (
        info["delivered"]["stream_seq"],
        info["ack_floor"]["stream_seq"],
        info["num_ack_pending"],
        info["num_pending"],
    )


def assert_works(client: ConsumingClient, stream: str, consumer: str = "C") -> None:
    """A message goes in, comes out and is acknowledged."""
    config = {"name": "PROBE", "ack_policy": "explicit", "deliver_policy": "new"}
    made = client.request(
        f"CONSUMER.CREATE.{stream}.PROBE", {"stream_name": stream, "config": config}, stream=stream
    )
    assert "error" not in made, made
    ((_, _, sequence),) = client.publish(stream, b"after").runs
    lease = client.pull(stream, "PROBE")
    assert (lease.sequences, lease.counts) == ([sequence], [1])
    number = client.number()
    ack = AckRun("ack", sequence, 1, lease.consumer_sequences[0], 1)
    told = ConsumerCommand(
        stream, lease.incarnation, "PROBE", lease.number, client.client, number, [ack], None
    )
    client.tell(stream, told)
    client.frames(number)
    assert counts(client.consumer(stream, "PROBE"))[1:3] == (sequence, 0)
    client.request(f"CONSUMER.DELETE.{stream}.PROBE", stream=stream)


def error_of(frames: list[Frame]) -> tuple[int, int, str]:
    error = json.loads(frames[0].body)["error"]
    return error["err_code"], error["code"], error["description"]


# ------------------------------------------------------------ garbage


def test_unreadable_commands_are_kept_and_the_shard_goes_on(client: ConsumingClient) -> None:
    stream = stream_with_consumer(client)
    chance = random.Random(7)
    right = ConsumerCommand(
        stream, 1, "C", 1, client.client, 5, [AckRun("ack", 1, 1, 1, 1)], Pull(9)
    ).encode()
    here = Presence(client.client, False, [("inbox", "")]).encode()
    sent: list[tuple[str, bytes | None]] = [("consume", None), ("presence", None), ("consume", b"")]
    for kind, whole, decode in (
        ("consume", right, ConsumerCommand.decode),
        ("presence", here, Presence.decode),
    ):
        candidates = [chance.randbytes(chance.randrange(1, 200)) for _ in range(40)]
        candidates += [whole[: chance.randrange(len(whole))] for _ in range(10)]
        candidates += [whole + b"\0", b"\xff" * 500, b"{}", whole[::-1]]
        for candidate in candidates:
            try:
                decode(candidate)
            except WireError:
                sent.append((kind, candidate))
    assert len(sent) > 80
    before = counts(client.consumer(stream))
    already = len(client.unreadable(stream))
    for kind, value in sent:
        client.send(partition_of(stream, PARTITIONS), value, stream.encode(), kind)
    assert counts(client.consumer(stream)) == before  # answered after them: all were read by now
    wait_until(lambda: len(client.unreadable(stream)) >= already + len(sent), "all are kept")
    assert client.unreadable(stream)[already:] == [value for _, value in sent]
    assert_works(client, stream)


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe\x00",
        b"[1, 2]",
        b'"ten"',
        b"null",
        b"true",
        b"1.5",
        b"-3",
        b"0",
        b"9" * 400,
        b'{"batch": 1e400}',
        b'{"batch": -1}',
        b'{"batch": 99999999999999999999999999}',
        b'{"batch": 1, "expires": -1}',
        b'{"batch": 1, "max_bytes": -1}',
        b'{"batch": 1, "idle_heartbeat": -1}',
        b'{"batch": true}',
        b'{"batch": {"batch": 1}}',
        b'{"no_wait": "yes"}',
        b"{" * 5000,
        b'{"batch": 1, "batch": 2, "group": "x", "unknown": []}',
    ],
)
def test_garbage_as_the_body_of_a_pull(client: ConsumingClient, body: bytes) -> None:
    stream = stream_with_consumer(client, messages=3)
    number = client.number()
    request = ApiRequest(client.client, number, f"CONSUMER.MSG.NEXT.{stream}.C", stream, [], body)
    client.send(partition_of(stream, PARTITIONS), request.encode(), stream.encode(), "request")
    delivered, floor, unresolved, pending = counts(client.consumer(stream))
    assert (floor, unresolved + pending) == (0, 3)
    assert delivered == unresolved
    assert_works(client, stream)


def test_odd_numbers_in_a_pull(client: ConsumingClient) -> None:
    stream = stream_with_consumer(client)
    lease = client.pull(stream, "C")
    numbers = (-HUGE, -1, 0, HUGE)
    odd = list(itertools.product(("max_bytes", "expires", "heartbeat"), numbers))
    odd += [("batch", value) for value in (-(2**31), -1, 0, 2**31 - 1)]
    for field, value in odd:
        pull = Pull(client.number(), **{field: value}, no_wait=True)
        client.tell(
            stream, ConsumerCommand(stream, lease.incarnation, "C", lease.number, client.client, 0, [], pull)
        )
    info = client.consumer(stream)
    assert info["num_ack_pending"] + info["num_pending"] == 10
    assert info["num_ack_pending"] == info["delivered"]["consumer_seq"]
    assert_works(client, stream)


# ------------------------------------------------------------ forged acknowledgements


def test_acks_of_what_was_never_leased_change_nothing(client: ConsumingClient) -> None:
    stream = stream_with_consumer(client)
    lease = client.pull(stream, "C", 3)
    before = counts(client.consumer(stream))
    assert before == (3, 0, 3, 7)
    never = [(4, 1), (4, 7), (11, 1), (HUGE, 1), (HUGE, HUGE), (0, 1), (-5, 3), (4, 0), (4, -1), (4, HUGE)]
    for kind, (sequence, length) in itertools.product(("ack", "nak", "progress", "term", "back"), never):
        run = AckRun(kind, sequence, length, sequence, 1)
        command = ConsumerCommand(stream, lease.incarnation, "C", lease.number, client.client, 0, [run], None)
        client.tell(stream, command)
        assert counts(client.consumer(stream)) == before, (kind, sequence, length)
    assert_works(client, stream)
    again = client.pull(stream, "C", 20)
    assert (again.sequences, again.deliveries, sum(again.counts)) == ([4], [1], 8)


def test_acks_with_odd_numbers(client: ConsumingClient) -> None:
    stream = stream_with_consumer(client)
    lease = client.pull(stream, "C", 4)

    def tell(*runs: AckRun) -> None:
        command = ConsumerCommand(
            stream, lease.incarnation, "C", lease.number, client.client, 0, list(runs), None
        )
        client.tell(stream, command)

    tell(AckRun("nak", 1, 1, 1, 1, delay=-HUGE), AckRun("nak", 2, 1, 2, 1, delay=2 * HUGE - 1))
    tell(AckRun("term", 3, 1, 3, 1, reason="\0" * 100_000))
    tell(AckRun("progress", 4, 1, HUGE, 2**31 - 1), AckRun("nak", 9, 1, 9, 1, delay=-HUGE))
    assert counts(client.consumer(stream)) == (4, 0, 3, 6)
    again = client.pull(stream, "C", 2)
    assert (again.sequences, again.counts, again.deliveries) == ([1, 5], [1, 1], [2, 1])
    assert_works(client, stream)


@pytest.mark.parametrize("forged", ["number", "incarnation", "consumer", "stream"])
def test_a_forged_lease_acknowledges_nothing(client: ConsumingClient, forged: str) -> None:
    stream = stream_with_consumer(client)
    lease = client.pull(stream, "C", 3)
    number, pull = client.number(), client.number()
    right = ConsumerCommand(
        stream,
        lease.incarnation,
        "C",
        lease.number,
        client.client,
        number,
        [AckRun("ack", 1, 3, 1, 1)],
        Pull(pull, batch=2),
    )
    wrong: dict[str, Any] = {
        "number": lease.number + 1,
        "incarnation": lease.incarnation + 1,
        "consumer": "D",
        "stream": unique("NONE"),
    }
    client.tell(stream, right._replace(**{forged: wrong[forged]}))
    err_code, code, _ = error_of(client.frames(number))
    assert (err_code, code) in ((10014, 404), (10059, 404))
    client._wait(lambda: any(one.pull == pull and one.done for one in client.leases))
    (ended,) = [one for one in client.leases if one.pull == pull]
    assert (ended.status, ended.description, ended.sequences) == (409, "Consumer Deleted", [])
    assert counts(client.consumer(stream)) == (3, 0, 3, 7)
    client.tell(stream, right)
    assert client.frames(number)[0].body == b""
    assert counts(client.consumer(stream))[:2] == (5, 3)
    assert_works(client, stream)


def test_a_lease_of_a_deleted_consumer_does_not_match_its_successor(client: ConsumingClient) -> None:
    stream = stream_with_consumer(client)
    old = client.pull(stream, "C", 3)
    client.request(f"CONSUMER.DELETE.{stream}.C", stream=stream)
    config = {"durable_name": "C", "ack_policy": "explicit"}
    client.request(f"CONSUMER.CREATE.{stream}.C", {"stream_name": stream, "config": config}, stream=stream)
    new = client.pull(stream, "C", 3)
    assert new.number != old.number
    number = client.number()
    ack = AckRun("ack", 1, 3, 1, 1)
    told = ConsumerCommand(stream, old.incarnation, "C", old.number, client.client, number, [ack], None)
    client.tell(stream, told)
    assert error_of(client.frames(number)) == (10014, 404, "consumer not found")
    assert counts(client.consumer(stream)) == (3, 0, 3, 7)
    assert_works(client, stream)


def test_another_client_may_acknowledge(cell: Cell, client: ConsumingClient) -> None:
    stream = stream_with_consumer(client)
    lease = client.pull(stream, "C", 2)
    with ConsumingClient(cell) as other:
        number = other.number()
        ack = AckRun("ack", 1, 1, 1, 1)
        told = ConsumerCommand(
            stream, lease.incarnation, "C", lease.number, other.client, number, [ack], None
        )
        other.tell(stream, told)
        assert other.frames(number)[0].body == b""
    assert counts(client.consumer(stream)) == (2, 1, 1, 8)
    assert_works(client, stream)


# ------------------------------------------------------------ presence


def test_odd_presence_stops_nothing(client: ConsumingClient) -> None:
    stream = stream_with_consumer(client)
    for presence in (
        Presence(""),
        Presence("", True),
        Presence("nobody", True, [("x", "")]),
        Presence("somebody", False, [("", ""), ("a..b", "\0"), ("*", ">"), ("a", "g"), ("a", "g")]),
        Presence("many", False, [(f"s{number}", "") for number in range(5000)]),
        Presence("x" * 100_000),
    ):
        client.tell(stream, presence)
    assert_works(client, stream)


@pytest.mark.rule("PUL-14")
def test_a_client_that_falls_silent_loses_its_pulls(cell: Cell, client: ConsumingClient) -> None:
    stream = stream_with_consumer(client, messages=1)
    lease = client.pull(stream, "C")
    with ConsumingClient(cell) as silent:
        pull = Pull(silent.number(), batch=1, expires=3600 * SECOND)
        told = ConsumerCommand(stream, lease.incarnation, "C", lease.number, silent.client, 0, [], pull)
        silent.tell(stream, told)
        wait_until(lambda: client.consumer(stream)["num_waiting"] == 1, "its pull waits")
        wait_until(lambda: client.consumer(stream)["num_waiting"] == 0, "its pull is forgotten", 30.0)
    client.publish(stream, b"new")
    later = client.pull(stream, "C")
    assert (later.sequences, later.deliveries) == ([2], [1])
    assert_works(client, stream)
