"""Batches at a shard: any interleaving, with drains that are cut and aborted, ends as a plain model of the rules says."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.protocol.topics import Names
from railgun.semantics.messages.budget import Pool, WorkerMemory
from railgun.shard.streams.batching import Batches
from railgun.shard.streams.staging import Staging
from tests.support.shards import Shards

SECOND = 1_000_000_000
TIMEOUT = 10
MOST, IN_FLIGHT = 4, 2
STREAM = "S"
STREAM_TOPIC = Names().log(STREAM)


class Model:
    """The rules of batches, one message at a time; time in seconds."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.outcomes: dict[int, int | Refusal] = {}
        self.abandoned: list[tuple[str, str]] = []
        self._batches: dict[str, list[bytes]] = {}
        self._silent: dict[str, int] = {}

    def wait(self, seconds: int) -> None:
        for batch in sorted(self._silent, key=lambda one: (-self._silent[one], one)):
            self._silent[batch] += seconds
            if self._silent[batch] >= TIMEOUT:
                self._abandon(batch, "timeout")

    def forget(self) -> None:
        self._batches, self._silent = {}, {}

    def publish(self, payload: bytes) -> int:
        self.log.append(payload)
        return len(self.log)

    def message(
        self, batch: str, sequence: int, commit: str | None, payload: bytes, expected: int | None
    ) -> int | Refusal:
        known = self._batches.get(batch)
        if known is None and sequence != 1:
            large = sequence > MOST + (commit == "eob")
            return refusals.batch_too_large(MOST) if large else refusals.BATCH_INCOMPLETE
        if commit not in (None, "1", "eob"):
            self._drop(batch)
            return refusals.BATCH_COMMIT_INVALID
        if known is not None and sequence != len(known) + 1:
            self._abandon(batch, "incomplete")
            return refusals.BATCH_INCOMPLETE
        if sequence > MOST + (commit == "eob"):
            self._abandon(batch, "large")
            return refusals.batch_too_large(MOST)
        if known is None:
            if commit == "eob":
                return refusals.BATCH_INCOMPLETE
            if len(self._batches) >= IN_FLIGHT:
                return refusals.TOO_MANY_BATCHES
            known = self._batches[batch] = []
        if commit is None:
            known.append(payload)
            self._silent[batch] = 0
            return 0
        self._drop(batch)
        # Only the commit expects anything here: on the first message the last sequence, on a later one what is refused.
        if expected is not None and commit == "1":
            if expected != len(self.log):
                return refusals.wrong_last_sequence(len(self.log))
            if known:
                return refusals.WRONG_LAST_IN_BATCH
        self.log += [*known, payload] if commit == "1" else known
        return len(self.log)

    def _abandon(self, batch: str, reason: str) -> None:
        self._drop(batch)
        self.abandoned.append((batch, reason))

    def _drop(self, batch: str) -> None:
        self._batches.pop(batch, None)
        self._silent.pop(batch, None)


sequences = st.sampled_from([1, 1, 2, 2, 3, 3, 4, 5, 6])
commits = st.sampled_from([None, None, None, "1", "1", "eob", "x"])
messages = st.tuples(
    st.just("message"),
    st.sampled_from("XYZ"),
    sequences,
    commits,
    st.one_of(st.none(), st.none(), st.integers(0, 3)),
)
following = st.tuples(
    st.just("next"), st.sampled_from("XY"), st.sampled_from([None, None, None, None, None, "1", "eob"])
)
moves = st.one_of(
    messages,
    *[following] * 4,
    st.tuples(st.just("publish")),
    *[st.tuples(st.just("drain"), st.integers(1, 3), st.booleans())] * 3,
    st.tuples(st.just("wait"), st.sampled_from([3, 9, 10])),
    st.tuples(st.just("restart")),
)


@given(st.lists(moves, min_size=15, max_size=40), st.sampled_from([1, 3, 6]))
@settings(max_examples=160, deadline=None)
def test_any_interleaving_ends_as_the_rules_say(history: list[tuple[Any, ...]], in_a_pack: int) -> None:
    limits = ClusterLimits(
        max_batch_messages=MOST, max_stream_batches=IN_FLIGHT, batch_timeout=TIMEOUT * SECOND
    )
    shards = Shards(1, limits, memory=WorkerMemory())
    shards.request(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "allow_atomic": True})
    shards.settle()
    model, sent = Model(), dict.fromkeys("XYZ", 0)
    waiting: list[tuple[list[tuple[str, bytes]], bytes, int | Refusal]] = []

    def publish(most: int) -> None:
        """What waits is sent as one pack, if there is more than that."""
        if len(waiting) > most:
            headers, payloads, outcomes = map(list, zip(*waiting, strict=True))
            first = shards.publish(STREAM, [STREAM] * len(waiting), headers=headers, payloads=payloads)
            model.outcomes.update(enumerate(outcomes, first))
            waiting.clear()

    for number, (kind, *values) in enumerate(history):
        payload = b"%d" % number
        publish(in_a_pack - 1 if kind in ("publish", "message", "next") else 0)
        if kind == "drain":
            shards.step(0, values[0], abort=values[1])
        elif kind == "wait":
            shards.settle()
            shards.now += values[0] * SECOND
            model.wait(values[0])
            shards.step(0, abort=True)
            shards.settle()
        elif kind == "restart":
            shards.settle()
            shards.restart(0)
            model.forget()
        elif kind == "publish":
            waiting.append(([], payload, model.publish(payload)))
        else:
            batch, sequence, commit, expected = (
                (values[0], sent[values[0]] + 1, values[1], None) if kind == "next" else values
            )
            headers = [(h.BATCH_ID, batch.encode()), (h.BATCH_SEQUENCE, b"%d" % sequence)]
            if commit is not None:
                headers.append((h.BATCH_COMMIT, commit.encode()))
                if expected is not None:
                    headers.append((h.EXPECTED_LAST_SEQUENCE, b"%d" % expected))
            outcome = model.message(batch, sequence, commit, payload, expected)
            waiting.append((headers, payload, outcome))
            sent[batch] = sequence if outcome == 0 else 0
    publish(0)
    shards.settle()
    assert shards.outcomes == model.outcomes
    seen = shards.snapshot()[STREAM]
    assert [seen["payloads"][one] for one in sorted(seen["payloads"])] == model.log
    assert [
        told(one.body) for drain in shards.drains for one in drain.advisories if b'"batch"' in one.body
    ] == (model.abandoned)


def test_a_part_of_a_batch_is_staged_as_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for its first message, and the one that commits."""
    received = received_alone(monkeypatch)
    shards = Shards(1)
    shards.request(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "allow_atomic": True})
    shards.settle()
    headers = [header("X", number) for number in range(1, 6)]
    first = shards.publish(STREAM, [STREAM] * 5, headers=headers, payloads=[b"%d" % one for one in range(5)])
    shards.publish(STREAM, [STREAM], headers=[header("X", 6, "1")], payloads=[b"5"])
    shards.settle()
    assert [shards.outcomes[first + index] for index in range(6)] == [0, 0, 0, 0, 0, 6]
    assert received == [b"0", b"5"]


@pytest.mark.rule("BAT-04", "BAT-06", "BAT-14")
def test_batches_that_come_whole_are_not_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    received = received_alone(monkeypatch)
    shards = Shards(1)
    shards.request(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "allow_atomic": True})
    shards.settle()
    headers = [header("X", 1), header("X", 2), header("X", 3, "1"), [], header("Y", 1, "1")]
    first = shards.publish(STREAM, [STREAM] * 5, headers=headers, payloads=[b"%d" % one for one in range(5)])
    shards.settle()
    assert [shards.outcomes[first + index] for index in range(5)] == [0, 0, 3, 4, 5]
    assert received == []
    assert [shards.written[STREAM_TOPIC, sequence].headers for sequence in range(1, 6)] == headers


def received_alone(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The payloads of messages that are received each by itself, from now on."""
    received: list[bytes] = []
    general = Batches.receive

    def receive(self: Batches, *given: Any) -> int | Refusal:
        received.append(given[3])
        return general(self, *given)

    monkeypatch.setattr(Batches, "receive", receive)
    return received


extra_headers = st.lists(
    st.sampled_from(
        [
            ("Trace", b"1"),
            (h.EXPECTED_LAST_SUBJECT_SEQUENCE, b"0"),
            (h.EXPECTED_LAST_SEQUENCE, b"0"),
            (h.MSG_ID, b"id"),
            (h.REQUIRED_API_LEVEL, b"2"),
            (h.BATCH_ID, b"X"),
            (h.BATCH_COMMIT, b"1"),
            (h.BATCH_SEQUENCE, b"2"),
        ]
    ),
    max_size=2,
)
batch_messages = st.tuples(
    st.sampled_from(["a", "b", "elsewhere"]), extra_headers, st.sampled_from([b"", b"x", bytes(3_000)])
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["X", " X", "é", "n" * 65]),
            st.lists(batch_messages, min_size=1, max_size=5),
            st.sampled_from(["1", "1", "1", "eob", "0", None]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([4_000, 1 << 26]),
    st.sampled_from(
        [
            {},
            {"allow_atomic": False},
            {"max_msgs": 5},
            {"max_msgs": 5, "discard": "new"},
            {"max_bytes": 3_500, "discard": "new"},
            {"max_msgs_per_subject": 2},
            {"retention": "interest"},
        ]
    ),
)
@settings(max_examples=250, deadline=None)
def test_batches_end_alike_in_one_pack_in_several_and_message_by_message(
    sent: list[tuple[str, list[tuple[str, list[tuple[str, bytes]], bytes]], str | None]],
    staged: int,
    config: dict[str, Any],
) -> None:
    messages = [
        (subject, [*extra, *header(batch, number, commit if number == len(of_batch) else None)], payload)
        for batch, of_batch, commit in sent
        for number, (subject, extra, payload) in enumerate(of_batch, 1)
    ]
    batches = list(accumulate((len(of_batch) for _, of_batch, _ in sent), initial=0))
    ended = []
    for ends in ([0, len(messages)], batches, list(range(len(messages) + 1))):
        memory = WorkerMemory()
        memory.staged = Pool(staged)
        shards = Shards(1, ClusterLimits(max_batch_messages=4, max_stream_batches=2), memory=memory)
        shards.request(
            f"STREAM.CREATE.{STREAM}",
            {"name": STREAM, "subjects": ["a", "b"], "allow_atomic": True, **config},
        )
        shards.settle()
        for start, end in pairwise(ends):
            subjects, headers, payloads = map(list, zip(*messages[start:end], strict=True))
            shards.publish(STREAM, subjects, headers=headers, payloads=payloads)
        shards.settle()
        ended.append((shards.outcomes, shards.snapshot(), shards.written, memory.staged.total))
    assert ended[0] == ended[1] == ended[2]


def test_batches_that_lie_whole_in_a_pack_are_stored_as_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a condition of one could see another, or not all of them can be stored."""
    runs: list[int | None] = []
    general = Batches.receive_whole

    def receive_whole(self: Batches, *given: Any) -> int | None:
        last = general(self, *given)
        runs.append(None if last is None else len(given[3]))
        return last

    monkeypatch.setattr(Batches, "receive_whole", receive_whole)
    shards = Shards(1)
    shards.request(
        f"STREAM.CREATE.{STREAM}", {"name": STREAM, "allow_atomic": True, "max_msgs": 9, "discard": "new"}
    )
    shards.settle()

    def publish(*headers: list[tuple[str, bytes]]) -> list[int | Refusal]:
        first = shards.publish(STREAM, [STREAM] * len(headers), headers=list(headers))
        shards.settle()
        return [shards.outcomes[first + index] for index in range(len(headers))]

    x, y = [header("X", 1), header("X", 2, "1")], [header("Y", 1), header("Y", 2, "1")]
    assert publish(*x, *y) == [0, 2, 0, 4]
    assert runs == [2]
    runs.clear()
    expecting = [(h.EXPECTED_LAST_SUBJECT_SEQUENCE, b"4"), *header("Z", 1, "1")]
    assert publish(expecting, *x) == [5, 0, 7]
    assert runs == [1, 1]
    runs.clear()
    full = refusals.store_refused("maximum messages exceeded")
    assert publish(*x, *y, header("Z", 1, "1")) == [0, 9, 0, full, full]
    assert runs == [None, 1, None, None]


def test_a_run_of_a_batch_ends_where_the_memory_does() -> None:
    memory = WorkerMemory()
    memory.staged = Pool(2_700)  # of a message, each header counts some 160 bytes
    shards = Shards(1, memory=memory)
    shards.request(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "allow_atomic": True})
    shards.settle()
    headers = [header("X", number) for number in range(1, 6)]
    first = shards.publish(STREAM, [STREAM] * 5, headers=headers, payloads=[b"x"] * 5)
    shards.settle()
    found = [shards.outcomes[first + index] for index in range(5)]
    assert found[:3] == [0, 0, 0]
    assert found[3:] == [refusals.batch_too_large("2700 bytes"), refusals.BATCH_INCOMPLETE]
    assert memory.staged.total == 0


def told(body: bytes) -> tuple[str, str]:
    found = json.loads(body)
    return found["batch"], found["reason"]


def header(batch: str, sequence: int, commit: str | None = None) -> list[tuple[str, bytes]]:
    given = [(h.BATCH_ID, batch.encode()), (h.BATCH_SEQUENCE, b"%d" % sequence)]
    return given if commit is None else [*given, (h.BATCH_COMMIT, commit.encode())]


def two_streams(**limits: int) -> tuple[Shards, WorkerMemory]:
    memory = WorkerMemory()
    shards = Shards(2, ClusterLimits(**limits), memory=memory)
    for name in ("A", "B", "C"):
        shards.request(f"STREAM.CREATE.{name}", {"name": name, "allow_atomic": True})
    shards.settle()
    return shards, memory


@pytest.mark.rule("BAT-24")
def test_all_shards_of_a_worker_share_the_places_for_batches() -> None:
    shards, memory = two_streams(max_batches=2)
    for name in ("A", "B"):
        shards.publish(name, [name], headers=[header("X", 1)])
    shards.settle()
    third = shards.publish("C", ["C"], headers=[header("X", 1)])
    shards.settle()
    assert shards.outcomes[third] == refusals.TOO_MANY_BATCHES
    shards.publish("A", ["A"], headers=[header("X", 2, "1")])
    shards.settle()
    again = shards.publish("C", ["C"], headers=[header("X", 1)])
    shards.settle()
    assert shards.outcomes[again] == 0
    assert memory.batches.total == 2


@pytest.mark.rule("PUB-20", "BAT-13")
def test_a_batch_that_is_larger_than_what_a_drain_takes_is_stored() -> None:
    shards, memory = two_streams(max_in_flight=2)
    whole = [header("X", 1), header("X", 2), header("X", 3), header("X", 4, "1")]
    first = shards.publish("A", ["A"] * 4, headers=whole)
    late = shards.publish("A", ["A"] * 4, headers=[[(h.BATCH_ID, b"Y"), *one[1:]] for one in whole])
    shards.settle()
    assert [shards.outcomes[first + number] for number in range(4)] == [0, 0, 0, 4]
    assert {shards.outcomes[late + number] for number in range(4)} == {refusals.TOO_MANY_REQUESTS}
    assert memory.batches.total == 0
    shards.publish("A", ["A"], headers=whole[:1])
    shards.settle()
    shards.publish("A", ["A"] * 2)  # which are all that a drain takes
    rest = shards.publish("A", ["A"] * 3, headers=whole[1:])
    shards.settle()
    assert shards.outcomes[rest + 2] == 10


@pytest.mark.rule("PUB-20", "BAT-17")
@pytest.mark.parametrize("place", [b"", b"x", b"0"])
def test_what_has_no_place_in_a_batch_goes_on_with_none(place: bytes) -> None:
    """Else a client would have as much taken as it likes."""
    shards, _ = two_streams(max_in_flight=2)
    placed = [(h.BATCH_ID, b"X"), (h.BATCH_SEQUENCE, place)]
    first = shards.publish("A", ["A"] * 5, headers=[placed] * 5)
    shards.settle()
    told = [shards.outcomes[first + number] for number in range(5)]
    assert told.count(refusals.TOO_MANY_REQUESTS) == 3


@pytest.mark.rule("BAT-21", "BAT-24")
def test_what_is_staged_is_bounded_for_one_batch_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    shards, memory = two_streams()
    monkeypatch.setattr(memory.staged, "_limit", 10_000)
    alone = shards.publish(
        "A", ["A"] * 2, headers=[header("X", 1), header("X", 2)], payloads=[bytes(6_000)] * 2
    )
    shards.settle()
    assert shards.outcomes[alone + 1] == refusals.batch_too_large("10000 bytes")
    shards.publish("A", ["A"], headers=[header("X", 1)], payloads=[bytes(6_000)])
    second = shards.publish("B", ["B"], headers=[header("X", 1)], payloads=[bytes(6_000)])
    shards.settle()
    assert shards.outcomes[second] == refusals.TOO_MANY_BATCHES
    assert memory.batches.total == 1


def test_a_drain_looks_at_no_batch_before_one_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    shards, memory = two_streams()
    for batch in ("X", "Y"):
        shards.publish("A", ["A"], headers=[header(batch, 1)])
    shards.settle()
    with monkeypatch.context() as patch:
        patch.setattr(Staging, "_all", None)
        shards.now += (TIMEOUT - 1) * SECOND
        shards.publish("A", ["A"], headers=[header("Y", 2)])
        shards.settle()
    shards.now += 2 * SECOND
    shards.settle()
    assert memory.batches.total == 1
    shards.now += TIMEOUT * SECOND
    shards.settle()
    assert memory.batches.total == 0


def test_what_is_staged_is_counted_and_given_back() -> None:
    shards, memory = two_streams()
    shards.publish("A", ["A"] * 2, headers=[header("X", 1), header("X", 2)], payloads=[bytes(5_000)] * 2)
    for partition in range(2):
        shards.step(partition, abort=True)
    assert (memory.batches.total, memory.staged.total) == (0, 0)
    shards.settle()
    assert memory.batches.total == 1
    assert memory.staged.total > 10_000
    shards.publish("A", ["A"], headers=[header("X", 3, "1")])
    shards.settle()
    assert (memory.batches.total, memory.staged.total) == (0, 0)


@pytest.mark.rule("BAT-24")
def test_what_is_staged_is_counted_with_its_subject_and_each_of_its_headers() -> None:
    shards, memory = two_streams()
    shards.request("STREAM.CREATE.LONG", {"name": "LONG", "subjects": ["LONG.*"], "allow_atomic": True})
    shards.settle()
    shards.publish("LONG", ["LONG." + "x" * 300_000], headers=[header("X", 1)], payloads=[b""])
    shards.settle()
    long_subject = memory.staged.total
    assert long_subject > 300_000
    small = [(f"k{number}", b"v") for number in range(5_000)]
    shards.publish("A", ["A"], headers=[[*header("X", 1), *small]], payloads=[b""])
    shards.settle()
    assert memory.staged.total - long_subject > 5_000 * 150  # a text, some bytes and a pair


@pytest.mark.rule("BAT-37")
def test_a_batch_whose_messages_wait_for_a_shard_that_stands_still_is_not_abandoned() -> None:
    shards, _ = two_streams()
    shards.publish("A", ["A"], headers=[header("X", 1)])
    shards.settle()
    shards.now += 9 * SECOND
    commit = shards.publish("A", ["A"], headers=[header("X", 2, "1")])
    shards.now += 60 * SECOND  # nothing is decided meanwhile
    shards.settle()
    assert shards.outcomes[commit] == 2


@pytest.mark.rule("BAT-37")
def test_a_message_that_came_too_late_is_so_however_late_it_is_decided() -> None:
    shards, _ = two_streams()
    shards.publish("A", ["A"], headers=[header("X", 1)])
    shards.now += 10 * SECOND
    commit = shards.publish("A", ["A"], headers=[header("X", 2, "1")])
    shards.settle()
    assert shards.outcomes[commit] == refusals.BATCH_INCOMPLETE


def test_a_batch_that_was_refused_is_not_decided_again_by_a_new_owner() -> None:
    """What a publisher was told is durable; what is only staged need not be."""
    shards, _ = two_streams()
    shards.publish("A", ["A"], headers=[header("X", 1)])
    shards.settle()
    assert shards.drains[-1].only_answers
    for lost in (header("X", 5), header("UNKNOWN", 2), header("", 1)):
        shards.publish("A", ["A"], headers=[lost])
        shards.settle()
        assert not shards.drains[-1].only_answers


def test_a_plain_record_may_be_of_a_batch() -> None:
    shards = Shards(1)
    shards.request(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "allow_atomic": True})
    shards.settle()
    for one in (header("X", 1), header("X", 2, "1"), header("Y", 2)):
        own = [(h.PLAIN_SUBJECT, STREAM.encode()), *one]
        shards.record(0, b"plain", key=STREAM.encode(), headers=own)
    shards.settle()
    assert shards.snapshot()[STREAM]["counts"][3] == 2
    assert [one.reason for one in shards.rejected] == [refusals.BATCH_INCOMPLETE.description]


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from([h.BATCH_ID, h.BATCH_SEQUENCE, h.BATCH_COMMIT, h.REQUIRED_API_LEVEL]),
                st.one_of(st.binary(max_size=70), st.sampled_from([b"1", b"2", b"X", b"eob", b" 1", b"3"])),
            ),
            max_size=6,
        ),
        max_size=20,
    )
)
@settings(max_examples=300, deadline=None)
def test_mangled_headers_are_answered_and_stop_nothing(packs: list[list[tuple[str, bytes]]]) -> None:
    shards = Shards(1)
    shards.request(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "allow_atomic": True})
    shards.settle()
    sent = [shards.publish(STREAM, [STREAM], headers=[given]) for given in packs]
    alone = shards.publish(STREAM, [STREAM])
    shards.settle()
    assert set(sent) <= set(shards.outcomes)
    last = shards.outcomes[alone]
    assert isinstance(last, int)
    assert shards.snapshot()[STREAM]["counts"][3] == last
    assert not shards.rejected
