"""The core of a shard: drains that are aborted, loaded again or cut elsewhere end the same; bad input stops nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.protocol import avro as wire
from railgun.protocol.commands import ApiRequest, Forward, PublishPack
from railgun.protocol.replies import Frame
from railgun.protocol.routing import partition_of
from railgun.semantics.messages.recent import RecentMessages
from railgun.shard.streams import owned as ownership
from railgun.state import keys
from tests.support.shards import MILLI, NAMES, Shards
from tests.support.tight_memory import tight_memory

STREAMS = ("A", "B", "C")
SECOND = 1_000_000_000


def config(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "subjects": [f"{name}.*"], **fields}


def shards_with(*names: str, **fields: Any) -> Shards:
    shards = Shards()
    for name in names:
        shards.request(f"STREAM.CREATE.{name}", config(name, **fields))
    shards.settle()
    return shards


# ------------------------------------------------------------ histories

variants = st.sampled_from(
    [
        {},
        {},
        {"max_msgs": 3},
        {"max_bytes": 200, "discard": "new"},
        {"max_msgs_per_subject": 1},
        {"max_msgs_per_subject": 2, "allow_rollup_hdrs": True},
        {"allow_direct": True},
        {"max_age": 5 * SECOND},
        {"max_age": 5 * SECOND, "subject_delete_marker_ttl": 2 * SECOND},
        {"allow_msg_ttl": True, "duplicate_window": 3 * SECOND},
        {"storage": "memory"},
        {"no_ack": True},
        {"first_seq": 10},
    ]
)
streams = st.sampled_from(STREAMS)
messages = st.lists(
    st.tuples(
        st.sampled_from(["x", "y", "z"]),
        st.sampled_from(["", "", "1", "2", "3"]),
        st.sampled_from(
            [[], [], [], [(h.TTL, b"3")], [(h.ROLLUP, b"sub")], [(h.EXPECTED_LAST_SEQUENCE, b"2")]]
        ),
        st.binary(max_size=12),
    ),
    min_size=1,
    max_size=5,
)
commands = st.one_of(
    st.tuples(st.just("create"), streams, variants),
    st.tuples(st.just("publish"), streams, messages),
    st.tuples(st.just("publish"), streams, messages),
    st.tuples(st.just("publish"), streams, messages),
    st.tuples(st.just("update"), streams, variants),
    st.tuples(st.just("delete"), streams),
    st.tuples(st.just("purge"), streams, st.sampled_from([{}, {"keep": 2}, {"seq": 4}, {"filter": "*.x"}])),
    st.tuples(st.just("remove"), streams, st.integers(1, 12)),
    st.tuples(st.just("get"), streams, st.integers(1, 12)),
    st.tuples(st.just("info"), streams),
    st.tuples(st.just("garbage"), st.binary(max_size=30)),
    st.tuples(st.just("later"), st.sampled_from([1, 500, 2_000, 6_000])),
)


def send(shards: Shards, name: str, *arguments: Any) -> None:
    if name == "later":
        shards.now += arguments[0] * MILLI
    elif name == "garbage":
        shards.record(0, arguments[0], "pack")
    elif name == "publish":
        stream, sent = arguments
        subjects, ids, headers, payloads = ([one[column] for one in sent] for column in range(4))
        shards.publish(
            stream,
            [f"{stream}.{subject}" for subject in subjects],
            ids=ids if any(ids) else [],
            headers=headers if any(headers) else [],
            payloads=payloads,
        )
    elif name == "create":
        shards.request(f"STREAM.CREATE.{arguments[0]}", config(arguments[0], **arguments[1]))
    elif name == "update":
        shards.request(f"STREAM.UPDATE.{arguments[0]}", config(arguments[0], **arguments[1]))
    else:
        api = {
            "delete": "STREAM.DELETE",
            "purge": "STREAM.PURGE",
            "remove": "STREAM.MSG.DELETE",
            "get": "STREAM.MSG.GET",
            "info": "STREAM.INFO",
        }[name]
        body: dict[str, Any] = {}
        if len(arguments) > 1:
            body = arguments[1] if isinstance(arguments[1], dict) else {"seq": arguments[1]}
        shards.request(f"{api}.{arguments[0]}", body)


def answered(shards: Shards) -> dict[int, Any]:
    """What clients were told. Of a message only its sequence: a new owner sends its readers to the log for it."""
    frames = {request: [_told(frame) for frame in answer] for request, answer in shards.answers.items()}
    return {**shards.outcomes, **frames}


def _told(frame: Frame) -> Any:
    if frame.located is not None:
        return frame.located.sequence
    body = json.loads(frame.body)
    return body["message"]["seq"] if "message" in body else (frame.headers, body)


def check_readable(shards: Shards) -> None:
    for stream, seen in shards.snapshot().items():
        if stream != "names":
            assert None not in seen["payloads"].values(), f"a message of {stream} is not where its owner says"
    for core in shards.cores:
        assert core._streams.stored_bytes == sum(state.bytes for state in core._streams)


# ------------------------------------------------------------ aborted, restarted, cut elsewhere


@settings(max_examples=120)
@given(st.lists(commands, max_size=25), st.lists(st.sampled_from(["commit", "abort", "restart"]), min_size=1))
def test_aborted_drains_and_restarts_leave_no_trace(history: list[tuple[Any, ...]], fates: list[str]) -> None:
    check_same(lived(history, fates), lived(history, ["commit"]))


@settings(max_examples=120)
@given(
    st.lists(commands, max_size=25),
    st.lists(st.sampled_from(["commit", "abort", "restart"]), min_size=1),
    st.integers(0, 4),
)
def test_a_shard_that_holds_next_to_nothing_in_memory_decides_the_same(
    history: list[tuple[Any, ...]], fates: list[str], held: int
) -> None:
    calm = lived(history, ["commit"])
    with tight_memory(held):
        check_same(lived(history, fates), calm)


def lived(history: list[tuple[Any, ...]], fates: list[str]) -> Shards:
    shards = Shards()
    for number, (name, *arguments) in enumerate(history):
        send(shards, name, *arguments)
        for partition in range(shards.partitions):
            if fates[number % len(fates)] == "abort":
                shards.step(partition, abort=True)
            elif fates[number % len(fates)] == "restart":
                shards.restart(partition)
            shards.step(partition)
    shards.settle()
    return shards


def check_same(rough: Shards, calm: Shards) -> None:
    assert rough.snapshot() == calm.snapshot()
    assert answered(rough) == answered(calm)
    assert [one.reason for one in rough.rejected] == [one.reason for one in calm.rejected]
    check_readable(rough)


@settings(max_examples=120)
@given(st.lists(commands, max_size=25))
def test_a_core_loaded_from_its_table_equals_the_one_that_ran(history: list[tuple[Any, ...]]) -> None:
    """CLU-13: everything visible is in the records that the drains wrote."""
    shards = Shards()
    for name, *arguments in history:
        send(shards, name, *arguments)
        shards.settle()
        running = shards.snapshot()
        kept, shards.cores = shards.cores, [shards._load(number) for number in range(shards.partitions)]
        assert shards.snapshot() == running
        for core in shards.cores:
            core.apply([], shards.now)  # it knows the time from now on
        assert [core.next_deadline() for core in shards.cores] == [_true_deadline(core) for core in kept]
        shards.cores = kept


def _true_deadline(core: Any) -> int | None:
    """When something expires; the running core may look earlier, never later."""
    due = min((at for state in core._streams if (at := state.expiry.next()) is not None), default=None)
    if due is not None:
        due -= core._clock._shift
        assert core.next_deadline() <= due
    return due


@settings(max_examples=100)
@given(
    st.lists(commands.filter(lambda command: command[0] != "later"), max_size=25),
    st.integers(1, 4),
)
def test_it_does_not_matter_where_drains_are_cut(history: list[tuple[Any, ...]], size: int) -> None:
    whole, cut = Shards(partitions=1), Shards(partitions=1)
    for shards in (whole, cut):
        for name, *arguments in history:
            send(shards, name, *arguments)
            shards.now += MILLI
    whole.settle()
    while cut.inboxes[0] or cut.cores[0].next_deadline() == 0:
        cut.step(0, size)
    assert whole.snapshot()["names"].keys() == cut.snapshot()["names"].keys()
    published = [request for request in whole.outcomes if request in cut.outcomes]
    if not any(name in ("create", "update", "delete") for name, *_ in history[1:]):
        assert whole.snapshot() == cut.snapshot()
        assert answered(whole) == answered(cut)
        assert published == list(whole.outcomes)


@settings(max_examples=60)
@given(st.lists(commands, max_size=15))
def test_records_that_were_decided_are_dropped_when_they_come_again(history: list[tuple[Any, ...]]) -> None:
    """The group's offsets may be older than the table: the cursor knows what was decided."""
    shards = Shards()
    sent: list[list[Any]] = [[], []]
    for name, *arguments in history:
        send(shards, name, *arguments)
    for _ in range(50):
        for partition in range(2):
            sent[partition] += shards.inboxes[partition]
            shards.step(partition)
    before = shards.snapshot(), answered(shards)
    cursors = [core.cursor.commands for core in shards.cores]
    for partition in range(2):
        shards.restart(partition)
        decided = {(one.forwarded, one.offset): one for one in sent[partition]}
        if (
            shards.cores[partition].cursor.commands == cursors[partition]
        ):  # the last drains may have been answers only
            shards.inboxes[partition].extend(decided.values())
            drain = shards.step(partition)
            assert not drain.appends
            assert not drain.replies
    assert (shards.snapshot(), answered(shards)) == before


# ------------------------------------------------------------ bad input

valid_records = st.sampled_from(
    [
        (
            "pack",
            PublishPack("A", "c", 1, ["A.x", "A.y"], ["1", "2"], [[("n", b"v")], []], [b"p", b"q"]).encode(),
        ),
        ("pack", PublishPack("A", "c", 1, ["A.x"], [], [], [b"p"]).encode()),
        (
            "request",
            ApiRequest("c", 1, "STREAM.CREATE.B", "B", [], json.dumps(config("B")).encode()).encode(),
        ),
        (
            "request",
            ApiRequest("c", 2, "STREAM.UPDATE.A", "A", [], json.dumps(config("A")).encode()).encode(),
        ),
        ("request", ApiRequest("c", 3, "STREAM.PURGE.A", "A", [], b'{"seq":2}').encode()),
        ("request", ApiRequest("c", 4, "STREAM.MSG.GET.A", "A", [], b'{"seq":1}').encode()),
        ("request", ApiRequest("c", 5, "CLOCK.ADVANCE", "", [], b'{"nanos":5}').encode()),
        ("request", ApiRequest("c", 6, "DIRECT.GET.A.A.x", "A", [("h", b"v")], b"{}").encode()),
        ("forward", Forward(0, "create", "C", 9, json.dumps(config("C")), "c", 7, 5).encode()),
        ("forward", Forward(0, "update", "A", 1, json.dumps(config("A")), "c", 8, 5).encode()),
        ("forward", Forward(0, "delete", "A", 1, "", "c", 9, 5).encode()),
        ("forward", Forward(0, "released", "A", 1, json.dumps(config("A")), outcome="active").encode()),
    ]
)


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    kind, value = draw(valid_records)
    data = bytearray(value)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        how = draw(st.sampled_from(["flip", "cut", "insert", "drop"]))
        if how == "flip" and data:
            data[at] = draw(st.integers(0, 255))
        elif how == "cut":
            del data[at:]
        elif how == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=4))
        elif data:
            del data[at]
    return kind, bytes(data)


@settings(max_examples=300)
@given(
    st.lists(
        mutated() | st.tuples(st.sampled_from(["pack", "request", "forward", "odd"]), st.binary()), max_size=6
    )
)
def test_bad_records_never_stop_a_shard(records: list[tuple[str, bytes]]) -> None:
    shards = Shards(partitions=1)
    shards.request("STREAM.CREATE.A", config("A"))
    shards.request("STREAM.CREATE.SAFE", config("SAFE"))
    shards.settle()
    for kind, value in records:
        shards.record(0, value, None if kind == "forward" else kind, forwarded=kind == "forward")
    shards.settle()
    first = shards.publish("SAFE", ["SAFE.x"])
    shards.settle()
    assert shards.outcomes[first] == 1
    reasons = {one.source.offset for one in shards.rejected if not one.source.forwarded}
    for offset, (kind, value) in enumerate(records):
        if kind in ("pack", "request") and not _reads(kind, value):
            place = 2 + sum(1 for other, _ in records[:offset] if other != "forward")
            assert place in reasons


def _reads(kind: str, value: bytes) -> bool:
    try:
        PublishPack.decode(value) if kind == "pack" else ApiRequest.decode(value)
    except wire.WireError:
        return False
    return True


@pytest.mark.parametrize(
    "kind, value, headers, key",
    [
        ("pack", None, [], None),
        ("pack", b"", [], None),
        ("request", None, [], None),
        ("nonsense", b"x", [], None),
        ("request", ApiRequest("c", 1, "NO.SUCH.API", "", [], b"").encode(), [], None),
        (None, b"x", [], None),  # a plain publish without key and subject
        (None, b"x", [(h.PLAIN_SUBJECT, b"A.x")], None),
        (None, b"x", [(h.PLAIN_SUBJECT, b"A.x")], b"NOBODY"),
        (None, b"x", [(h.PLAIN_SUBJECT, b"B.x")], b"A"),  # not captured
        (None, b"x", [(h.PLAIN_SUBJECT, b"A.*")], b"A"),
        (None, b"x" * 1_100_000, [(h.PLAIN_SUBJECT, b"A.x")], b"A"),
        (None, b"x", [(h.PLAIN_SUBJECT, b"A.x"), ("big", b"x" * 70_000)], b"A"),
        (None, b"x", [(h.PLAIN_SUBJECT, b"A.x"), (h.TTL, b"5")], b"A"),
        (None, b"x", [(h.PLAIN_SUBJECT, b"A.x"), (h.EXPECTED_LAST_SEQUENCE, b"9")], b"A"),
    ],
)
def test_what_cannot_be_read_or_applied_is_kept_with_its_reason(
    kind: str | None, value: bytes | None, headers: h.Headers, key: bytes | None
) -> None:
    shards = Shards(partitions=1)
    shards.request("STREAM.CREATE.A", config("A"))
    shards.settle()
    bad = shards.record(0, value, kind, key=key, headers=headers)
    after = shards.publish("A", ["A.x"])
    shards.settle()
    assert [one.source for one in shards.rejected] == [bad]
    assert shards.rejected[0].reason
    assert shards.outcomes[after] == 1


def test_a_plain_record_is_a_publish() -> None:
    shards = shards_with("A")
    for partition in range(2):  # the wrong shard passes it on to the owner
        shards.record(
            partition, b"hello", None, key=b"A", headers=[(h.PLAIN_SUBJECT, b"A.x"), ("user", b"u")]
        )
    shards.settle()
    assert shards.rejected == []
    assert shards.snapshot()["A"]["payloads"] == {1: b"hello", 2: b"hello"}


def test_a_record_that_cannot_be_applied_is_refused_and_answered() -> None:
    shards = shards_with("A")
    partition = partition_of("A", 2)
    first = shards.publish("A", ["A.x", "A.x"])
    drain = shards.refuse(partition, "it breaks the shard")
    assert [one.reason for one in drain.rejected] == ["it breaks the shard"]
    assert {shards.outcomes[first], shards.outcomes[first + 1]} == {
        refusals.unavailable("it breaks the shard")
    }
    again = shards.publish("A", ["A.x"])
    shards.settle()
    assert shards.outcomes[again] == 1


def test_a_change_that_cannot_be_applied_frees_the_name() -> None:
    shards = Shards()
    created = shards.request("STREAM.CREATE.A", config("A"))
    shards.step(0)
    shards.refuse(partition_of("A", 2), "no topic for it")
    assert shards.answer(created)["error"]["code"] == 503
    again = shards.request("STREAM.CREATE.A", config("A"))
    shards.settle()
    assert shards.answer(again)["did_create"]


# ------------------------------------------------------------ drains


def test_a_drain_of_questions_writes_nothing() -> None:
    shards = shards_with("A")
    partition = partition_of("A", 2)
    shards.request("STREAM.INFO.A")
    shards.request("STREAM.MSG.GET.A", {"seq": 1})
    assert shards.step(partition).only_answers


def test_a_drain_of_duplicates_appends_nothing_to_the_log() -> None:
    shards = shards_with("A")
    shards.publish("A", ["A.x"], ids=["1"])
    shards.settle()
    shards.publish("A", ["A.x"], ids=["1"])
    assert shards.step(partition_of("A", 2)).appends == {}


def test_one_deadline_a_stream_however_many_drains_there_are() -> None:
    shards = shards_with("A", max_age=3_600 * SECOND, max_msgs=5)
    core = shards.cores[partition_of("A", 2)]
    for _ in range(50):
        shards.now += MILLI
        shards.publish("A", ["A.x"])
        shards.settle()
    assert len(core._timers._deadlines) <= 2
    shards.now += 3_600 * SECOND
    shards.settle()
    assert shards.snapshot()["A"]["counts"][0] == 0
    assert core.next_deadline() is None


def test_looking_too_early_opens_no_transaction() -> None:
    """The first message expires, but a limit removed it meanwhile: there is nothing to do yet."""
    shards = shards_with("A", max_age=10 * SECOND, max_msgs=1)
    partition = partition_of("A", 2)
    shards.publish("A", ["A.x"])
    shards.settle()
    shards.now += 5 * SECOND
    shards.publish("A", ["A.x"])
    shards.settle()
    shards.now += 5 * SECOND
    drain = shards.step(partition)
    assert drain.only_answers
    assert drain.changes == {}
    assert shards.cores[partition].next_deadline() == shards.now + 5 * SECOND


def test_a_quarantined_log_refuses_publishes_and_a_new_stream_of_the_name_works() -> None:
    shards = shards_with("A", "B")
    shards.quarantined[NAMES.log("A")] = "the topic is gone"
    first, other = shards.publish("A", ["A.x"]), shards.publish("B", ["B.x"])
    shards.settle()
    refused = shards.outcomes[first]
    assert isinstance(refused, Refusal)
    assert (refused.code, "the topic is gone" in refused.description) == (503, True)
    assert shards.outcomes[other] == 1
    shards.request("STREAM.DELETE.A")
    shards.settle()
    shards.request("STREAM.CREATE.A", config("A"))
    shards.settle()
    again = shards.publish("A", ["A.x"])
    shards.settle()
    assert shards.outcomes[again] == 1


def test_a_released_log_takes_publishes_again() -> None:
    shards = shards_with("A")
    shards.quarantined[NAMES.log("A")] = "gone"
    first = shards.publish("A", ["A.x"])
    shards.settle()
    del shards.quarantined[NAMES.log("A")]
    again = shards.publish("A", ["A.x"])
    shards.settle()
    assert isinstance(shards.outcomes[first], Refusal)
    assert shards.outcomes[again] == 1


# ------------------------------------------------------------ streams come and go


def test_names_show_a_change_as_soon_as_its_answer_is_out() -> None:
    """The owner answers before the registrar hears of it: a caller who asks next must not see the past."""
    shards = Shards()
    owner = partition_of("A", 2)

    def names() -> list[str]:
        asked = shards.request("STREAM.NAMES")
        inbox = shards.inboxes[0]
        inbox.rotate(1)  # before what the owner sent to the registrar
        shards.step(0, 1)
        return shards.answer(asked)["streams"] or []

    shards.request("STREAM.CREATE.A", config("A"))
    shards.step(0, 1)
    shards.step(owner, 1)
    assert names() == ["A"]
    shards.settle()
    shards.request("STREAM.DELETE.A")
    shards.step(0, 1)
    shards.step(owner, 1)
    assert names() == []
    shards.settle()
    assert shards.snapshot()["names"] == {}


def bodies(shards: Shards) -> list[int]:
    return [keys.sequence_in(key) for table in shards.tables for key, _ in table.scan(keys.BODY)]


def decide_all(shards: Shards) -> None:
    """All that was sent, but not what is left to do afterwards."""
    while any(shards.inboxes):
        for number, inbox in enumerate(shards.inboxes):
            if inbox:
                shards.step(number, 100)


def drains_until_rest(shards: Shards) -> list[int]:
    """How many bodies each drain removes until nothing is due."""
    first = len(shards.drains)
    shards.settle()
    removed = [
        sum(value is None and key.startswith(keys.BODY) for key, value in drain.changes.items())
        for drain in shards.drains[first:]
    ]
    return [count for count in removed if count]


@pytest.mark.parametrize("restart", [False, True])
def test_bodies_that_are_no_longer_kept_leave_the_table_over_several_drains(
    monkeypatch: pytest.MonkeyPatch, restart: bool
) -> None:
    monkeypatch.setattr(ownership, "SWEPT_KEYS", 3)
    shards = shards_with("A", "B", allow_direct=True)
    for name in "AB":
        shards.publish(name, [f"{name}.x"] * 10, payloads=[b"%d" % number for number in range(10)])
    shards.settle()
    shards.request("STREAM.UPDATE.A", config("A"))
    decide_all(shards)
    assert 10 < len(bodies(shards)) < 20  # some went with the update itself
    if restart:
        shards.restart(partition_of("A", 2))
    shards.publish("A", ["A.x"], payloads=[b"new"])
    assert max(drains_until_rest(shards)) <= 3
    assert bodies(shards) == list(range(1, 11))  # those of B
    for core in shards.cores:
        core._streams.recent = RecentMessages()
    assert [shards.read("A", sequence) for sequence in (1, 10, 11)] == [b"0", b"9", b"new"]
    shards.request("STREAM.UPDATE.A", config("A", allow_direct=True))
    shards.settle()
    shards.publish("A", ["A.x"])
    shards.settle()
    assert len(bodies(shards)) == 11


def test_bodies_that_are_kept_again_before_all_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "SWEPT_KEYS", 3)
    shards = shards_with("A", allow_direct=True)
    shards.publish("A", ["A.x"] * 40)
    shards.settle()
    shards.request("STREAM.UPDATE.A", config("A"))
    decide_all(shards)
    shards.request("STREAM.MSG.DELETE.A", {"seq": 39})
    shards.request("STREAM.UPDATE.A", config("A", allow_direct=True))
    decide_all(shards)
    left = bodies(shards)
    assert 39 not in left
    assert 40 in left
    shards.publish("A", ["A.x"])
    shards.settle()
    assert bodies(shards) == [*left, 41]  # what the stream keeps is no stray


def test_a_purge_of_kept_bodies_is_no_larger_than_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "SWEPT_KEYS", 3)
    shards = shards_with("A", allow_direct=True)
    shards.publish("A", ["A.x"] * 10)
    shards.settle()
    shards.request("STREAM.PURGE.A")
    shards.publish("A", ["A.x"])
    assert drains_until_rest(shards)[:3] == [3, 3, 3]
    assert bodies(shards) == [11]


def test_a_deleted_stream_leaves_nothing_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "SWEPT_KEYS", 3)
    shards = shards_with("A", allow_direct=True)
    for number in range(10):
        shards.publish("A", ["A.x"] * 3, ids=[f"{number}-{one}" for one in range(3)])
        shards.settle()
    shards.request("STREAM.DELETE.A")
    shards.settle()
    left = [key for table in shards.tables for key, _ in table.scan(b"")]
    assert {key[:1] for key in left} <= {keys.CURSOR, keys.NEXT_INCARNATION}
    assert shards.registry == {}
    assert shards.logs == {}


def test_nothing_of_a_deleted_stream_is_in_its_successor() -> None:
    shards = shards_with("A")
    shards.publish("A", ["A.x"], ids=["1"])
    shards.settle()
    deleted, created = shards.request("STREAM.DELETE.A"), shards.request("STREAM.CREATE.A", config("A"))
    shards.settle()  # the create waits until the old one is gone
    assert shards.answer(deleted)["success"]
    assert shards.answer(created)["did_create"]
    first = shards.publish("A", ["A.x"], ids=["1"])
    shards.settle()
    assert shards.outcomes[first] == 1
    assert shards.snapshot()["A"]["incarnation"] == 2


def test_requests_for_a_name_wait_their_turn_and_are_all_answered() -> None:
    shards = Shards()
    requests = [shards.request("STREAM.CREATE.A", config("A")) for _ in range(3)]
    requests += [
        shards.request("STREAM.DELETE.A"),
        shards.request("STREAM.CREATE.A", config("A", max_msgs=4)),
    ]
    requests += [
        shards.request("STREAM.UPDATE.A", config("A", max_msgs=5)),
        shards.request("STREAM.DELETE.A"),
    ]
    shards.settle()
    answers = [shards.answer(request) for request in requests]
    assert [answer.get("did_create", False) for answer in answers] == [
        True,
        False,
        False,
        False,
        True,
        False,
        False,
    ]
    assert not any("error" in answer for answer in answers)
    assert shards.snapshot()["names"] == {}


def test_two_streams_that_would_overlap_cannot_both_be_created() -> None:
    shards = Shards()
    requests = [
        shards.request(f"STREAM.CREATE.{name}", {"name": name, "subjects": ["same.>"]}) for name in "AB"
    ]
    shards.settle()
    errors = [shards.answer(request).get("error", {}).get("err_code") for request in requests]
    assert errors == [None, 10065]


def test_the_platform_takes_no_more_than_it_has() -> None:
    """PUB-19, PUB-20: the shard's own ceilings."""
    shards = Shards(partitions=1, limits=ClusterLimits(max_store_bytes=100, max_in_flight=3))
    shards.request("STREAM.CREATE.A", config("A"))
    shards.settle()
    first = shards.publish("A", ["A.x"] * 5)
    shards.settle()
    told = [shards.outcomes[first + at] for at in range(5)]
    assert told == [1, 2, refusals.OUT_OF_STORAGE, refusals.TOO_MANY_REQUESTS, refusals.TOO_MANY_REQUESTS]


@pytest.mark.rule("PUB-19")
def test_the_room_that_is_left_is_known_without_asking_every_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = Shards(partitions=1, limits=ClusterLimits(max_store_bytes=100))
    for name in "AB":
        shards.request(f"STREAM.CREATE.{name}", config(name))
    shards.settle()
    asked: list[str] = []
    monkeypatch.setattr(ownership.OwnedStreams, "__iter__", lambda _: asked.append("all") or iter(()))
    first = shards.publish("A", ["A.x"] * 2)
    second = shards.publish("B", ["B.x"])
    shards.step(0)
    assert [shards.outcomes[one] for one in (first, first + 1, second)] == [1, 2, refusals.OUT_OF_STORAGE]
    assert asked == []
