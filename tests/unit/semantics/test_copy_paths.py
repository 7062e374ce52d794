"""Copies stored in columns and one by one: the same outcome, for mirrors and sources."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.model.stream_config import StreamConfig, StreamSource, SubjectTransform
from railgun.protocol.sourcing import SourceLease
from railgun.protocol.topics import Names
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.outcomes import Stored
from railgun.semantics.streams.sourcing import copied_columns
from railgun.semantics.streams.sourcing.copied_columns import copy_columns
from railgun.semantics.streams.sourcing.copying import Target, copy_one, messages_of
from railgun.semantics.streams.sourcing.origins import Origin, mapping_of, wanted_origins
from railgun.state.table import MemoryTable, Overlay

NO_LIMITS = ClusterLimits()
HEADERS = (
    ("other", b"value"),
    (h.EXPECTED_LAST_SEQUENCE, b"2"),
    (h.BATCH_ID, b"B"),
    (h.STREAM_SOURCE, b"FURTHER 1 > > a"),
    (h.MSG_ID, b"1"),
    (h.TTL, b"5"),
    (h.ROLLUP, b"sub"),
    (h.INCREMENT, b"+1"),
)
COPIED = ({"mirror": StreamSource(name="U")}, {"sources": [StreamSource(name="U")]})
RENAMES = [SubjectTransform(src="a.*", dest="c.$1"), SubjectTransform(src="b", dest="")]


class Side(NamedTuple):
    """One of the streams that are compared."""

    state: OwnedStream
    origin: Origin
    log: Stored


def side(config: StreamConfig) -> Side:
    state = OwnedStream(Overlay(MemoryTable()), "S", 1, config, 0, Names().log("S"))
    return Side(state, Origin("U"), Stored())


def copy(to: Side, lease: SourceLease, time: int, room: int, platform: ClusterLimits) -> Refusal | None:
    """What the owner of the stream does with a lease; the refusal at which it waits."""
    ((key, source),) = wanted_origins(to.state.config).items()
    mapping = mapping_of(key, source)
    to.state.window.expire(time)
    target = Target(
        to.state, max(time, to.state.last_time), platform, room - to.state.bytes, to.log, lambda _: None
    )
    refused = None
    if not copied_columns.copy_columns(target, to.origin, mapping, lease):
        for message in messages_of(lease, to.origin.position):
            refused = refused or copy_one(target, to.origin, mapping, message)
    assert target.room == room - to.state.bytes
    return refused


def visible(one: Side) -> dict[str, Any]:
    """Everything that a rule could look at."""
    state, log = one.state, one.log
    return {
        "state": (state.messages, state.bytes, state.first_seq, state.last_seq, state.last_time),
        "last_id": state.last_msg_id,
        "entries": list(state.iterate()),
        "subjects": state.subjects(),
        "ids": state.window.everything(),
        "tables": [list(state.overlay.scan(kind)) for kind in (b"p", b"v", b"t")],
        "tombstones": state.log_keys.tombstones(),
        "log": (log.sequences, log.subjects, [list(each) for each in log.headers], log.payloads, log.times),
        "origin": asdict(one.origin),
    }


# ------------------------------------------------------------ strategies


@st.composite
def configs(draw: st.DrawFn) -> StreamConfig:
    mirrors, counts = draw(st.booleans()), draw(st.sampled_from([False, False, True]))
    discard = "old" if counts else draw(st.sampled_from(["old", "old", "new"]))
    transforms = draw(st.sampled_from([None, RENAMES]))
    source = StreamSource(name="U", subject_transforms=transforms)
    own = SubjectTransform(src="c.*", dest="d.$1") if draw(st.booleans()) and not mirrors else None
    plain = {"subject_transform": own, "duplicate_window": draw(st.sampled_from([0.0, 1e-8, 100.0]))}
    if draw(st.booleans()):  # the way of columns is for streams like this one
        copied: dict[str, Any] = {"mirror": source} if mirrors else {"sources": [source]}
        limits = {
            "max_msgs": draw(st.sampled_from([-1, 7])),
            "max_msg_size": draw(st.sampled_from([-1, 40])),
            "max_msgs_per_subject": draw(st.sampled_from([-1, 1, 2])),
            "allow_direct": draw(st.booleans()),
        }
        return StreamConfig(
            name="S", subjects=[], allow_msg_ttl=draw(st.booleans()), **copied, **plain, **limits
        )
    return StreamConfig(
        name="S",
        mirror=source if mirrors else None,
        sources=None if mirrors else [source],
        subjects=[] if mirrors else ["own"],
        discard=discard,
        allow_msg_counter=counts and not mirrors,
        max_msgs=draw(st.sampled_from([-1, -1, 3, 7])),
        max_bytes=draw(st.sampled_from([-1, -1, 300, 900])),
        max_msgs_per_subject=draw(st.sampled_from([-1, -1, -1, 1, 2])),
        max_msg_size=draw(st.sampled_from([-1, -1, 60])),
        allow_direct=draw(st.booleans()),
        allow_rollup_hdrs=draw(st.booleans()),
        allow_msg_ttl=draw(st.booleans()) and not counts,
        **plain,
    )


@st.composite
def leases(draw: st.DrawFn) -> list[SourceLease]:
    """Leases of one session, with holes in them and between them."""
    found, following, time = [], 1, 1_000
    for _ in range(draw(st.integers(0, 4))):
        counts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
        firsts = []
        for count in counts:
            firsts.append(following + draw(st.sampled_from([0, 1, 600])))
            following = firsts[-1] + count + 1
        total = sum(counts)
        of = lambda one, size=total: draw(st.lists(one, min_size=size, max_size=size))  # noqa: E731
        kinds = draw(st.lists(st.sampled_from(HEADERS), max_size=3, unique=True))
        time += draw(st.integers(0, 20))
        found.append(
            SourceLease(
                "U",
                9,
                "S",
                1,
                "U",
                1,
                firsts,
                counts,
                of(st.sampled_from(["a.x", "a.y", "b"])),
                of(st.lists(st.sampled_from(kinds), max_size=2, unique=True)) if kinds else [()] * total,
                of(st.sampled_from([b"", b"x" * 25, b'{"val":"7"}', b'{"val":"2"}'])),
                [time + step for step in range(total)],
                reached=following - 1,
            )
        )
        time += total
    return found


# ------------------------------------------------------------ the same outcome


@settings(max_examples=300)
@given(
    configs(),
    leases(),
    st.sampled_from([1 << 60, 1 << 60, 500]),
    st.sampled_from([NO_LIMITS, NO_LIMITS, ClusterLimits(max_stream_bytes=400)]),
)
def test_columns_and_single_messages_give_the_same_outcome(
    config: StreamConfig, sent: list[SourceLease], room: int, platform: ClusterLimits
) -> None:
    compare(config, sent, room, platform)


def compare(config: StreamConfig, sent: list[SourceLease], room: int, platform: ClusterLimits) -> None:
    """Copy the leases in both ways, and look at everything after each."""
    fast, slow = side(config), side(config)
    for number, lease in enumerate(sent):
        time = 2_000 + 8 * number
        refused = copy(fast, lease, time, room, platform)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(copied_columns, "copy_columns", lambda *_: False)
            assert copy(slow, lease, time, room, platform) == refused
        assert visible(fast) == visible(slow)
        if refused is not None:
            break  # what is left of the session is void


@pytest.mark.parametrize("copied", COPIED)
@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header[0])
def test_each_header_that_is_obeyed_is_looked_at(header: tuple[str, bytes], copied: dict[str, Any]) -> None:
    """Behind plain messages, and before them."""
    config = StreamConfig(name="S", subjects=[], allow_msg_ttl=True, duplicate_window=100, **copied)
    sent = [
        SourceLease("U", 9, "S", 1, "U", 1, [at], [1], ["a"], [given], [b'{"val":"1"}'], [at], reached=at)
        for at, given in enumerate(([], [header], [header], []), 1)
    ]
    compare(config, sent, 1 << 60, NO_LIMITS)


@pytest.mark.parametrize("copied", COPIED)
def test_the_column_path_is_taken_at_all(copied: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the property above would compare a path with itself."""
    taken = []
    monkeypatch.setattr(
        copied_columns, "copy_columns", lambda *given: taken.append(copy_columns(*given)) or taken[-1]
    )
    to = side(StreamConfig(name="S", subjects=[], **copied))
    lease = SourceLease(
        "U", 9, "S", 1, "U", 1, [2], [2], ["a", "b"], [(), ()], [b"x", b"y"], [5, 6], reached=3
    )
    assert copy(to, lease, 10, 1 << 60, NO_LIMITS) is None
    assert taken == [True]
    assert (to.state.messages, to.origin.position) == (2, 3)


def test_messages_that_are_copied_already_are_passed_over() -> None:
    to = side(StreamConfig(name="S", subjects=[], sources=[StreamSource(name="U")]))
    lease = SourceLease("U", 9, "S", 1, "U", 1, [1], [3], ["a"] * 3, [()] * 3, [b"x"] * 3, [5] * 3, reached=3)
    for _ in range(2):
        assert copy(to, lease, 10, 1 << 60, NO_LIMITS) is None
    to.origin.position = 2
    assert copy(to, lease, 10, 1 << 60, NO_LIMITS) is None
    assert (to.state.messages, to.origin.position) == (4, 3)
