"""Publishing in columns, the quick way and one by one: the same outcome."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.stream_config import BUCKET, StreamConfig
from railgun.model.subjects import Filter, matches
from railgun.semantics.messages import searching
from railgun.semantics.streams.publishing import batches, publish
from railgun.semantics.streams.publishing.outcomes import NewMessage, PackOutcome, Stored
from railgun.semantics.streams.publishing.watched_patterns import WatchedPatterns
from railgun.state import keys
from tests.support.publish_packs import (
    NO_LIMITS,
    Pack,
    by_index,
    configs,
    decide,
    one_by_one,
    packs,
    platforms,
    rooms,
    stream,
    visible,
)


@settings(max_examples=150)
@given(configs, st.lists(packs(), max_size=5), platforms, rooms)
def test_columns_packs_and_single_messages_give_the_same_outcome(
    config: StreamConfig, sent: list[Pack], platform: ClusterLimits, room: int
) -> None:
    fast, slow, single = stream(config), stream(config), stream(config)
    logs = Stored(), Stored(), Stored()
    time = 1_000
    for pack in sent:
        time += pack.later
        outcome = by_index(decide(fast, pack, time, platform, room, logs[0]))
        with one_by_one():
            assert by_index(decide(slow, pack, time, platform, room, logs[1])) == outcome
        if not pack.payloads:
            decide(single, pack, time, platform, room, logs[2])  # time goes on for it as well
        for index in range(len(pack.payloads)):
            one = Pack(*(column[index : index + 1] for column in pack[:4]))
            assert by_index(decide(single, one, time, platform, room, logs[2])) == {0: outcome[index]}
        single.window.expire(time)  # a pack without messages is none that could be sent one by one
        assert sorted(outcome) == list(range(len(pack.payloads)))
    assert visible(fast) == visible(slow) == visible(single)
    assert _columns(logs[0]) == _columns(logs[1]) == _columns(logs[2])


@settings(max_examples=200)
@given(configs, st.lists(st.tuples(packs(), st.booleans()), max_size=5), platforms, rooms)
def test_batches_in_columns_and_one_by_one_give_the_same_outcome(
    config: StreamConfig, sent: list[tuple[Pack, bool]], platform: ClusterLimits, room: int
) -> None:
    """Among packs, which write what the conditions of batches look at."""
    fast, slow = stream(config), stream(config)
    logs, time = (Stored(), Stored()), 1_000
    for pack, is_batch in sent:
        time += pack.later
        if not is_batch or not pack.payloads:
            decide(fast, pack, time, platform, room, logs[0])
            with one_by_one():
                decide(slow, pack, time, platform, room, logs[1])
            continue
        messages = [
            NewMessage(subject, [*given, ("Nats-Batch-Id", b"b")], payload)
            for subject, given, payload in zip(
                pack.subjects, pack.headers or [[]] * len(pack.payloads), pack.payloads, strict=True
            )
        ]
        found = batches.commit(fast, messages, time, platform, room - fast.bytes, logs[0], None)
        with one_by_one():
            expected = batches.commit(slow, messages, time, platform, room - slow.bytes, logs[1], None)
        assert found == expected
        assert visible(fast) == visible(slow)
    assert visible(fast) == visible(slow)
    assert _columns(logs[0]) == _columns(logs[1])


def _columns(log: Stored) -> tuple[Any, ...]:
    return log.sequences, log.subjects, [list(one) for one in log.headers], log.payloads, log.times


def test_the_column_path_is_taken_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the property above would compare a path with itself."""
    taken = []
    original = publish._publish_columns
    monkeypatch.setattr(
        publish, "_publish_columns", lambda *given: taken.append(original(*given)) or taken[-1]
    )
    state = stream(StreamConfig(name="S", subjects=["a.*"], duplicate_window=10))
    decide(state, Pack(["a.x", "a.y"], ["1", "2"], [], [b"x", b"y"]), 5, NO_LIMITS, 1 << 60, Stored())
    assert isinstance(taken[0], PackOutcome)


def test_increments_alone_take_the_column_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "_publish_one", None)  # not asked
    state = stream(StreamConfig(name="S", subjects=["a.*", "b"], duplicate_window=10, allow_msg_counter=True))
    log = Stored()
    first = Pack(["a.x", "b", "a.x"], ["1", "2", "3"], [[(h.INCREMENT, b"+4")]] * 3, [b""] * 3)
    second = Pack(["a.x", "b"], [], [[(h.INCREMENT, b"-1")]] * 2, [b""] * 2)
    assert decide(state, first, 5, NO_LIMITS, 1 << 60, log).values == [(0, 4), (1, 4), (2, 8)]
    assert decide(state, second, 5, NO_LIMITS, 1 << 60, log).values == [(0, 7), (1, 3)]
    assert log.payloads[-1] == b'{"val":"3"}'
    assert list(log.headers[2]) == [(h.INCREMENT, b"+4"), (h.MSG_ID, b"3")]


SIMPLE = StreamConfig(
    name="S", subjects=["a.*", "b"], duplicate_window=10, allow_msg_ttl=True, allow_direct=True
)
SAID: dict[str, tuple[list[list[tuple[str, bytes]]], list[str]]] = {
    "headers": ([[("one", b"1"), ("two", b"2")]] * 4, []),
    "headers and ids": ([[("one", b"1")], [], [], [("two", b"2")]], ["1", "", "3", "4"]),
    "ids as headers": ([[(h.MSG_ID, b"%d" % number)] for number in range(4)], []),
    "the last sequence": ([[(h.EXPECTED_LAST_SEQUENCE, b"%d" % number)] for number in range(4)], []),
    "the last sequence of the subject": (
        [[(h.EXPECTED_LAST_SUBJECT_SEQUENCE, number)] for number in (b"0", b"0", b"1", b"2")],
        [],
    ),
    "the last sequence of a wildcard": (
        [
            [(h.EXPECTED_LAST_SUBJECT_SEQUENCE, number), (h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT, b"a.*")]
            for number in (b"0", b"1", b"1", b"3")
        ],
        [],
    ),
    "the last id": (
        [[(h.EXPECTED_LAST_MSG_ID, one)] for one in (b"", b"1", b"2", b"3")],
        ["1", "2", "3", "4"],
    ),
    "the stream": ([[(h.EXPECTED_STREAM, b"S")]] * 4, []),
    "a life time": ([[(h.TTL, b"5")], [(h.TTL, b"never")], [], [(h.TTL, b"7s")]], []),
}


@pytest.mark.parametrize("headers, ids", SAID.values(), ids=SAID)
def test_what_needs_no_closer_look_goes_the_quick_way(
    headers: list[list[tuple[str, bytes]]], ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "_publish_one", None)  # not asked
    state, log = stream(SIMPLE), Stored()
    pack = Pack(["a.x", "b", "a.x", "b"], ids, headers, [b"1", b"2", b"3", b"4"])
    assert decide(state, pack, 5, NO_LIMITS, 1 << 60, log) == PackOutcome(runs=[(0, 4, 1)])
    assert log.payloads == pack.payloads


BUCKETS = {
    "history 1": SIMPLE.model_copy(
        update={"max_msgs_per_subject": 1, "allow_rollup_hdrs": True, "metadata": {BUCKET: "B"}}
    ),
    "history 2": SIMPLE.model_copy(update={"max_msgs_per_subject": 2, "allow_rollup_hdrs": True}),
    "discard new": SIMPLE.model_copy(
        update={"max_msgs_per_subject": 1, "allow_rollup_hdrs": True, "discard": "new"}
    ),
}
DELETED = [("KV-Operation", b"DEL"), (h.ROLLUP, b"sub"), (h.TTL, b"30m")]
PUTS: dict[str, list[list[tuple[str, bytes]]]] = {
    "puts": [],
    "create and update": [
        [(h.EXPECTED_LAST_SUBJECT_SEQUENCE, number)] for number in (b"0", b"0", b"1", b"2")
    ],
    "deletes": [[], DELETED, DELETED, []],
    "puts with a life time": [[(h.TTL, b"5")]] * 4,
}


@pytest.mark.parametrize("headers", PUTS.values(), ids=PUTS)
@pytest.mark.parametrize("config", BUCKETS.values(), ids=BUCKETS)
def test_what_a_bucket_is_told_goes_the_quick_way(
    config: StreamConfig, headers: list[list[tuple[str, bytes]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "_publish_one", None)  # not asked
    state, log = stream(config), Stored()
    for round_ in range(3):
        pack = Pack(["a.x", "b", "a.x", "b"], [], [], [b"1", b"2", b"3", b"4"])
        if not round_:
            pack = pack._replace(headers=headers)
        assert decide(state, pack, 5, NO_LIMITS, 1 << 60, log) == PackOutcome(runs=[(0, 4, 1 + 4 * round_)])
    kept = config.max_msgs_per_subject
    assert [entry.sequence for entry in state.iterate()] == list(range(13 - 2 * kept, 13))
    kind = keys.BODY if kept > 1 else keys.VALUE
    assert len(list(state.overlay.scan(kind))) == len(state.overlay.changes) == 2 * kept
    assert state.body(12) == (list(log.headers[-1]), b"4")


def test_only_what_needs_a_closer_look_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[bytes] = []
    general = publish._publish_one
    monkeypatch.setattr(
        publish,
        "_publish_one",
        lambda state, one, *rest: looked_at.append(one.payload) or general(state, one, *rest),
    )
    headers = [
        [("one", b"1")],
        [(h.EXPECTED_LAST_SEQUENCE, b"7")],
        [(h.MSG_ID, b"1")],
        [(h.MSG_ID, b"1")],
        [],
    ]
    pack = Pack(["b"] * 5, [], headers, [b"1", b"2", b"3", b"4", b"5"])
    outcome = decide(stream(SIMPLE), pack, 5, NO_LIMITS, 1 << 60, Stored())
    assert (outcome.runs, outcome.duplicates) == ([(0, 1, 1), (2, 1, 2), (4, 1, 3)], [(3, 2)])
    assert looked_at == [b"2", b"4"]


def test_a_batch_without_special_needs_goes_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "examine", None)  # not asked
    state, log = stream(SIMPLE), Stored()
    sent = [
        NewMessage("b", [(h.EXPECTED_LAST_SEQUENCE, b"0"), ("Nats-Batch-Id", b"b")], b"1"),
        NewMessage("a.x", [(h.EXPECTED_LAST_SUBJECT_SEQUENCE, b"0"), ("Nats-Batch-Id", b"b")], b"2"),
        NewMessage("b", [(h.TTL, b"5"), ("Nats-Batch-Id", b"b")], b"3"),
    ]
    assert batches.commit(state, sent, 5, NO_LIMITS, 1 << 60, log, None) == 3
    assert log.payloads == [b"1", b"2", b"3"]


def test_a_roll_up_looks_for_no_earlier_message_among_all_that_came_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = stream(StreamConfig(name="S", subjects=["a.*", "b"], allow_rollup_hdrs=True))
    decide(state, Pack(["b"], [], [], [b"x"]), 5, NO_LIMITS, 1 << 60, Stored())
    decide(state, Pack(["a.x"] * 50, [], [], [b"x"] * 50), 5, NO_LIMITS, 1 << 60, Stored())
    began: list[int] = []
    general = state.iterate
    monkeypatch.setattr(state, "iterate", lambda start=0, **how: began.append(start) or general(start, **how))
    decide(state, Pack(["b"], [], [[(h.ROLLUP, b"sub")]], [b"x"]), 5, NO_LIMITS, 1 << 60, Stored())
    assert began == [1]
    assert (state.count_of("b"), state.first_seq, state.messages) == (1, 2, 51)


@pytest.mark.parametrize("last", [b"0", b"9"], ids=["stored", "refused at its last"])
def test_a_wildcard_that_all_messages_of_a_batch_ask_for_is_searched_once(
    last: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search is as long as the stream has subjects."""
    state = stream(SIMPLE)
    searched: list[str] = []
    general = searching.newest
    monkeypatch.setattr(
        searching, "newest", lambda stored, wanted: searched.append(repr(wanted)) or general(stored, wanted)
    )
    expected = [b"0"] * 19 + [last]
    sent = [
        NewMessage(
            "b",
            [
                (h.EXPECTED_LAST_SUBJECT_SEQUENCE, number),
                (h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT, b"nobody.*"),
                ("Nats-Batch-Id", b"b"),
            ],
            b"x",
        )
        for number in expected
    ]
    found = batches.commit(state, sent, 5, NO_LIMITS, 1 << 60, Stored(), None)
    assert found == (20 if last == b"0" else refusals.wrong_last_sequence(0))
    assert searched == ["Filter(['nobody.*'])"]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "skip", "remove", "purge", "ask", "ask"]), st.integers(0, 9)),
        max_size=30,
    )
)
def test_what_is_found_by_a_wildcard_is_what_the_stream_holds(history: list[tuple[str, int]]) -> None:
    state = stream(StreamConfig(name="S", subjects=[">"]))
    for act, number in history:
        if act == "add":
            state.store(f"a.{number % 3}", 10, 5)
        elif act == "skip":
            state.skip(5)
        elif act == "remove":
            state.remove(number)
        elif act == "purge":
            state.purge_below(number)
        for pattern in ("a.*", "*.1", "b.*") if act == "ask" else ():
            entries = [one.sequence for one in state.iterate() if matches(pattern, one.subject)]
            assert state.last_matching(Filter([pattern])) == max(entries, default=0)
        if number == 9:
            state.seal()


wildcards = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=3).map(".".join)


@given(
    st.lists(wildcards | wildcards.map("{}.>".format) | st.sampled_from([">", "a..*", "a.>.b"]), max_size=6)
)
def test_patterns_that_are_watched_are_found_as_if_each_was_asked(patterns: list[str]) -> None:
    watched = WatchedPatterns(patterns)
    for subject in ("a", "b", "a.a", "a.b", "b.a", "a.b.a", "b.b.b", "a.a.a.a"):
        expected = {pattern for pattern in patterns if matches(pattern, subject)}
        assert set(watched.matching(subject)) == expected
