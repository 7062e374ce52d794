"""Gets in packs and reads in pages, at a shard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railgun.model.messages import StoredMessage
from railgun.model.refusals import BAD_REQUEST, NO_MESSAGE_FOUND, STREAM_NOT_FOUND, Refusal
from railgun.model.subjects import Filter
from railgun.protocol.columnar.read_records import (
    BY_SEQUENCE,
    HEADERS,
    HERE,
    INDEX,
    LAST,
    NEXT,
    WHOLE,
    ReadReply,
    ReadRequest,
)
from railgun.shard import long_calls
from railgun.shard.drain import Replies
from tests.support.shards import Shards

DELETED = [("KV-Operation", b"DEL")]


def a_stream(**fields: Any) -> Shards:
    shards = Shards(partitions=1)
    shards.request("STREAM.CREATE.A", {"name": "A", "subjects": ["A.>"], **fields})
    shards.settle()
    return shards


def messages_of(shards: Shards, reply: ReadReply) -> list[StoredMessage]:
    """The messages of an answer, those that it only names from the log."""
    found = []
    for place, sequence in enumerate(reply.sequences):
        offset = reply.offsets[place] if reply.offsets else HERE
        if offset != HERE:
            assert shards.logs[reply.topic].payload_of(sequence, offset) is not None
            found.append(shards.written[reply.topic, sequence])
            continue
        headers = reply.headers[place] if reply.headers else []
        payload = reply.payloads[place] if reply.payloads else b""
        found.append(
            StoredMessage(reply.subjects[place], sequence, payload, list(headers), reply.times[place])
        )
    return found


def outcomes(shards: Shards, request: int) -> dict[int, int | Refusal]:
    """What came of each get of a pack."""
    found: dict[int, int | Refusal] = {}
    for reply in shards.reads[request]:
        answered = dict(zip(reply.indexes, reply.sequences, strict=True)) | dict(reply.refusals)
        assert found.keys().isdisjoint(answered), "answered twice"
        found |= answered
    return found


def pages(shards: Shards, asked: ReadRequest) -> Iterator[ReadReply]:
    """All pages of a read, as a client asks for them."""
    for _ in range(10_000):
        request = shards.page(asked)
        shards.settle()
        (reply,) = shards.reads[request]
        assert not reply.refusals
        yield reply
        if not reply.next:
            return
        asked = asked._replace(position=reply.next)
        if asked.reverse or not asked.last_per_subject:
            asked = asked._replace(end=reply.end, end_time=None)
    raise AssertionError("the read never ends")


@pytest.mark.rule("GET-01", "GET-02", "GET-03", "GET-05", "GET-06")
def test_a_pack_of_gets_sees_what_was_stored_before_it() -> None:
    shards = a_stream()
    shards.publish("A", ["A.a", "A.b", "A.a"])
    asked = shards.gets(
        "A", (BY_SEQUENCE, 2, ""), (LAST, 0, "A.a"), (LAST, 0, "A.*"), (NEXT, 2, "A.a"), (NEXT, 4, "A.>"),
        (BY_SEQUENCE, 9, ""), (BY_SEQUENCE, 0, ""), (LAST, 0, ""), (LAST, 0, "A.c"), (BY_SEQUENCE, 2, ""),
    )  # fmt: skip
    shards.publish("A", ["A.c"])
    drain = shards.step(0)
    assert not drain.only_answers
    missing = NO_MESSAGE_FOUND
    expected = [2, 3, 3, 3, missing, missing, BAD_REQUEST, BAD_REQUEST, missing, 2]
    assert outcomes(shards, asked) == dict(enumerate(expected))
    again = shards.gets("A", (LAST, 0, "A.c"))
    assert shards.step(0).only_answers  # so it needs no transaction
    assert outcomes(shards, again) == {0: 4}


def test_gets_of_a_stream_that_is_not_there() -> None:
    shards = a_stream()
    gets, page = shards.gets("B", (BY_SEQUENCE, 1, ""), (LAST, 0, "B")), shards.page(ReadRequest("B"))
    bad = shards.page(ReadRequest("A", limit=0))
    shards.settle()
    assert outcomes(shards, gets) == {0: STREAM_NOT_FOUND, 1: STREAM_NOT_FOUND}
    assert shards.reads[page][0].refusals == [(0, STREAM_NOT_FOUND)]
    assert shards.reads[bad][0].refusals == [(0, BAD_REQUEST)]


def test_gets_that_cannot_be_applied_are_refused() -> None:
    shards = a_stream()
    gets = shards.gets("A", (BY_SEQUENCE, 1, ""))
    shards.refuse(0, "no")
    page = shards.page(ReadRequest("A"))
    shards.refuse(0, "no")
    assert shards.reads[gets][0].refusals[0][1].code == 503
    assert shards.reads[page][0].refusals[0][1].code == 503


def test_a_get_that_searches_long_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_calls, "SLICE", 50)
    monkeypatch.setattr(long_calls, "LEAST", 50)
    shards = a_stream()
    for number in range(200):
        shards.publish("A", [f"A.{number}.x", f"A.{number}.y"])
        shards.step(0)
    shards.restart(0)
    asked = shards.gets("A", (NEXT, 2, "A.0.x"), (NEXT, 1, "A.*.z"), (BY_SEQUENCE, 7, ""))
    shards.step(0)
    assert outcomes(shards, asked)[2] == 7
    shards.settle()
    assert outcomes(shards, asked) == {0: NO_MESSAGE_FOUND, 1: NO_MESSAGE_FOUND, 2: 7}


def test_answers_to_many_large_messages_are_several() -> None:
    shards = a_stream()
    for _ in range(12):
        shards.publish("A", ["A.a"], payloads=[b"x" * 900_000])
        shards.step(0)
    asked = shards.gets("A", *((BY_SEQUENCE, number, "") for number in range(12, 0, -1)))
    shards.settle()
    assert outcomes(shards, asked) == {index: 12 - index for index in range(12)}
    assert len(shards.reads[asked]) > 1
    assert all(sum(map(len, reply.payloads)) < 5_000_000 for reply in shards.reads[asked])
    read = list(pages(shards, ReadRequest("A", limit=100, max_bytes=1_000_000)))
    assert [list(reply.sequences) for reply in read if reply.sequences] == [[one] for one in range(1, 13)]


@pytest.mark.parametrize("subject", ["A.7.new", "A.7.*"])
def test_what_lies_before_the_messages_of_a_subject_costs_nothing(
    subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_calls, "SLICE", 2_000)
    monkeypatch.setattr(long_calls, "LEAST", 2_000)
    shards = a_stream()
    for number in range(200):
        shards.publish("A", [f"A.0.{number}"])
        shards.step(0)
    for _ in range(3):
        shards.publish("A", ["A.7.new", "A.8.new"])
        shards.step(0)
    for reverse in (False, True):
        asked = shards.page(
            ReadRequest("A", subjects=[subject], limit=100, max_bytes=10_000, reverse=reverse)
        )
        shards.step(0)  # at once: looking at all 200 blocks would take more than a slice
        assert sorted(shards.reads[asked][0].sequences) == [201, 203, 205]
        assert not shards.reads[asked][0].next


@pytest.mark.parametrize("form", [WHOLE, HEADERS, INDEX])
def test_long_subjects_and_headers_count(form: str) -> None:
    shards = a_stream()
    subjects = [f"A.{'s' * 4_000}.{number}" for number in range(100)]
    shards.publish("A", subjects, headers=[[("h", b"v" * 30_000)]] * 100)
    replies = list(pages(shards, ReadRequest("A", limit=16_384, max_bytes=500_000, form=form)))
    assert [one for reply in replies for one in reply.sequences] == list(range(1, 101))
    sizes = [len(Replies(reads=[reply]).batch(0, 0).encode()) for reply in replies]
    assert max(sizes) <= 500_000
    assert len(replies) > 1 or form == INDEX


def test_a_message_above_the_room_of_a_page_comes_alone() -> None:
    shards = a_stream()
    shards.publish("A", ["A.a"] * 3, payloads=[b"x" * 5_000, b"", b"y" * 5_000])
    read = list(pages(shards, ReadRequest("A", limit=100, max_bytes=100)))
    assert [list(reply.sequences) for reply in read] == [[1], [2], [3]]


def test_a_read_ends_where_the_stream_ended_when_it_began() -> None:
    shards = a_stream()
    shards.publish("A", ["A.a"] * 4)
    found = pages(shards, ReadRequest("A", limit=2, max_bytes=1_000_000))
    assert list(next(found).sequences) == [1, 2]
    shards.publish("A", ["A.a"] * 4)
    shards.request("STREAM.MSG.DELETE.A", {"seq": 3})
    assert [one for reply in found for one in reply.sequences] == [4]


def test_a_subject_that_gets_a_message_meanwhile_is_not_missed() -> None:
    shards = a_stream(max_msgs_per_subject=1)
    shards.publish("A", [f"A.{number}" for number in range(6)])
    found = pages(shards, ReadRequest("A", limit=2, max_bytes=1_000_000, last_per_subject=True))
    seen = list(next(found).subjects)
    shards.publish("A", ["A.1", "A.4"])  # whose former messages are gone
    seen += [subject for reply in found for subject in reply.subjects]
    assert seen == ["A.0", "A.1", "A.2", "A.3", "A.5", "A.1", "A.4"]


def test_the_index_tells_tombstones_without_bodies() -> None:
    shards = a_stream(max_msgs_per_subject=3, allow_rollup_hdrs=True, allow_msg_ttl=True)
    shards.publish("A", ["A.a", "A.b", "A.c", "A.c"], headers=[[], DELETED, DELETED, []])
    shards.publish("A", ["A.d"], headers=[[("KV-Operation", b"PURGE"), ("Nats-Rollup", b"sub")]])
    shards.publish(
        "A", ["A.e", "A.f"], headers=[[("KV-Operation", b"PUT")], [("Nats-Marker-Reason", b"MaxAge")]]
    )
    for _ in range(2):
        shards.settle()
        (newest,) = pages(
            shards, ReadRequest("A", limit=100, max_bytes=10_000, last_per_subject=True, form=INDEX)
        )
        stones = {newest.subjects[place] for place in newest.tombstones}
        assert stones == {"A.b", "A.d", "A.f"}
        assert (newest.payloads, newest.headers, len(newest.subjects)) == ((), (), 6)
        info = shards.request("STREAM.INFO.A", {"tombstones": True})
        shards.settle()
        assert shards.answer(info)["state"]["num_tombstones"] == 3
        shards.restart(0)


def test_an_aborted_drain_of_reads_is_answered_once() -> None:
    shards = a_stream()
    shards.publish("A", ["A.a"])
    asked, page = (
        shards.gets("A", (BY_SEQUENCE, 1, "")),
        shards.page(ReadRequest("A", limit=5, max_bytes=100)),
    )
    shards.step(0, abort=True)
    assert not shards.reads
    shards.settle()
    assert outcomes(shards, asked) == {0: 1}
    assert list(shards.reads[page][0].sequences) == [1]


# ------------------------------------------------------------ a read equals filtering all messages one by one

SUBJECTS = ["A.1.x", "A.1.y", "A.2.x", "A.3", "A.4.x.y"]
FILTERS = [[], ["A.1.x"], ["A.1.*"], ["A.>"], ["A.*.x"], ["A.3", "A.2.*"], ["A.nothing"], ["B.>"]]
publishes = st.lists(
    st.tuples(st.sampled_from(SUBJECTS), st.sampled_from([[], DELETED, [("a", b"b")]])), max_size=8
)
changes = st.lists(
    st.one_of(
        publishes.map(lambda given: ("publish", given)),
        st.integers(1, 30).map(lambda sequence: ("delete", sequence)),
        st.sampled_from([("purge", {"filter": "A.1.x"}), ("purge", {"seq": 4}), ("restart", None)]),
    ),
    max_size=12,
)
reads = st.builds(
    lambda **fields: ReadRequest("A", **fields),
    subjects=st.sampled_from(FILTERS),
    start=st.integers(0, 12),
    end=st.integers(0, 40),
    reverse=st.booleans(),
    last_per_subject=st.booleans(),
    form=st.sampled_from([WHOLE, HEADERS, INDEX]),
    limit=st.integers(1, 7),
    max_bytes=st.sampled_from([1, 300, 100_000]),
)
CONFIGURATIONS = [{}, {"max_msgs_per_subject": 1}, {"max_msgs_per_subject": 3}, {"allow_direct": True}]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(CONFIGURATIONS), changes, reads, st.none() | st.integers(0, 30), st.booleans())
def test_a_read_equals_filtering_all_messages(
    fields: dict[str, Any], made: list[tuple[str, Any]], asked: ReadRequest, moment: int | None, times: bool
) -> None:
    shards = a_stream(**fields)
    for what, detail in made:
        if what == "publish" and detail:
            shards.publish("A", [one for one, _ in detail], headers=[given for _, given in detail])
        elif what == "delete":
            shards.request("STREAM.MSG.DELETE.A", {"seq": detail})
        elif what == "purge":
            shards.request("STREAM.PURGE.A", detail)
        elif what == "restart":
            shards.restart(0)
        shards.settle()
        shards.now += 1_000_000
    state = next(iter(shards.cores[0]._streams))
    everything = list(state.iterate())
    if times and moment is not None and moment < len(everything):
        bound = everything[moment].time
        asked = (
            asked._replace(start=0, start_time=bound) if moment % 2 else asked._replace(end=0, end_time=bound)
        )
    low = (
        min((one.sequence for one in everything if one.time >= asked.start_time), default=1 << 40)
        if asked.start_time
        else asked.start
    )
    high = asked.end or 1 << 40
    if asked.end_time is not None:
        high = max((one.sequence for one in everything if one.time <= asked.end_time), default=0)
    wanted = Filter(asked.subjects)
    chosen = [one for one in everything if one.sequence <= high and wanted.matches(one.subject)]
    if asked.last_per_subject:
        newest = {one.subject: one.sequence for one in chosen}
        chosen = [one for one in chosen if newest[one.subject] == one.sequence]
    chosen = [one for one in chosen if one.sequence >= low]
    expected = chosen[::-1] if asked.reverse else chosen
    replies = list(pages(shards, asked))
    assert all(len(reply.sequences) <= asked.limit for reply in replies)
    found = [one for reply in replies for one in messages_of(shards, reply)]
    assert [(one.sequence, one.subject, one.time_ns) for one in found] == [
        (one.sequence, one.subject, one.time) for one in expected
    ]
    stones = {reply.sequences[place] for reply in replies for place in reply.tombstones}
    assert stones == {one.sequence for one in expected if one.tombstone}
    assert {
        one.sequence for one in expected if shards.written[state.topic, one.sequence].headers == DELETED
    } == stones
    if asked.form == WHOLE:
        assert found == [shards.written[state.topic, one.sequence] for one in expected]
