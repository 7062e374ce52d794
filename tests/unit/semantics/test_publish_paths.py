"""Publishing packs of anything: no limit is ever exceeded, and compaction keeps what exists."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.stream_config import StreamConfig
from railgun.protocol import avro as wire
from railgun.protocol.topics import Names
from railgun.semantics.steps import finish
from railgun.semantics.streams import backlog, limits, ttl
from railgun.semantics.streams.log_keys import NOT_KNOWN
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.outcomes import PackOutcome, Stored
from railgun.state import keys
from tests.support.publish_packs import (
    NO_LIMITS,
    Pack,
    by_index,
    configs,
    decide,
    packs,
    platforms,
    stream,
    visible,
)


def test_an_empty_pack_changes_nothing() -> None:
    state = stream(StreamConfig(name="S", subjects=["a.*"], duplicate_window=10))
    before = visible(state)
    assert decide(state, Pack([], [], [], []), 5, NO_LIMITS, 1 << 60, Stored()) == PackOutcome()
    assert visible(state) == before


# ------------------------------------------------------------ limits


@settings(max_examples=150)
@given(configs, st.lists(packs(), max_size=6), platforms)
def test_no_limit_is_ever_exceeded(config: StreamConfig, sent: list[Pack], platform: ClusterLimits) -> None:
    state, log, time = stream(config), Stored(), 1_000
    for pack in sent:
        before, last = visible(state), state.last_seq
        outcome = decide(state, pack, time, platform, 1 << 60, log)
        found = [one[0] if type(one) is tuple else one for one in by_index(outcome).values()]
        stored = [one for one in found if isinstance(one, int) and one > 0]
        assert stored == list(
            range(last + 1, last + 1 + len(stored))
        )  # no sequence is lost to a refusal (PUB-15)
        if not stored:
            assert visible(state) == before
        if config.max_msgs > 0:
            assert state.messages <= config.max_msgs
        if config.max_bytes > 0:
            assert state.bytes <= config.max_bytes
        if config.max_msgs_per_subject > 0:
            assert max(state.subjects().values(), default=0) <= config.max_msgs_per_subject
        if platform.max_stream_bytes and config.max_bytes <= 0:
            assert state.bytes <= platform.max_stream_bytes
        assert state.bytes == sum(entry.size for entry in state.iterate())
        assert len(log.sequences) == state.last_seq


def reconfigure(state: OwnedStream, config: StreamConfig) -> None:
    before = state.config
    state.reconfigure(config, 1_000)
    limits.tighten(state, before)
    finish(backlog.catch_up(state))


@settings(max_examples=150)
@given(st.lists(packs(with_headers=False), max_size=6), configs, configs)
def test_a_tighter_configuration_trims_at_once(
    sent: list[Pack], loose: StreamConfig, tight: StreamConfig
) -> None:
    state = stream(loose.model_copy(update={"discard": "old", "discard_new_per_subject": False}))
    for pack in sent:
        decide(state, pack, 1_000, NO_LIMITS, 1 << 60, Stored())
    newest = list(state.iterate())
    reconfigure(state, tight.model_copy(update={"storage": loose.storage}))
    assert tight.discard == "new" or not limits.needs_trim(state, 0, 0)  # UPD-06
    per_subject = tight.max_msgs_per_subject
    assert per_subject <= 0 or max(state.subjects().values(), default=0) <= per_subject
    kept = list(state.iterate())
    for subject in state.subjects():
        own = [entry for entry in newest if entry.subject == subject]
        assert [entry for entry in kept if entry.subject == subject] == own[
            len(own) - state.count_of(subject) :
        ]


# ------------------------------------------------------------ what compaction keeps


# Of streams that were recorded before keys were: what their records say.
def _as_recorded_once(state: OwnedStream) -> OwnedStream:
    key = keys.stream(1)
    record = wire.decode("stream_record", state.overlay.get(key) or b"")
    lacking = dict.fromkeys(("own_keys_from", "values_from", "newest_from"), NOT_KNOWN)
    state.overlay.put(key, wire.encode("stream_record", record | lacking))
    return OwnedStream.load(state.overlay, 1, Names())


@settings(max_examples=300)
@example([Pack(["b", "b"], [], [], [b"", b""]), Pack([], [], [], [])], [(1, 3)], -1, [], set(), 9)
@example([Pack(["b", "b"], [], [], [b"", b""]), Pack([], [], [], [])], [(1, 1)], -1, [20, 2], set(), 9)
@given(
    st.lists(packs(), max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([-1, 1, 2, 3])), max_size=3),
    st.sampled_from([-1, 1, 1, 3]),
    st.lists(st.integers(1, 20), max_size=4),
    st.sets(st.integers(0, 5)),
    st.integers(0, 9),
)
def test_compaction_drops_no_message_that_exists_and_every_other(
    sent: list[Pack],
    changes: list[tuple[int, int]],
    per_subject: int,
    removals: list[int],
    aborted: set[int],
    upgraded: int,
) -> None:
    """Kafka keeps the last record of each key: of the messages that exist, each must be the last of its key; others, tombstones are."""
    config = StreamConfig(
        name="S", subjects=["a.*", "b"], allow_rollup_hdrs=True, max_msgs_per_subject=per_subject
    )
    state = stream(config)
    state.seal()
    state.overlay._table.apply(state.overlay.changes)
    state.overlay.clear()
    records: list[tuple[bytes, int]] = []  # (key, sequence; 0 for a tombstone)
    for number, pack in enumerate(sent):
        for at, chosen in changes:
            if at == number:
                before, config = config, config.model_copy(update={"max_msgs_per_subject": chosen})
                state.reconfigure(config, 1_000)
                limits.tighten(state, before)
        if state.crowded and number % 2:
            limits.thin_out(state)
        for sequence in removals[number:]:
            state.remove(sequence)
        log = Stored()
        decide(state, pack, 1_000, NO_LIMITS, 1 << 60, log)
        written = list(zip(state.log_keys.all_of(log.subjects, log.sequences), log.sequences, strict=True))
        written += [(key, 0) for key in state.log_keys.tombstones()]
        state.seal()
        if number in aborted:
            state.overlay.clear()
            state = OwnedStream.load(state.overlay, 1, Names())
            config = state.config
            continue
        records += written
        state.overlay._table.apply(state.overlay.changes)
        state.overlay.clear()
        if number == upgraded:
            state = _as_recorded_once(state)
        if state.compacted:
            last, alive = set(dict(records).values()), {entry.sequence for entry in state.iterate()}
            assert alive <= last
            assert upgraded < 6 or alive == last - {0}
    assert state.compacted == (per_subject > 0)


# ------------------------------------------------------------ odd headers


@pytest.mark.parametrize(
    "header",
    [
        (h.EXPECTED_LAST_SEQUENCE, b"9" * 5_000),
        (h.EXPECTED_LAST_SUBJECT_SEQUENCE, b"9" * 5_000),
        (h.EXPECTED_LAST_SEQUENCE, "²".encode()),
        (h.TTL, b"9" * 5_000),
        (h.TTL, b"9" * 400 + b"h"),
        (h.TTL, b"99999999999"),
        (h.TTL, "²".encode()),
        (h.TTL, b"-5s"),
        (h.MSG_ID, b"x" * 70_000),
        (h.ROLLUP, b"\xff"),
    ],
)
def test_a_header_that_says_nothing_sensible_is_refused(header: tuple[str, bytes]) -> None:
    state = stream(StreamConfig(name="S", subjects=["b"], allow_msg_ttl=True, allow_rollup_hdrs=True))
    outcome = decide(state, Pack(["b"], [], [[header]], [b""]), 1, NO_LIMITS, 1 << 60, Stored())
    assert len(outcome.refused) == 1
    assert state.messages == 0


def test_an_id_that_is_too_long_is_refused_in_columns_too() -> None:
    state = stream(StreamConfig(name="S", subjects=["b"], duplicate_window=10))
    outcome = decide(state, Pack(["b"], ["x" * 70_000], [], [b""]), 1, NO_LIMITS, 1 << 60, Stored())
    assert [refusal.err_code for _, refusal in outcome.refused] == [10097]  # LIM-14


def test_ids_that_are_no_text_are_still_different_ids() -> None:
    state = stream(StreamConfig(name="S", subjects=["b"], duplicate_window=10))
    sent = [[(h.MSG_ID, b"\xff")], [(h.MSG_ID, b"\xfe")], [(h.MSG_ID, b"\xff")]]
    outcome = decide(state, Pack(["b"] * 3, [], sent, [b""] * 3), 1, NO_LIMITS, 1 << 60, Stored())
    assert (outcome.runs, outcome.duplicates) == ([(0, 2, 1)], [(2, 1)])


def test_a_longer_window_does_not_bring_back_ids_that_had_left() -> None:
    config = StreamConfig(name="S", subjects=["b"], duplicate_window=1)
    state = stream(config)
    decide(state, Pack(["b"], ["1"], [], [b""]), 0, NO_LIMITS, 1 << 60, Stored())
    state.reconfigure(config.model_copy(update={"duplicate_window": 3_600}), 2_000_000_000)
    assert state.window.original("1") is None


def test_what_a_marker_pushes_out_leaves_no_marker_of_its_own() -> None:
    """TTL-08 speaks of age and TTL; a limit leaves nothing."""
    config = StreamConfig(
        name="S", subjects=[">"], max_age=1, max_bytes=150, subject_delete_marker_ttl=60, allow_msg_ttl=True
    )
    state = stream(config)
    for subject in ("a", "b", "c"):
        decide(state, Pack([subject], [], [], [b""]), 0, NO_LIMITS, 1 << 60, Stored())
    markers = ttl.expire(state, 2_000_000_000, 2_000_000_000)
    assert state.bytes <= 150
    assert [marker.subject for marker in markers] == ["a", "c"]  # the first marker pushed b out
