"""Sources between shards: drains that are aborted, owners that change, upstreams that come and go; nothing twice, nothing lost."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.protocol import avro as wire
from railgun.protocol.commands import Forward, Pull
from railgun.protocol.routing import partition_of
from railgun.protocol.sourcing import SOURCED, SourceCommand, SourceLease
from railgun.semantics.streams.publishing.totals import CounterTotal
from railgun.semantics.streams.sourcing import ledger
from railgun.shard.consumers import delivering, feeding
from railgun.shard.consumers.feeding import Feeding
from railgun.shard.streams.sourcing import LEDGER_BYTES, Sourcing
from railgun.state import keys
from tests.support.copying_shards import PARTITIONS, SECOND, Cluster
from tests.support.shards import NAMES


def test_a_drain_that_is_aborted_copies_nothing() -> None:
    shards = Cluster()
    shards.make("A")
    shards.make("B", {"name": "A"})
    for number in range(5):
        shards.publish("A", ["A.x"], payloads=[b"%d" % number])
    home = partition_of("B", PARTITIONS)
    for _ in range(30):
        for partition in range(PARTITIONS):
            shards.step(partition, 1, abort=True)
            shards.step(partition, 1)
    shards.settle()
    assert shards.texts("B") == [b"0", b"1", b"2", b"3", b"4"]
    assert shards.state("B").origins.get("A").position == 5
    shards.restart(home)
    shards.settle()
    assert shards.texts("B") == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.rule("SRC-07")
def test_a_new_owner_asks_again_and_gets_nothing_twice() -> None:
    shards = Cluster()
    shards.make("A")
    shards.make("B", {"name": "A"})
    sent = [b"%d" % number for number in range(50)]
    for number, text in enumerate(sent):
        shards.publish("A", ["A.x"], payloads=[text])
        shards.step(partition_of("A", PARTITIONS))
        if number % 7 == 0:
            shards.restart(partition_of("B", PARTITIONS))
        if number % 11 == 0:
            shards.restart(partition_of("A", PARTITIONS))
        if number % 3 == 0:
            shards.step(partition_of("B", PARTITIONS), 1)
    shards.rest()
    assert shards.texts("B") == sent


@pytest.mark.parametrize("field", ["session", "position", "copied"])
def test_an_origin_with_a_number_that_is_none_sets_its_stream_aside_and_no_other(field: str) -> None:
    """A new owner asks under the next session: where that is no number, it would fail with every drain of the shard."""
    shards = Cluster()
    shards.make("A")
    shards.make("B", {"name": "A"})
    shards.rest()
    home = partition_of("B", PARTITIONS)
    ((key, value),) = shards.tables[home].scan(keys.ORIGIN)
    damaged = wire.decode("origin_record", value) | {field: 2**63 - 1}
    shards.tables[home].apply({key: wire.encode("origin_record", damaged)})
    shards.restart(home)
    shards.settle()
    assert list(shards.cores[home].unreadable()) == ["the stream B"]
    stored = shards.publish("A", ["A.x"])
    shards.settle()
    assert shards.outcomes[stored] == 1


@pytest.mark.rule("MIR-01")
@pytest.mark.parametrize(
    "fields",
    [
        {"sequences": [5, 1]},
        {"sequences": [1, 1]},
        {
            "sequences": [1, 2],
            "counts": [2, 1],
            "subjects": ["A.x"] * 3,
            "payloads": [b""] * 3,
            "times": [1] * 3,
        },
        {"times": [1, 2**63 - 1]},
        {"times": [-1, 1]},
        {"size": 2**62},
    ],
    ids=["descending", "twice", "overlapping", "late", "early", "large"],
)
def test_a_lease_that_no_upstream_sends_is_rejected(fields: dict[str, Any]) -> None:
    """Its columns fit together. A mirror would write sequences twice or out of order, or a time that no table takes back."""
    shards = Cluster()
    shards.make("A")
    shards.make("B", subjects=[], mirror={"name": "A"})
    shards.rest()
    state = shards.state("B")
    ((key, origin),) = state.origins
    lease = SourceLease("A", origin.incarnation, "B", state.incarnation, key, origin.session)
    usual = {
        "sequences": [1, 2],
        "counts": [1, 1],
        "subjects": ["A.x"] * 2,
        "payloads": [b""] * 2,
        "times": [1, 1],
    }
    forged = lease._replace(**(usual | {"reached": 9} | fields)).encode()
    home = partition_of("B", PARTITIONS)
    forward = Forward(0, "command", "B", state.incarnation, command_kind=SOURCED, command=forged)
    shards.record(home, forward.encode(), forwarded=True)
    shards.settle()
    (rejected,) = shards.rejected
    assert rejected.reason == "not a source_lease: there are no such messages"
    shards.publish("A", ["A.x"], payloads=[b"true"])
    shards.rest()
    shards.restart(home)
    shards.settle()
    assert shards.texts("B") == [b"true"]


def test_no_more_is_under_way_than_the_window_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "UNDER_WAY", 10_000)
    monkeypatch.setattr(feeding, "LEASE_BYTES", 3_000)
    shards = Cluster()
    shards.make("A")
    shards.make("B", {"name": "A"})
    for number in range(40):
        shards.publish("A", ["A.x"], payloads=[b"%04d" % number * 250])
    while shards.inboxes[partition_of("A", PARTITIONS)]:
        shards.step(partition_of("A", PARTITIONS))
    waiting = [one.value or b"" for one in shards.inboxes[partition_of("B", PARTITIONS)]]
    if partition_of("A", PARTITIONS) != partition_of("B", PARTITIONS):
        assert sum(map(len, waiting)) < 14_000
    shards.settle()
    assert len(shards.texts("B")) < 40  # the upstream waits for a word
    shards.rest()
    assert shards.texts("B") == [b"%04d" % number * 250 for number in range(40)]


def test_one_drain_does_not_look_through_a_long_stream_for_each_of_many_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = 0
    general = Feeding.serve

    def serve(self: Feeding, *given: Any) -> tuple[int, bool]:
        nonlocal served
        served += 1
        return general(self, *given)

    monkeypatch.setattr(Feeding, "serve", serve)
    monkeypatch.setattr(delivering, "OF_ALL", 250)
    shards = Cluster()
    shards.make("A")
    most = 0
    for _ in range(50):  # a block each
        shards.publish("A", ["A.x.0"])
        shards.settle()
    narrow = [{"name": "A", "filter_subject": f"A.*.{number}"} for number in range(20)]
    shards.request("STREAM.CREATE.B", {"name": "B", "sources": narrow})
    for _ in range(100):
        before = served
        for partition in range(PARTITIONS):
            shards.step(partition)
        most = max(most, served - before)
    assert served >= 20
    assert most < 5
    shards.publish("A", ["A.y.19"], payloads=[b"found"])
    shards.rest()
    assert shards.texts("B") == [b"x"] * 50 + [b"found"]


def test_sources_that_look_through_a_long_stream_hold_no_consumer_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivering, "OF_ALL", 500)
    shards = Cluster()
    shards.make("A")
    home = partition_of("A", PARTITIONS)
    for _ in range(50):  # a block each
        shards.publish("A", ["A.x.0"])
        shards.settle()
    config = {"durable_name": "W", "ack_policy": "explicit", "deliver_policy": "new"}
    shards.request("CONSUMER.CREATE.A.W", {"stream_name": "A", "config": config}, stream="A")
    shards.settle()
    shards.command("A", "W", pull=Pull(1, batch=1, expires=SECOND))
    narrow = [{"name": "A", "filter_subject": f"A.*.{number}"} for number in range(1, 40)]
    shards.request("STREAM.CREATE.B", {"name": "B", "sources": narrow})
    while not shards.cores[home]._consumers._demand.postponed:
        for partition in range(PARTITIONS):
            shards.step(partition)
    shards.publish("A", ["A.x.0"], payloads=[b"new"])
    shards.step(home)
    assert shards.cores[home]._consumers._demand.postponed
    (lease,) = [one for one in shards.leases["client"] if one.sequences]
    assert lease.payloads == [b"new"]


FULL = {
    "messages": {"max_msgs": 4},
    "bytes": {"max_bytes": 400},
    "subjects": {"max_msgs_per_subject": 1, "discard_new_per_subject": True},
    "messages and subjects": {"max_msgs": 4, "max_msgs_per_subject": 1, "discard_new_per_subject": True},
}


@pytest.mark.rule("SRC-09")
@pytest.mark.parametrize("limits", FULL.values(), ids=FULL)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_full_stream_asks_its_sources_in_turn(
    limits: dict[str, Any], restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is copied without a look at the time, and no more is asked than there is room for; nothing is asked for ever."""
    asked = 0
    general = Sourcing._attach

    def attach(self: Sourcing, *given: Any) -> None:
        nonlocal asked
        asked += 1
        general(self, *given)

    monkeypatch.setattr(Sourcing, "_attach", attach)
    shards, names = Cluster(), [f"U{number}" for number in range(12)]
    for name in names:
        shards.make(name)
        shards.publish(name, [f"{name}.x"] * 3, payloads=[f"{name} {number}".encode() for number in range(3)])
    shards.make("T", *({"name": name} for name in names), discard="new", **limits)
    home, copied, most = partition_of("T", PARTITIONS), list[bytes](), 0
    for number in range(36):
        before = asked
        state = shards.state("T")
        sequence = [*state.iterate()][number % state.messages].sequence
        copied.append(shards.read("T", sequence) or b"")
        shards.request("STREAM.MSG.DELETE.T", {"seq": sequence})
        shards.step(home, abort=restarts)
        shards.settle()
        most = max(most, asked - before)
        if restarts and number % 9 == 4:
            shards.restart(home)
            shards.settle()
    assert sorted(copied) == sorted(f"{name} {number}".encode() for name in names for number in range(3))
    assert shards.state("T").messages == 0
    assert most <= (4 if "discard_new_per_subject" not in limits else 12 * (1 + restarts))


def test_messages_that_are_not_at_hand_are_read_from_the_log() -> None:
    shards = Cluster()
    shards.make("A")
    for number in range(20):
        shards.publish("A", ["A.x"], payloads=[b"%d" % number], headers=[[("n", b"%d" % number)]])
        shards.settle()
    shards.restart(partition_of("A", PARTITIONS))  # what it had in memory is gone
    shards.make("B", {"name": "A"})
    shards.rest()
    assert shards.texts("B") == [b"%d" % number for number in range(20)]
    topic = NAMES.log("B")
    assert [shards.written[topic, number + 1].headers[0] for number in range(20)] == [
        ("n", b"%d" % number) for number in range(20)
    ]


def test_one_lease_has_messages_of_the_log_and_of_the_drain_that_runs() -> None:
    """No log has the latter yet: to wait for them there would be to wait for ever."""
    shards = Cluster()
    shards.make("A")
    shards.publish("A", ["A.x"] * 3, payloads=[b"0", b"1", b"2"])
    shards.settle()
    home = partition_of("A", PARTITIONS)
    shards.restart(home)  # what it had in memory is gone
    shards.publish("A", ["A.x"] * 2, payloads=[b"3", b"4"])
    attach = SourceCommand("attach", "A", 0, "B", 5, "A", 1)
    forward = feeding.Forward(0, "command", "A", command_kind="source", command=attach.encode())
    shards.record(home, forward.encode(), forwarded=True)
    drain = shards.step(home)
    leases = [SourceLease.decode(feeding.Forward.decode(data).command) for _, data in drain.sent]
    assert [text for lease in leases for text in lease.payloads] == [b"0", b"1", b"2", b"3", b"4"]
    assert not any(lease.missing for lease in leases)


def test_what_the_log_has_lost_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = Cluster()
    shards.make("A")
    shards.publish("A", ["A.x"] * 3, payloads=[b"0", b"1", b"2"])
    shards.settle()
    shards.logs[NAMES.log("A")].records = {
        at: one for at, one in shards.logs[NAMES.log("A")].records.items() if one[1] != 2
    }
    shards.restart(partition_of("A", PARTITIONS))
    shards.make("B", {"name": "A"})
    shards.rest()
    assert shards.texts("B") == [b"0", b"2"]
    (told,) = shards.ask("STREAM.INFO.B")["sources"]
    assert "1 messages could not be read" in told["error"]["description"]


def test_leases_of_another_session_are_void() -> None:
    shards = Cluster()
    shards.make("A")
    shards.make("B", {"name": "A"})
    shards.publish("A", ["A.x"], payloads=[b"0"])
    shards.settle()
    origin, state = shards.state("B").origins.get("A"), shards.state("B")
    home = partition_of("B", PARTITIONS)
    for session, incarnation in ((origin.session - 1, state.incarnation), (origin.session, 99)):
        lease = SourceLease(
            "A", origin.incarnation, "B", incarnation, "A", session,
            [2], [1], ["A.x"], [], [b"void"], [1], 1, 2, 10,
        )  # fmt: skip
        sent = feeding.Forward(0, "command", "B", command_kind="sourced", command=lease.encode())
        shards.record(home, sent.encode(), forwarded=True)
    shards.settle()
    assert shards.texts("B") == [b"0"]


def test_garbage_between_shards_is_rejected() -> None:
    shards = Cluster()
    shards.make("A")
    good = SourceLease("A", 1, "B", 1, "A", 1, [1], [1], ["A.x"], [], [b"x"], [1]).encode()
    for kind in ("source", "sourced"):
        for command in (b"", b"\xff" * 40, good[:-3], good + b"\0"):
            forward = feeding.Forward(0, "command", "A", command_kind=kind, command=command)
            shards.record(0, forward.encode(), forwarded=True)
    strange = SourceLease("A", 1, "A", 1, "A", 1, [0], [1], ["A.x"], [], [b"x"], [1])
    shards.record(
        0,
        feeding.Forward(0, "command", "A", command_kind="sourced", command=strange.encode()).encode(),
        forwarded=True,
    )
    place = SourceLease("A", 1, "A", 1, "A", 1, reached=2**63 - 1)
    odd = [
        SourceCommand("attach", "A", 0, "B", 5, "A", 1, 2**63 - 1),
        SourceCommand("attach", "A", 0, "B", 5, "A", 1, start_time="yesterday"),
    ]
    for kind, command in (("sourced", place.encode()), *(("source", one.encode()) for one in odd)):
        sent = feeding.Forward(0, "command", "A", command_kind=kind, command=command)
        shards.record(0, sent.encode(), forwarded=True)
    shards.settle()
    assert len(shards.rejected) == 12


def test_a_stream_that_is_gone_ends_its_sources() -> None:
    """The hidden consumer of the upstream goes, so a work queue can be emptied by others again."""
    shards = Cluster()
    shards.make("A", retention="workqueue")
    shards.make("B", {"name": "A"})
    assert len(shards.state("A").consumers) == 1
    shards.ask("STREAM.DELETE.B")
    assert len(shards.state("A").consumers) == 0
    assert not [key for key, _ in shards.tables[partition_of("A", PARTITIONS)].scan(b"f")]
    assert not [key for key, _ in shards.tables[partition_of("B", PARTITIONS)].scan(b"l")]


def test_attaching_to_a_stream_of_another_incarnation_is_refused() -> None:
    shards = Cluster()
    shards.make("A")
    home = partition_of("A", PARTITIONS)
    command = SourceCommand("attach", "A", 77, "B", 5, "A", 1, 9)
    forward = feeding.Forward(0, "command", "A", command_kind="source", command=command.encode())
    shards.record(home, forward.encode(), forwarded=True)
    drain = shards.step(home)
    (sent,) = [feeding.Forward.decode(data) for _, data in drain.sent]
    lease = SourceLease.decode(sent.command)
    assert (lease.code, lease.upstream_incarnation) == (410, shards.state("A").incarnation)
    assert len(shards.state("A").consumers) == 0


# -- trees of counters


class Node(NamedTuple):
    """A stream of counters, and the earlier streams that it adds up; all subjects of an upstream become one, or stay two."""

    upstreams: tuple[int, ...]
    joined: bool


class Act(NamedTuple):
    kind: str
    where: int
    amount: int


@st.composite
def trees(draw: st.DrawFn) -> list[Node]:
    nodes: list[Node] = []
    for number in range(draw(st.integers(2, 5))):
        upstreams = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        nodes.append(Node(tuple(sorted(upstreams)), draw(st.booleans())))
    return nodes


acts = st.builds(
    Act,
    st.sampled_from(["add", "add", "add", "add", "step", "step", "abort", "restart", "batch", "wait"]),
    st.integers(0, 9),
    st.integers(-5, 9),
)


@pytest.mark.rule("CTR-18", "CTR-26", "CTR-28", "SRC-07")
@settings(max_examples=60, deadline=None)
@given(nodes=trees(), history=st.lists(acts, max_size=60))
def test_any_interleaving_over_any_tree_gives_the_same_totals(nodes: list[Node], history: list[Act]) -> None:
    shards = Cluster()
    local: dict[tuple[int, str], int] = {}
    for number, node in enumerate(nodes):
        sources = [_source(upstream, number, node) for upstream in node.upstreams]
        shards.make(f"S{number}", *sources, allow_msg_counter=True, allow_atomic=True)
    for act in history:
        _play(act, shards, len(nodes), local)
    shards.rest()
    for number in range(len(nodes)):
        expected = _totals(number, nodes, local)
        state = shards.state(f"S{number}")
        for subject, total in expected.items():
            entry = state.totals.get(subject)
            assert (0 if entry is None else entry.total) == total, (number, subject)
            assert shards.increments(f"S{number}", subject) == total


def _source(upstream: int, number: int, node: Node) -> dict[str, Any]:
    if node.joined:
        transforms = [{"src": f"S{upstream}.*", "dest": f"S{number}.a"}]
    else:
        transforms = [{"src": f"S{upstream}.*", "dest": f"S{number}.{{{{wildcard(1)}}}}"}]
    return {"name": f"S{upstream}", "subject_transforms": transforms}


def _play(act: Act, shards: Cluster, streams: int, local: dict[tuple[int, str], int]) -> None:
    number, partition = act.where % streams, act.where % PARTITIONS
    name, token = f"S{number}", "ab"[act.where % 2]
    subject = f"{name}.{token}"
    if act.kind in ("add", "batch"):
        local[number, subject] = local.get((number, subject), 0) + act.amount
        headers = [(h.INCREMENT, b"%+d" % act.amount)]
        if act.kind == "batch":
            headers += [
                (h.BATCH_ID, b"%d" % len(shards.drains)),
                (h.BATCH_SEQUENCE, b"1"),
                (h.BATCH_COMMIT, b"1"),
            ]
        shards.publish(name, [subject], headers=[headers], payloads=[b""])
    elif act.kind == "restart":
        shards.restart(partition)
    elif act.kind == "wait":
        shards.now += 3 * SECOND
    else:
        shards.step(partition, 1 + act.amount % 4, abort=act.kind == "abort")


def _totals(number: int, nodes: list[Node], local: dict[tuple[int, str], int]) -> dict[str, int]:
    """What each counter of a stream must be: its own increments, and the totals of those that it adds up."""
    found = {f"S{number}.{token}": local.get((number, f"S{number}.{token}"), 0) for token in "ab"}
    for upstream in nodes[number].upstreams:
        for subject, total in _totals(upstream, nodes, local).items():
            token = "a" if nodes[number].joined else subject.rpartition(".")[2]
            found[f"S{number}.{token}"] += total
    return found


def test_the_ledger_is_json_as_nats_writes_it() -> None:
    shards = Cluster()
    shards.make("A", allow_msg_counter=True)
    transforms = [{"src": "A.*", "dest": "B.sum"}]
    shards.make("B", {"name": "A", "subject_transforms": transforms}, allow_msg_counter=True)
    shards.publish("A", ["A.x"], headers=[[(h.INCREMENT, b"5")]], payloads=[b""])
    shards.settle()
    message = shards.written[NAMES.log("B"), 1]
    assert json.loads(h.first(message.headers, h.COUNTER_SOURCES) or b"") == {"A": {"A.x": "5"}}
    assert message.payload == b'{"val":"5"}'


@pytest.mark.rule("CTR-16", "CTR-26", "CTR-31")
@pytest.mark.parametrize("together", [False, True])
def test_a_sum_that_is_rolled_up_begins_with_an_empty_ledger(together: bool) -> None:
    """Whether its next increment comes in the same batch or by itself."""
    shards = Cluster()
    shards.make("A", allow_msg_counter=True)
    transforms = [{"src": "A.*", "dest": "B.sum"}]
    options = {"allow_msg_counter": True, "allow_atomic": True, "allow_rollup_hdrs": True}
    shards.make("B", {"name": "A", "subject_transforms": transforms}, **options)

    def add(stream: str, subject: str, number: int) -> None:
        shards.publish(stream, [subject], headers=[[(h.INCREMENT, b"%d" % number)]], payloads=[b""])
        shards.settle()

    add("A", "A.x", 10)
    sent = [[(h.ROLLUP, b"all")], [(h.INCREMENT, b"1")]]
    if together:
        for number, given in enumerate(sent, 1):
            given += [(h.BATCH_ID, b"X"), (h.BATCH_SEQUENCE, b"%d" % number)]
        sent[-1].append((h.BATCH_COMMIT, b"1"))
    shards.publish("B", ["B.other", "B.sum"], headers=sent, payloads=[b"x", b""])
    shards.settle()
    assert shards.state("B").totals.get("B.sum") == CounterTotal(3, 1)
    add("A", "A.x", 1)
    total = shards.state("B").totals.get("B.sum")
    assert total is not None
    assert total.total == 12


def test_a_lease_that_was_rejected_is_asked_for_again() -> None:
    """A driver refuses an input that it cannot apply: what follows it must not be copied without it."""
    shards = Cluster()
    shards.make("A")
    copy = next(name for name in "BCDEFG" if partition_of(name, PARTITIONS) != partition_of("A", PARTITIONS))
    shards.make(copy, {"name": "A"})
    home, there = partition_of("A", PARTITIONS), partition_of(copy, PARTITIONS)
    for text in (b"0", b"1", b"2"):
        shards.publish("A", ["A.x"], payloads=[text])
        shards.step(home)
    shards.step(there, 1)
    shards.refuse(there, "cannot be applied")
    shards.settle()
    assert shards.texts(copy) == [b"0"]
    (told,) = shards.ask(f"STREAM.INFO.{copy}")["sources"]
    assert "asked for again" in told["error"]["description"]
    shards.rest()
    assert shards.texts(copy) == [b"0", b"1", b"2"]
    (told,) = shards.ask(f"STREAM.INFO.{copy}")["sources"]
    assert "error" not in told


@pytest.mark.rule("CTR-26")
def test_a_sum_of_thousands_of_counters_is_added_up_over_several_drains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every copy has the whole ledger: what is copied at once is bounded by what is written, and each drain reads the ledger once."""
    parsed: list[str] = []
    parse = ledger.parse_ledger
    monkeypatch.setattr(ledger, "parse_ledger", lambda text: parsed.append(text) or parse(text))
    shards = Cluster()
    shards.make("A", allow_msg_counter=True)
    shards.make(
        "M",
        {"name": "A", "subject_transforms": [{"src": "A.*", "dest": "M.sum"}]},
        allow_msg_counter=True,
    )
    count = 1_500
    headers = [[(h.INCREMENT, b"+1")]] * count
    shards.publish("A", [f"A.{number}" for number in range(count)], headers=headers, payloads=[b""] * count)
    shards.settle()
    assert shards.state("M").totals.get("M.sum").total == shards.increments("M", "M.sum") == count
    written = [
        sum(
            len(h.first(given, h.COUNTER_SOURCES) or b"")
            for append in drain.appends.values()
            for given in append.headers
        )
        for drain in shards.drains
    ]
    assert sum(written) > LEDGER_BYTES > max(written) - h.MAX_HEADER_BYTES
    assert len(parsed) < 20
    ((_, origin),) = shards.state("M").origins
    assert (origin.position, origin.lag, origin.waits, origin.error) == (count, 0, False, None)
