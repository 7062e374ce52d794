"""Hand-overs at the shards: an ack and publishes to any streams, in one drain of the consumer's owner, or nothing at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.model.cluster_limits import HANDED_OVER_AT_ONCE, ClusterLimits
from railgun.protocol.commands import AckRun, Forward, HandedOver, HandOver, PublishPack, Pull
from railgun.protocol.hand_overs import HAND_OVERS, HandOverPack, PackOfHandOvers
from railgun.protocol.leases import Lease
from railgun.protocol.routing import partition_of
from tests.support.shards import CLIENT, MILLI, NAMES, Shards

SECOND = 1_000 * MILLI
PARTITIONS = 3
NOT_PENDING = (20001, 409)


def name_on(partition: int, prefix: str) -> str:
    """The first stream name with this prefix that lives on the partition."""
    names = (f"{prefix}{number}" for number in range(1_000))
    return next(name for name in names if partition_of(name, PARTITIONS) == partition)


IN = name_on(0, "IN")
NEAR, FAR = name_on(0, "NEAR"), name_on(1, "FAR")
DEAD = name_on(2, "DEAD")


class Pipeline:
    """A stream with a consumer, streams on the same and on another shard, and one for dead letters."""

    def __init__(self, limits: ClusterLimits | None = None, **config: Any) -> None:
        self.shards = Shards(PARTITIONS, limits)
        self._number = 1_000_000
        self.create(IN)
        self.create(NEAR)
        self.create(FAR)
        fields = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 10 * SECOND, **config}
        self.ask(f"CONSUMER.CREATE.{IN}.C", {"stream_name": IN, "config": fields}, stream=IN)

    def create(self, name: str, **fields: Any) -> None:
        self.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], **fields})

    def ask(self, api: str, body: dict[str, Any] | bytes = b"", **where: Any) -> dict[str, Any]:
        request = self.shards.request(api, body, **where)
        self.shards.settle()
        answer = self.shards.answer(request)
        assert "error" not in answer, answer
        return answer

    def publish(self, count: int = 1) -> None:
        self.shards.publish(IN, [f"{IN}.x"] * count)
        self.shards.settle()

    def pull(self, client: str = CLIENT, batch: int = 1) -> list[HandOver]:
        """Deliveries, as a hand-over names them, without any packs."""
        self._number += 1
        self.shards.command(IN, "C", client=client, pull=Pull(self._number, batch, no_wait=True))
        self.shards.settle()
        lease: Lease = self.shards.leases[client].pop()
        runs = zip(lease.sequences, lease.counts, lease.consumer_sequences, lease.deliveries, strict=True)
        return [
            HandOver(sequence + at, number + at, deliveries, [])
            for sequence, count, number, deliveries in runs
            for at in range(count)
        ]

    def send(self, given: HandOver, *packs: PublishPack, **fields: Any) -> int:
        """The request of a hand-over, which is not decided yet."""
        self._number += 1
        packed = given._replace(packs=[pack.encode() for pack in packs]) if packs else given
        self.shards.command(IN, "C", request=self._number, hand_over=packed, **fields)
        return self._number

    def hand_over(self, given: HandOver, *packs: PublishPack, **fields: Any) -> tuple[int, int] | None:
        """Why it was refused, None if it was done."""
        request = self.send(given, *packs, **fields)
        self.shards.settle()
        return self.outcome(request)

    def outcome(self, request: int) -> tuple[int, int] | None:
        (frame,) = self.shards.answers[request]
        if not frame.body:
            return None
        error = json.loads(frame.body)["error"]
        return error["err_code"], error["code"]

    def payloads(self, stream: str) -> list[bytes | None]:
        found: dict[int, bytes | None] = self.shards.snapshot()[stream]["payloads"]
        return [found[sequence] for sequence in sorted(found)]

    def pending(self) -> int:
        waiting: int = self.ask(f"CONSUMER.INFO.{IN}.C", stream=IN)["num_ack_pending"]
        return waiting

    def letters(self) -> list[tuple[str, bytes, dict[str, str]]]:
        """Subject, payload and headers of all dead letters."""
        found = []
        for drain in self.shards.drains:
            for append in drain.appends.values():
                if append.stream == DEAD:
                    for key, payload, headers in zip(
                        append.keys, append.payloads, append.headers, strict=True
                    ):
                        found.append(
                            (key.decode(), payload, {name: value.decode() for name, value in headers})
                        )
        return found


def pack(stream: str, *payloads: bytes, ids: list[str] | None = None, **headers: str) -> PublishPack:
    """A pack; ``headers`` are those of each message, with underscores for dashes."""
    given = [[(name.replace("_", "-"), value.encode()) for name, value in headers.items()] for _ in payloads]
    subjects = [f"{stream}.x"] * len(payloads)
    return PublishPack(stream, "", 0, subjects, ids or [], given if headers else [], list(payloads))


# ------------------------------------------------------------ all or nothing


@pytest.mark.rule("EXO-08")
def test_the_ack_and_the_publishes_are_one_drain_and_the_rest_follows() -> None:
    line = Pipeline()
    line.publish()
    (message,) = line.pull()
    request = line.send(message, pack(FAR, b"far"), pack(NEAR, b"near", b"nearer"), pack(IN, b"again"))
    drain = line.shards.step(0)
    forwards = [(partition, Forward.decode(data)) for partition, data in drain.sent]
    assert [(partition, one.stream, one.command_kind) for partition, one in forwards] == [
        (1, FAR, "handed"), (0, NEAR, "handed"), (0, IN, "handed")
    ]  # fmt: skip
    assert HandedOver.decode(forwards[0][1].command)[:2] == (IN, 1)
    assert line.outcome(request) is None
    line.shards.settle()
    assert line.payloads(FAR) == [b"far"]
    assert line.payloads(NEAR) == [b"near", b"nearer"]
    assert line.payloads(IN) == [b"x", b"again"]
    assert line.pending() == 0
    assert line.shards.rejected == []


@pytest.mark.rule("EXO-08")
def test_an_aborted_drain_hands_nothing_over_and_the_next_one_all_of_it_once() -> None:
    line = Pipeline()
    line.publish()
    (message,) = line.pull()
    request = line.send(message, pack(FAR, b"far"), pack(NEAR, b"near"))
    assert line.shards.step(0, abort=True).sent
    line.shards.step(0, abort=True)
    assert line.payloads(FAR) == line.payloads(NEAR) == []
    line.shards.restart(0)  # the next owner decides it
    line.shards.step(0)
    line.shards.step(1, abort=True)
    line.shards.restart(1)
    line.shards.settle()
    assert line.outcome(request) is None
    assert (line.payloads(FAR), line.payloads(NEAR), line.pending()) == ([b"far"], [b"near"], 0)


@pytest.mark.rule("EXO-08", "ACK-02")
def test_policy_all_acknowledges_what_is_below() -> None:
    line = Pipeline(ack_policy="all")
    line.publish(4)
    deliveries = line.pull(batch=4)
    assert line.hand_over(deliveries[2], pack(FAR, b"three")) is None
    assert line.pending() == 1
    assert line.hand_over(deliveries[1], pack(FAR, b"two")) == NOT_PENDING
    assert line.hand_over(deliveries[3]) is None
    assert (line.pending(), line.payloads(FAR)) == (0, [b"three"])


@pytest.mark.rule("EXO-08", "ACK-04")
def test_policy_none_has_nothing_to_hand_over() -> None:
    line = Pipeline(ack_policy="none", ack_wait=0)
    line.publish()
    (message,) = line.pull()
    assert line.hand_over(message, pack(FAR, b"far")) == (10003, 400)
    assert line.payloads(FAR) == []


@pytest.mark.rule("EXO-08", "RET-01")
def test_a_work_queue_is_done_with_the_message() -> None:
    line = Pipeline()
    line.ask(f"CONSUMER.DELETE.{IN}.C", stream=IN)
    line.ask(f"STREAM.DELETE.{IN}")
    line.create(IN, retention="workqueue")
    fields = {"durable_name": "C", "ack_policy": "explicit"}
    line.ask(f"CONSUMER.CREATE.{IN}.C", {"stream_name": IN, "config": fields}, stream=IN)
    line.publish()
    (message,) = line.pull()
    assert line.hand_over(message, pack(FAR, b"far")) is None
    assert (line.payloads(IN), line.payloads(FAR)) == ([], [b"far"])


# ------------------------------------------------------------ only at this very delivery


@pytest.mark.rule("EXO-09")
def test_a_message_that_is_resolved_is_not_handed_over_again() -> None:
    line = Pipeline()
    line.publish(3)
    first, second, third = line.pull(batch=3)
    assert line.hand_over(first, pack(FAR, b"1")) is None
    assert line.hand_over(first, pack(FAR, b"1")) == NOT_PENDING
    line.shards.command(IN, "C", acks=[AckRun("ack", 2, 1, 2, 1)])
    assert line.hand_over(second, pack(FAR, b"2")) == NOT_PENDING
    line.ask(f"STREAM.MSG.DELETE.{IN}", {"seq": 3})
    assert line.hand_over(third, pack(FAR, b"3")) == NOT_PENDING
    assert line.payloads(FAR) == [b"1"]


@pytest.mark.rule("EXO-09")
def test_an_ack_in_the_same_command_counts_before_the_hand_over() -> None:
    line = Pipeline()
    line.publish(2)
    first, second = line.pull(batch=2)
    ack = [AckRun("ack", 1, 1, 1, 1)]
    assert line.hand_over(first, pack(FAR, b"1"), acks=ack) == NOT_PENDING
    assert line.hand_over(second, pack(FAR, b"2"), acks=ack) is None
    assert (line.pending(), line.payloads(FAR)) == (0, [b"2"])


@pytest.mark.rule("EXO-09")
def test_two_clients_race_and_the_newest_delivery_wins() -> None:
    line = Pipeline()
    line.publish()
    (slow,) = line.pull("slow")
    line.shards.now += 11 * SECOND
    (fast,) = line.pull("fast")
    assert (slow.deliveries, fast.deliveries) == (1, 2)
    late = line.send(slow, pack(FAR, b"slow"))
    early = line.send(fast, pack(FAR, b"fast"))
    line.shards.settle()
    assert (line.outcome(late), line.outcome(early)) == (NOT_PENDING, None)
    assert (line.payloads(FAR), line.pending()) == ([b"fast"], 0)


@pytest.mark.rule("EXO-09", "ACK-15")
def test_an_ack_wait_that_is_over_takes_nothing_away_before_the_next_delivery() -> None:
    line = Pipeline()
    line.publish()
    (message,) = line.pull()
    line.shards.now += 11 * SECOND
    line.shards.settle()
    assert line.hand_over(message, pack(FAR, b"late")) is None
    assert line.pull() == []
    assert line.payloads(FAR) == [b"late"]


@pytest.mark.rule("EXO-09")
@pytest.mark.parametrize("delay", [0, 5 * SECOND])
def test_a_message_that_was_given_back_is_not_handed_over(delay: int) -> None:
    line = Pipeline()
    line.publish()
    (message,) = line.pull()
    line.shards.command(IN, "C", acks=[AckRun("nak", 1, 1, 1, 1, delay)])
    assert line.hand_over(message, pack(FAR, b"x")) == NOT_PENDING
    line.shards.now += delay
    (again,) = line.pull()
    assert line.hand_over(again, pack(FAR, b"second")) is None
    assert line.payloads(FAR) == [b"second"]


@pytest.mark.rule("EXO-09")
def test_what_was_never_delivered_is_not_handed_over() -> None:
    line = Pipeline()
    line.publish(2)
    line.pull()
    for given_up in (
        HandOver(2, 2, 1, []),
        HandOver(1, 1, 2, []),
        HandOver(1, 2, 1, []),
        HandOver(1 << 60, 1, 1, []),
    ):
        assert line.hand_over(given_up, pack(FAR, b"x")) == NOT_PENDING
    assert line.hand_over(HandOver(0, 0, 0, []), pack(FAR, b"x")) == (10003, 400)
    assert line.hand_over(HandOver(-5, 1, 1, []), pack(FAR, b"x")) == (10003, 400)
    assert line.payloads(FAR) == []


@pytest.mark.rule("EXO-09")
def test_the_successor_of_a_consumer_is_not_meant() -> None:
    line = Pipeline()
    line.publish()
    (message,) = line.pull()
    assert line.hand_over(message, pack(FAR, b"x"), number=77) == (10014, 404)
    line.ask(f"CONSUMER.DELETE.{IN}.C", stream=IN)
    assert line.hand_over(message, pack(FAR, b"x")) == (10014, 404)
    assert line.payloads(FAR) == []


# ------------------------------------------------------------ packs that no shard passes on


@pytest.mark.rule("EXO-08")
@pytest.mark.parametrize(
    "bad",
    [
        pack(""),
        pack(FAR),
        pack("", b"x"),
        pack(FAR, b"x", Nats_Batch_Id="b", Nats_Batch_Sequence="1"),
        pack(FAR, *[b"x"] * HANDED_OVER_AT_ONCE),
    ],
    ids=["nothing", "no message", "no stream", "a batch", "too many"],
)
def test_nothing_is_done_where_one_pack_cannot_be_handed_over(bad: PublishPack) -> None:
    line = Pipeline()
    line.publish()
    (message,) = line.pull()
    assert line.hand_over(message, pack(NEAR, b"good"), bad) == (10003, 400)
    assert line.hand_over(message._replace(packs=[pack(NEAR, b"good").encode(), b"garbage"])) == (10003, 400)
    assert (line.pending(), line.payloads(NEAR), line.payloads(FAR)) == (1, [], [])
    assert line.hand_over(message) is None  # nothing at all is an ack


@pytest.mark.rule("EXO-08")
def test_clients_cannot_write_what_is_handed_over() -> None:
    line = Pipeline()
    handed = HandedOver(IN, 1, 0, "C", 1, "", pack(FAR, b"forged").encode())
    line.shards.record(1, handed.encode(), "handed")
    line.shards.settle()
    assert line.payloads(FAR) == []
    assert [one.reason for one in line.shards.rejected] == ["there is no command of the kind 'handed'"]


# ------------------------------------------------------------ what the target decides


@pytest.mark.rule("EXO-08", "DUP-01", "PUB-08")
def test_the_target_decides_as_for_any_publish() -> None:
    line = Pipeline()
    line.publish(3)
    for number, message in enumerate(line.pull(batch=3)):
        expected = {"Nats_Expected_Last_Sequence": "0"} if number == 0 else {}
        assert line.hand_over(message, pack(FAR, b"%d" % number, ids=["the same"], **expected)) is None
    assert line.payloads(FAR) == [b"0"]
    assert line.shards.rejected == []


@pytest.mark.rule("EXO-10", "DLQ-06")
def test_what_is_refused_becomes_a_dead_letter_of_the_consumer() -> None:
    line = Pipeline(dead_letter=DEAD)
    line.create(DEAD)
    line.ask(f"STREAM.UPDATE.{FAR}", {"name": FAR, "subjects": [f"{FAR}.>"], "max_msgs": 1, "discard": "new"})
    line.publish()
    (message,) = line.pull()
    full = pack(FAR, b"fits", b"does not", ids=["1", "2"], Kind="a", Nats_Expected_Stream=FAR)
    assert line.hand_over(message, full, pack(NEAR, b"taken")) is None
    assert (line.payloads(FAR), line.payloads(NEAR)) == ([b"fits"], [b"taken"])
    ((subject, payload, headers),) = line.letters()
    assert (subject, payload) == (f"{FAR}.x", b"does not")
    assert headers.pop(h.ORIGIN_TIME).startswith("2023-11-14T")
    assert headers == {
        "Kind": "a",
        "Nats-Expected-Stream": FAR,
        h.ORIGIN_MSG_ID: "2",
        h.ORIGIN_STREAM: IN,
        h.ORIGIN_SEQUENCE: "1",
        h.ORIGIN_CONSUMER: "C",
        h.ORIGIN_DELIVERIES: "1",
        h.ORIGIN_REASON: f"not taken by {FAR}: maximum messages exceeded",
    }
    assert line.shards.rejected == []


@pytest.mark.rule("EXO-10")
@pytest.mark.parametrize("target", [NEAR, FAR])
@pytest.mark.parametrize("dead", [True, False])
def test_a_target_that_is_deleted_meanwhile_loses_nothing(target: str, dead: bool) -> None:
    line = Pipeline(**({"dead_letter": DEAD} if dead else {}))
    line.create(DEAD)
    line.publish()
    (message,) = line.pull()
    line.ask(f"STREAM.DELETE.{target}")  # after the client looked it up
    assert line.hand_over(message, pack(target, b"left over", b"both")) is None
    reason = f"not taken by {target}: no stream captures the subject"
    if dead:
        assert [(payload, headers[h.ORIGIN_REASON]) for _, payload, headers in line.letters()] == [
            (b"left over", reason), (b"both", reason)
        ]  # fmt: skip
        assert line.shards.rejected == []
        return
    assert [one.source.value for one in line.shards.rejected] == [b"left over", b"both"]
    assert {one.reason for one in line.shards.rejected} == {f"handed over by C of {IN}: {reason}"}
    kept = line.shards.rejected[0].source
    assert kept.key == target.encode()
    assert h.first(kept.headers, h.ORIGIN_SEQUENCE) == b"1"
    assert h.first(kept.headers, h.PLAIN_SUBJECT) == f"{target}.x".encode()


@pytest.mark.rule("EXO-10")
def test_without_its_stream_a_dead_letter_is_kept_with_both_reasons() -> None:
    line = Pipeline(dead_letter=DEAD)
    line.ask(f"STREAM.UPDATE.{FAR}", {"name": FAR, "subjects": [f"{FAR}.>"], "sealed": True})
    line.publish()
    (message,) = line.pull()
    assert line.hand_over(message, pack(FAR, b"x")) is None
    (kept,) = line.shards.rejected
    assert (kept.source.value, kept.reason) == (b"x", f"a dead letter for {DEAD}: stream not found")
    reason = h.first(kept.source.headers, h.ORIGIN_REASON)
    assert reason == f"not taken by {FAR}: invalid operation on sealed stream".encode()


@pytest.mark.rule("EXO-10", "PUB-20")
def test_a_busy_drain_refuses_nothing_that_was_handed_over() -> None:
    line = Pipeline(ClusterLimits(max_in_flight=2))
    line.publish()
    (message,) = line.pull()
    assert line.hand_over(message, pack(FAR, *[b"%d" % number for number in range(5)])) is None
    assert len(line.payloads(FAR)) == 5


@pytest.mark.rule("EXO-10")
def test_a_log_that_cannot_be_written_loses_nothing() -> None:
    line = Pipeline(dead_letter=DEAD)
    line.create(DEAD)
    line.shards.quarantined[NAMES.log(FAR)] = "its log is gone"
    line.publish()
    (message,) = line.pull()
    assert line.hand_over(message, pack(FAR, b"x")) is None
    ((_, payload, headers),) = line.letters()
    assert (payload, headers[h.ORIGIN_REASON]) == (
        b"x", f"not taken by {FAR}: insufficient resources: its log is gone"
    )  # fmt: skip


@pytest.mark.rule("EXO-10")
def test_a_record_that_cannot_be_applied_is_kept_or_refused_as_a_whole() -> None:
    line = Pipeline()
    line.publish()
    (message,) = line.pull()
    request = line.send(message, pack(FAR, b"x"))
    line.shards.refuse(0, "planted")  # at the owner of the consumer: nothing is done
    assert line.outcome(request) == (10023, 503)
    assert (line.pending(), len(line.shards.rejected)) == (1, 1)
    line.send(message, pack(FAR, b"x"))
    line.shards.step(0)
    line.shards.refuse(1, "planted")  # at the owner of the target: the forward is kept
    kept = Forward.decode(line.shards.rejected[-1].source.value or b"")
    assert PublishPack.decode(HandedOver.decode(kept.command).pack).payloads == [b"x"]
    assert (line.pending(), line.payloads(FAR)) == (0, [])


# ------------------------------------------------------------ any interleaving


steps = st.lists(
    st.one_of(
        st.tuples(st.just("pull"), st.sampled_from(["ann", "bob"])),
        st.tuples(st.just("hand over"), st.sampled_from(["ann", "bob"]), st.integers(0, 5)),
        st.tuples(st.just("nak"), st.sampled_from(["ann", "bob"]), st.integers(0, 5)),
        st.tuples(st.just("later"), st.sampled_from([1, 11])),
        st.tuples(st.just("drain"), st.integers(0, PARTITIONS - 1), st.booleans()),
        st.tuples(st.just("restart"), st.integers(0, PARTITIONS - 1)),
    ),
    max_size=40,
)


@given(steps)
@settings(max_examples=60, deadline=None)
@pytest.mark.rule("EXO-08", "EXO-09")
def test_every_input_is_in_the_output_once_whatever_happens_between(history: list[tuple[Any, ...]]) -> None:
    """Two clients, naks, ack waits that end, aborted drains, new owners; then what is left is worked off."""
    line = Pipeline()
    line.publish(4)
    shards, seen = line.shards, {"ann": [], "bob": []}  # type: ignore[var-annotated]

    def outputs(message: HandOver) -> tuple[PublishPack, PublishPack]:
        return pack(FAR, b"%d" % message.sequence), pack(NEAR, b"%d" % message.sequence)

    for kind, *arguments in history:
        if kind == "pull":
            seen[arguments[0]] += line.pull(arguments[0], 2)
        elif kind == "later":
            shards.now += arguments[0] * SECOND
        elif kind == "drain":
            shards.step(arguments[0], 1, abort=arguments[1])
        elif kind == "restart":
            shards.restart(arguments[0])
        elif seen[arguments[0]]:
            had = seen[arguments[0]]
            message = had[arguments[1] % len(had)]
            if kind == "hand over":
                line.send(message, *outputs(message))
            else:
                run = AckRun("nak", message.sequence, 1, message.consumer_sequence, message.deliveries)
                shards.command(IN, "C", acks=[run])
    for _ in range(20):
        shards.now += 11 * SECOND
        for message in line.pull(batch=4):
            assert line.hand_over(message, *outputs(message)) is None
    for stream in (NEAR, FAR):
        assert sorted(payload or b"" for payload in line.payloads(stream)) == [b"1", b"2", b"3", b"4"]
    assert line.pending() == 0
    assert shards.rejected == []


# -- several that came together


def together(
    line: Pipeline, given: list[HandOver], packs: list[PackOfHandOvers], **fields: Any
) -> list[tuple[int, int] | None]:
    """Send hand-overs as one command: of each, why it was refused, None if it was done."""
    first = line._number + 1
    line._number += len(given)
    requests = list(range(first, first + len(given)))
    columns = ([one[at] for one in given] for at in range(3))
    command = HandOverPack(IN, 0, "C", 0, CLIENT, requests, *columns, packs)._replace(**fields)
    line.shards.record(partition_of(IN, PARTITIONS), command.encode(), HAND_OVERS)
    line.shards.settle()
    return [line.outcome(request) for request in requests]


@pytest.mark.rule("EXO-08", "EXO-09")
def test_of_hand_overs_that_came_together_each_counts_by_itself() -> None:
    line = Pipeline()
    line.publish(4)
    first, second, third, fourth = line.pull(batch=4)
    assert line.hand_over(second, pack(NEAR, b"done before")) is None
    far = pack(FAR, b"1", b"2", b"2 too", b"4", ids=["", "a", "", ""])
    near = pack(NEAR, b"3", b"4")
    packs = [PackOfHandOvers([0, 1, 1, 3], far.encode()), PackOfHandOvers([2, 3], near.encode())]
    assert together(line, [first, second, third, fourth], packs) == [None, NOT_PENDING, None, None]
    assert line.payloads(FAR) == [b"1", b"4"]
    assert line.payloads(NEAR) == [b"done before", b"3", b"4"]
    assert line.pending() == 0
    assert together(line, [first], [PackOfHandOvers([0], pack(FAR, b"again").encode())]) == [NOT_PENDING]
    assert line.payloads(FAR) == [b"1", b"4"]


@pytest.mark.rule("EXO-09")
def test_a_delivery_that_is_named_twice_is_handed_over_once() -> None:
    line = Pipeline()
    line.publish(1)
    (message,) = line.pull()
    packs = [PackOfHandOvers([0, 1], pack(FAR, b"first", b"second").encode())]
    assert together(line, [message, message], packs) == [None, NOT_PENDING]
    assert line.payloads(FAR) == [b"first"]


@pytest.mark.rule("EXO-10")
def test_what_is_refused_of_several_names_the_message_that_it_comes_from() -> None:
    line = Pipeline(dead_letter=DEAD)
    line.create(DEAD)
    line.publish(3)
    given = line.pull(batch=3)
    elsewhere = pack(FAR, b"1", b"2", b"3")._replace(subjects=[f"{FAR}.x", "elsewhere", f"{FAR}.x"])
    assert together(line, given, [PackOfHandOvers([0, 1, 2], elsewhere.encode())]) == [None] * 3
    assert line.payloads(FAR) == [b"1", b"3"]
    ((_, payload, headers),) = line.letters()
    assert (payload, headers[h.ORIGIN_SEQUENCE], headers[h.ORIGIN_STREAM]) == (b"2", "2", IN)


@pytest.mark.rule("EXO-08")
def test_packs_that_do_not_fit_their_hand_overs_do_nothing() -> None:
    line = Pipeline()
    line.publish(1)
    given = line.pull()
    for packs in (
        [PackOfHandOvers([0], pack(FAR, b"1", b"2").encode())],
        [PackOfHandOvers([0], b"garbage")],
        [PackOfHandOvers([0] * 1_001, pack(FAR, *[b"x"] * 1_001).encode())],
    ):
        assert together(line, given, packs) == [(10003, 400)]
    assert together(line, given, [], number=77) == [(10014, 404)]
    for places in ([1], [-1], [0, 1, 0]):
        rejected = len(line.shards.rejected)
        packs = [PackOfHandOvers(places, pack(FAR, *[b"x"] * len(places)).encode())]
        command = HandOverPack(IN, 0, "C", 0, CLIENT, [1], [1], [1], [1], packs)
        line.shards.record(partition_of(IN, PARTITIONS), command.encode(), HAND_OVERS)
        line.shards.settle()
        assert len(line.shards.rejected) == rejected + 1
    assert line.payloads(FAR) == []
    assert line.pending() == 1
    assert together(line, given, []) == [None]  # nothing at all is an ack


def test_hand_overs_at_the_wrong_shard_are_passed_on() -> None:
    line = Pipeline()
    line.publish(1)
    (message,) = line.pull()
    packs = [PackOfHandOvers([0], pack(FAR, b"x").encode())]
    command = HandOverPack(IN, 0, "C", 0, CLIENT, [9], *([one] for one in message[:3]), packs)
    line.shards.record(2, command.encode(), HAND_OVERS)
    line.shards.settle()
    assert line.outcome(9) is None
    assert line.payloads(FAR) == [b"x"]


def test_hand_overs_that_cannot_be_applied_are_answered() -> None:
    line = Pipeline()
    command = HandOverPack(IN, 0, "C", 0, CLIENT, [8, 9], [1, 2], [1, 2], [1, 1], [])
    line.shards.record(partition_of(IN, PARTITIONS), command.encode(), HAND_OVERS)
    line.shards.refuse(partition_of(IN, PARTITIONS), "broken")
    assert [line.outcome(request) for request in (8, 9)] == [(10023, 503)] * 2
