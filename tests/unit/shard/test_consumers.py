"""Consumers at a shard: what is only in memory survives aborted drains, and is bounded by what a drain changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from railgun.protocol.commands import AckRun, ConsumerCommand, HandOver, PublishPack, Pull
from railgun.protocol.leases import Lease
from tests.support.shards import MILLI, Shards

SECOND = 1_000 * MILLI
CONSUMERS = ("one", "two", "loud")
CLIENTS = ("ann", "bob")

configs = st.sampled_from(
    [
        {"ack_policy": "explicit"},
        {"ack_policy": "explicit", "max_ack_pending": 2, "ack_wait": 2 * SECOND},
        {"ack_policy": "explicit", "max_deliver": 2, "ack_wait": SECOND, "dead_letter": "B"},
        {"ack_policy": "explicit", "max_ack_pending_per_subject": 1, "sample_freq": "100"},
        {"ack_policy": "all", "inactive_threshold": 5 * SECOND},
        {"ack_policy": "none", "filter_subject": "A.x"},
        {"ack_policy": "explicit", "max_waiting": 1, "backoff": [SECOND, 3 * SECOND]},
        {
            "deliver_subject": "d.one",
            "ack_policy": "explicit",
            "idle_heartbeat": SECOND,
            "flow_control": True,
        },
        {"deliver_subject": "d.two", "deliver_group": "g", "ack_policy": "none", "rate_limit_bps": 800},
        {"deliver_subject": "d.two", "replay_policy": "original"},
    ]
)
three = st.lists(configs, min_size=3, max_size=3)
pulls = st.builds(
    Pull,
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from([0, 0, 0, 60, 150]),
    st.sampled_from([0, SECOND, 4 * SECOND]),
    st.booleans(),
    st.sampled_from([0, 0, 400 * MILLI]),
    st.sampled_from([0, 3 * SECOND]),
)
acks = st.lists(
    st.builds(
        AckRun,
        st.sampled_from(["ack", "ack", "nak", "nak", "progress", "term", "back"]),
        st.integers(-1, 5),
        st.integers(0, 3),
        st.integers(0, 15),
        st.integers(0, 3),
        st.sampled_from([0, 0, SECOND, -5, 2**62]),
    ),
    max_size=3,
)
listens = st.lists(
    st.tuples(st.sampled_from(["d.one", "d.two", "d.*", "rep.x"]), st.sampled_from(["", "g"])), max_size=2
)
streams = st.sampled_from("AAAB")
names, clients = st.sampled_from(CONSUMERS), st.sampled_from(CLIENTS)
commands = st.one_of(
    st.tuples(st.just("publish"), streams, st.lists(st.sampled_from("xyz"), min_size=1, max_size=4)),
    st.tuples(st.just("publish"), streams, st.lists(st.sampled_from("xyz"), min_size=1, max_size=4)),
    st.tuples(st.just("create"), streams, names, configs),
    st.tuples(st.just("command"), streams, names, clients, acks, st.none() | pulls),
    st.tuples(st.just("command"), streams, names, clients, acks, st.none() | pulls),
    st.tuples(st.just("command"), streams, names, clients, acks, pulls),
    st.tuples(
        *(st.just("hand over"), streams, names, clients),
        *(st.integers(1, 4), st.integers(1, 5), st.integers(1, 2), st.sampled_from("AB")),
    ),
    st.tuples(st.just("presence"), clients, listens, st.sampled_from([False, False, True])),
    st.tuples(st.just("call"), st.sampled_from(["CONSUMER.DELETE", "CONSUMER.INFO"]), streams, names),
    st.tuples(st.just("purge"), streams),
    st.tuples(st.just("remove"), streams, st.integers(1, 12)),
    st.tuples(st.just("garbage"), st.sampled_from(["consume", "presence"]), st.binary(max_size=30)),
    st.tuples(st.just("later"), st.sampled_from([1, 500, 1_100, 2_500, 7_000])),
)


def two_streams(consumers: list[dict[str, Any]], **fields: Any) -> Shards:
    """A, with these consumers, and B, on the two shards of a cluster; A republishes."""
    shards = Shards()
    republish = {"src": "A.*", "dest": "rep.x"}
    shards.request("STREAM.CREATE.A", {"name": "A", "subjects": ["A.*"], "republish": republish, **fields})
    shards.request(
        "STREAM.CREATE.B", {"name": "B", "subjects": ["B.*", "$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.>"]}
    )
    shards.settle()
    for name, config in zip(CONSUMERS, consumers, strict=True):
        send(shards, "create", "A", name, config)
    shards.settle()
    return shards


def send(shards: Shards, name: str, *given: Any) -> None:
    if name == "later":
        shards.now += given[0] * MILLI
    elif name == "publish":
        shards.publish(given[0], [f"{given[0]}.{token}" for token in given[1]])
    elif name == "create":
        stream, consumer, config = given
        body = {"stream_name": stream, "config": {"durable_name": consumer, **config}}
        shards.request(f"CONSUMER.CREATE.{stream}.{consumer}", body, stream=stream)
    elif name == "command":
        stream, consumer, client, runs, pull = given
        shards.command(stream, consumer, client=client, acks=runs, pull=pull)
    elif name == "hand over":
        stream, consumer, client, *delivery, target = given
        pack = PublishPack(target, "", 0, [f"{target}.x"], [], [], [b"handed over"])
        shards.command(stream, consumer, client=client, hand_over=HandOver(*delivery, [pack.encode()]))
    elif name == "presence":
        shards.presence(given[0], *given[1], leaving=given[2])
    elif name == "call":
        shards.request(f"{given[0]}.{given[1]}.{given[2]}", stream=given[1])
    elif name == "purge":
        shards.request(f"STREAM.PURGE.{given[0]}")
    elif name == "remove":
        shards.request(f"STREAM.MSG.DELETE.{given[0]}", {"seq": given[1]})
    else:
        shards.record(0, given[1], given[0])


def told(shards: Shards) -> dict[str, list[Lease]]:
    """What clients were given, without the places in the log, which differ with what was aborted between."""
    return {
        client: [
            lease._replace(offsets=[], subjects=[], headers=[], payloads=[], times=[]) for lease in leases
        ]
        for client, leases in shards.leases.items()
        if leases
    }


def infos(shards: Shards) -> list[Any]:
    asked = [
        shards.request(f"CONSUMER.INFO.{stream}.{name}", stream=stream)
        for stream in "AB"
        for name in CONSUMERS
    ]
    shards.settle()
    return [shards.answer(request) for request in asked]


TWO_PULLS_THAT_END_TOGETHER: list[tuple[Any, ...]] = [
    ("publish", "A", ["x"]),
    ("purge", "A"),
    ("publish", "A", ["x"]),
    ("command", "A", "two", "bob", [], Pull(2, batch=4, expires=1_000 * MILLI)),
    ("publish", "A", ["x"]),
    ("publish", "A", ["x"]),
    ("command", "A", "two", "bob", [], Pull(1, batch=1, expires=1_000 * MILLI)),
    ("later", 1_100),
]


@settings(max_examples=80)
@given(
    st.lists(commands, max_size=30),
    st.lists(st.sampled_from(["commit", "abort", "abort twice"]), min_size=1),
    three,
    st.sampled_from(["limits", "limits", "workqueue", "interest"]),
)
@example(TWO_PULLS_THAT_END_TOGETHER, ["commit", "abort"], [{"ack_policy": "explicit"}] * 3, "limits")
def test_aborted_drains_leave_no_trace(
    history: list[tuple[Any, ...]], fates: list[str], consumers: list[dict[str, Any]], retention: str
) -> None:
    calm, rough = two_streams(consumers, retention=retention), two_streams(consumers, retention=retention)
    for number, (name, *arguments) in enumerate(history):
        for shards in (calm, rough):
            send(shards, name, *arguments)
        fate = fates[number % len(fates)]
        for partition in range(calm.partitions):
            for _ in range({"commit": 0, "abort": 1, "abort twice": 2}[fate]):
                rough.step(partition, abort=True)
            for shards in (calm, rough):
                shards.step(partition)
    for shards in (calm, rough):
        shards.settle()
        shards.now += 40 * SECOND  # no timer was lost either
        shards.settle()
    assert rough.snapshot() == calm.snapshot()
    assert told(rough) == told(calm)
    assert infos(rough) == infos(calm)
    assert rough.answers.keys() == calm.answers.keys()
    assert [one.reason for one in rough.rejected] == [one.reason for one in calm.rejected]


@settings(max_examples=50)
@given(st.lists(commands, max_size=30), three, st.integers(1, 9))
def test_a_new_owner_knows_what_is_durable(
    history: list[tuple[Any, ...]], consumers: list[dict[str, Any]], every: int
) -> None:
    """Everything but who waits and listens; and it goes on working."""
    shards = two_streams(consumers)
    for number, (name, *arguments) in enumerate(history, 1):
        send(shards, name, *arguments)
        shards.settle()
        if number % every == 0:
            before = infos(shards)
            for partition in range(shards.partitions):
                shards.restart(partition)
            for one, other in zip(before, infos(shards), strict=True):
                if "error" not in one:
                    assert other == {**one, "num_waiting": 0, "push_bound": False}
    assert not [one.reason for one in shards.rejected if "not a " not in one.reason]


# ------------------------------------------------------------ leases


def lone(config: dict[str, Any], **fields: Any) -> Shards:
    """One shard, with a stream A and its consumer ``c``."""
    shards = Shards(partitions=1)
    shards.request("STREAM.CREATE.A", {"name": "A", "subjects": ["A.*"], **fields})
    shards.settle()
    send(shards, "create", "A", "c", {"ack_policy": "explicit", **config})
    shards.settle()
    return shards


def pulled(shards: Shards, **fields: Any) -> Lease:
    """What a pull that waits for nobody is given."""
    shards.command("A", "c", client="ann", pull=Pull(**{"id": 1, "batch": 1_000, "no_wait": True, **fields}))
    shards.settle()
    return shards.leases["ann"].pop()


def test_a_lease_at_the_tail_carries_its_messages() -> None:
    shards = lone({})
    shards.command("A", "c", client="ann", pull=Pull(1, 2))
    shards.publish("A", ["A.x"], headers=[[("a", b"b")]], payloads=[b"one"])
    shards.settle()
    (lease,) = shards.leases["ann"]
    assert (lease.subjects, lease.payloads, lease.headers) == (["A.x"], [b"one"], [[("a", b"b")]])
    assert (lease.sequences, lease.counts, lease.consumer_sequences) == ([1], [1], [1])


def test_a_small_lease_is_filled_from_what_is_at_hand_and_a_large_one_is_read() -> None:
    shards = lone({})
    shards.publish("A", ["A.x"] * 200, payloads=[b"%d" % number for number in range(200)])
    shards.settle()
    small = pulled(shards, batch=64)
    assert small.payloads == [b"%d" % number for number in range(64)]
    large = pulled(shards, id=2, batch=65)
    assert not large.payloads
    assert (large.sequences, large.counts) == ([65], [65])
    assert shards.logs[large.topic].payload_of(65, large.offsets[0]) == b"64"
    shards.restart(0)  # nothing is at hand for a new owner
    assert not pulled(shards, id=3, batch=5).payloads


def test_a_sparse_lease_carries_its_messages() -> None:
    shards = lone({"filter_subject": "A.x"})
    for _ in range(100):
        shards.publish("A", ["A.x", *["A.y"] * 3], payloads=[b"wanted", b"", b"", b""])
        shards.settle()
    lease = pulled(shards)
    assert (sum(lease.counts), lease.payloads) == (100, [b"wanted"] * 100)


def test_what_is_removed_by_its_delivery_can_still_be_read() -> None:
    shards = lone({"ack_policy": "none"}, retention="interest")
    shards.publish("A", ["A.x"] * 100, payloads=[b"%d" % number for number in range(100)])
    shards.settle()
    few = pulled(shards, batch=10)
    assert few.payloads == [b"%d" % number for number in range(10)]
    many = pulled(shards, id=2, batch=90)
    assert shards.logs[many.topic].payload_of(11, many.offsets[0]) == b"10"
    assert not shards.snapshot()["A"]["entries"]


def test_more_than_a_drain_gives_out_comes_in_the_next_ones() -> None:
    shards = lone({"max_ack_pending": -1})
    for _ in range(25):
        shards.publish("A", ["A.x"] * 1_000)
    shards.settle()
    shards.command("A", "c", client="ann", pull=Pull(1, 22_000))
    shards.command("A", "c", client="bob", pull=Pull(1, 22_000))
    drain = shards.step(0)
    assert sum(drain.replies["ann"].leases[0].counts) == 10_000
    assert shards.cores[0].next_deadline() == 0
    shards.settle()
    counts = {
        client: sum(sum(one.counts) for one in leases) for client, leases in shards.leases.items() if leases
    }
    assert counts == {"ann": 22_000, "bob": 3_000}


# ------------------------------------------------------------ acknowledgements that come again, or late


def naked(lease: Lease, delay: int = 0) -> AckRun:
    return AckRun("nak", lease.sequences[0], 1, lease.consumer_sequences[0], lease.deliveries[0], delay)


def one_message(**config: Any) -> Shards:
    shards = lone({"ack_wait": 30 * SECOND, **config})
    shards.publish("A", ["A.x"])
    shards.settle()
    return shards


@pytest.mark.rule("ACK-06", "ACK-08")
def test_what_is_said_about_an_older_delivery_does_not_touch_the_newer_one() -> None:
    shards = one_message()
    first = pulled(shards)
    shards.command("A", "c", acks=[naked(first)])
    second = pulled(shards, id=2)
    assert second.deliveries == [2]
    shards.now += 20 * SECOND
    shards.command("A", "c", acks=[naked(first), naked(first)._replace(kind="progress")])  # sent once more
    shards.settle()
    assert pulled(shards, id=3).deliveries == []  # whoever has it is not disturbed
    shards.now += 11 * SECOND
    shards.settle()
    assert pulled(shards, id=4).deliveries == [3]  # and its ack wait was not begun anew


@pytest.mark.rule("ACK-07")
def test_a_delayed_nak_that_comes_twice_delays_once() -> None:
    shards = one_message()
    first = pulled(shards)
    shards.command("A", "c", acks=[naked(first, 10 * SECOND)])
    shards.settle()
    shards.now += 9 * SECOND
    shards.command("A", "c", acks=[naked(first, 10 * SECOND)])
    shards.settle()
    shards.now += SECOND
    shards.settle()
    assert pulled(shards, id=2).deliveries == [2]


@pytest.mark.rule("ACK-15")
def test_a_late_ack_or_term_still_resolves_the_message() -> None:
    for kind in ("ack", "term"):
        shards = one_message()
        first = pulled(shards)
        shards.command("A", "c", acks=[naked(first)])
        assert pulled(shards, id=2).deliveries == [2]
        shards.command("A", "c", acks=[naked(first)._replace(kind=kind)])
        shards.settle()
        shards.now += 31 * SECOND
        shards.settle()
        assert pulled(shards, id=3).deliveries == []


# ------------------------------------------------------------ what changes nothing durable, and bad input


def test_pulls_and_presence_need_no_transaction() -> None:
    shards = lone({})
    shards.presence("ann", ("d", ""))
    shards.command("A", "c", client="ann", pull=Pull(1, 5, expires=2 * SECOND, heartbeat=SECOND))
    shards.command("A", "c", client="ann", pull=Pull(2, 5, expires=SECOND))
    assert shards.step(0).only_answers
    shards.now += SECOND
    told = shards.step(0)
    assert told.only_answers
    assert {lease.status for lease in told.replies["ann"].leases} == {100, 408}


def test_a_command_that_cannot_be_applied_is_answered() -> None:
    shards = lone({})
    shards.command("A", "c", request=77, pull=Pull(5, 1))
    shards.refuse(0, "a defect")
    (lease,) = shards.leases["client"]
    assert (lease.pull, lease.done, lease.status) == (5, True, 503)
    assert shards.answer(77)["error"]["code"] == 503


def test_a_consumer_that_does_not_live_is_told() -> None:
    shards = lone({})
    shards.command("A", "c", number=9, request=50, pull=Pull(6, 1))
    shards.command("A", "nobody", request=51, acks=[AckRun("ack", 1, 1, 1, 1)])
    shards.command("Z", "c", incarnation=3, pull=Pull(7, 1))
    shards.settle()
    assert [lease.pull for lease in shards.leases["client"] if lease.description == "Consumer Deleted"] == [
        6,
        7,
    ]
    assert {shards.answer(number)["error"]["err_code"] for number in (50, 51)} == {10014}


@pytest.mark.rule("ACK-17")
def test_an_acknowledgement_of_what_was_not_delivered_is_not_confirmed() -> None:
    shards = lone({})
    shards.publish("A", ["A.x"] * 3)
    shards.settle()
    pulled(shards, batch=2)
    shards.command("A", "c", request=60, acks=[AckRun("ack", 3, 1, 3, 1)])
    shards.command("A", "c", request=61, acks=[AckRun("ack", 1, 2**31 - 1, 1, 1)])
    shards.command("A", "c", request=62, acks=[AckRun("ack", -(2**62), 5, 1, 1)])
    shards.command("A", "c", request=63, acks=[AckRun("ack", 1, 2, 1, 1)])
    shards.settle()
    assert [number for number in (60, 61, 62, 63) if number in shards.answers] == [63]


numbers = st.sampled_from([-(2**63), -1, 0, 1, 2, 3, 2**31 - 1, 2**40, 2**63 - 1])
small = st.sampled_from([-(2**31), -1, 0, 1, 2, 5, 2**31 - 1])


@settings(max_examples=50)
@given(
    st.lists(
        st.builds(
            ConsumerCommand,
            st.just("A"),
            st.sampled_from([0, 0, 1, -1]),
            st.just("c"),
            st.sampled_from([0, 0, 1, 7]),
            st.sampled_from(["", "ann"]),
            numbers,
            st.lists(
                st.builds(
                    AckRun,
                    st.sampled_from(["ack", "nak", "progress", "term", "back"]),
                    numbers,
                    small,
                    numbers,
                    small,
                    numbers,
                ),
                max_size=3,
            ),
            st.none() | st.builds(Pull, numbers, small, numbers, numbers, st.booleans(), numbers, numbers),
            st.lists(numbers, max_size=2),
            st.none() | st.builds(HandOver, numbers, numbers, small, st.lists(st.binary(), max_size=2)),
        ),
        max_size=6,
    ),
    configs,
)
def test_forged_numbers_stop_nothing(forged: list[ConsumerCommand], config: dict[str, Any]) -> None:
    shards = lone(config)
    shards.publish("A", ["A.x"] * 4)
    for command in forged:
        shards.record(0, command.encode(), "consume")
        shards.settle()
    shards.now += 400 * SECOND
    shards.settle()
    shards.restart(0)
    shards.publish("A", ["A.x"])
    info = shards.request("CONSUMER.INFO.A.c", stream="A")
    shards.settle()
    # There is no stream B for the dead letters of one of the configurations.
    assert not [one.reason for one in shards.rejected if not one.reason.startswith("a dead letter for B")]
    assert shards.answer(info).get("num_pending", 0) <= 5


@pytest.mark.rule("CON-03", "CON-05")
def test_a_pull_is_a_use_until_it_ends() -> None:
    """Also one that ends in the very moment in which the consumer would have been unused for too long."""
    shards = Shards(partitions=1)
    shards.request("STREAM.CREATE.A", {"name": "A", "subjects": ["A.*"]})
    shards.settle()
    config = {"name": "C", "ack_policy": "explicit", "inactive_threshold": 4 * SECOND}
    shards.request("CONSUMER.CREATE.A.C", {"stream_name": "A", "config": config}, stream="A")
    shards.command("A", "C", pull=Pull(1, expires=4 * SECOND))
    shards.settle()
    found = []
    for _ in range(3):
        shards.now += 3 * SECOND
        shards.settle()
        asked = shards.request("CONSUMER.INFO.A.C", stream="A")
        shards.settle()
        found.append("error" not in shards.answer(asked))
    assert found == [True, True, False]
