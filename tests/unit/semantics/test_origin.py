"""Where a value of a bucket was stored (KV-40): said by its owner, whatever the publisher says."""

from __future__ import annotations

import pytest

from railgun.model import headers as h
from railgun.model.stream_config import BUCKET, StreamConfig
from railgun.semantics.streams.publishing import batches
from railgun.semantics.streams.publishing.outcomes import NewMessage, Stored
from tests.support.publish_packs import NO_LIMITS, Pack, decide, one_by_one, stream

OF_A_BUCKET = StreamConfig(
    name="S",
    subjects=["b"],
    max_msgs_per_subject=5,
    allow_direct=True,
    allow_atomic=True,
    metadata={BUCKET: "B"},
)
ORIGIN = [("KV-Origin-Server", b"node"), ("KV-Origin-Cluster", b"cell")]
FORGED = [
    ("KV-Origin-Cluster", b"mine"),
    ("one", b"1"),
    ("KV-Origin-Server", b"me"),
    ("KV-Origin", b"10.0.0.1"),
]
STATED = [("one", b"1"), ("KV-Origin", b"10.0.0.1"), *ORIGIN]


@pytest.mark.rule("KV-40")
@pytest.mark.parametrize("quick", [True, False])
def test_each_put_says_where_it_was_stored_and_nobody_can_forge_it(quick: bool) -> None:
    state, log = stream(OF_A_BUCKET), Stored()
    pack = Pack(["b", "b"], [], [[], FORGED], [b"1", b"2"])
    if quick:
        decide(state, pack, 5, NO_LIMITS, 1 << 60, log)
    else:
        with one_by_one():
            decide(state, pack, 5, NO_LIMITS, 1 << 60, log)
    assert [list(one) for one in log.headers] == [ORIGIN, STATED]
    assert [state.body(sequence) for sequence in (1, 2)] == [(ORIGIN, b"1"), (STATED, b"2")]
    assert state.bytes == sum(state.measure.of("b", h.block_size(one), b"1") for one in log.headers)


@pytest.mark.rule("KV-40")
def test_a_batch_says_so_too() -> None:
    state, log = stream(OF_A_BUCKET), Stored()
    batches.commit(state, [NewMessage("b", FORGED, b"1")], 5, NO_LIMITS, 1 << 60, log, None)
    batches.commit_whole(state, ["b"], [FORGED], [b"2"], 5, NO_LIMITS, 1 << 60, 1 << 60, log, None)
    with one_by_one():
        batches.commit(state, [NewMessage("b", FORGED, b"3")], 5, NO_LIMITS, 1 << 60, log, None)
    assert [list(one) for one in log.headers] == [STATED] * 3


@pytest.mark.rule("KV-40")
def test_messages_without_headers_share_one_pair() -> None:
    state, log = stream(OF_A_BUCKET), Stored()
    decide(state, Pack(["b"] * 3, [], [], [b""] * 3), 5, NO_LIMITS, 1 << 60, log)
    assert len({id(one) for one in log.headers}) == 1


@pytest.mark.rule("KV-40")
def test_the_origin_does_not_count_towards_the_largest_value() -> None:
    config = OF_A_BUCKET.model_copy(update={"max_msg_size": 3})
    for given in ([], [[]]):
        assert not decide(
            stream(config), Pack(["b"], [], given, [b"123"]), 5, NO_LIMITS, 1 << 60, Stored()
        ).refused
    assert decide(stream(config), Pack(["b"], [], [], [b"1234"]), 5, NO_LIMITS, 1 << 60, Stored()).refused


def test_other_streams_store_what_they_are_given() -> None:
    state, log = stream(OF_A_BUCKET.model_copy(update={"metadata": None})), Stored()
    decide(state, Pack(["b"], [], [FORGED], [b"1"]), 5, NO_LIMITS, 1 << 60, log)
    assert [list(one) for one in log.headers] == [FORGED]
