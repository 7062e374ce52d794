"""Copying in columns and one by one: the same outcome; and no limit is ever exceeded."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.model.stream_config import StreamConfig, StreamSource, SubjectTransform
from railgun.protocol.sourcing import SourceLease
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.outcomes import Stored
from railgun.semantics.streams.sourcing.copied_columns import copy_columns
from railgun.semantics.streams.sourcing.copying import Target, copy_one, messages_of
from railgun.semantics.streams.sourcing.origins import MIRROR, Origin, SourceMapping, mapping_of
from tests.support.publish_packs import (
    NO_LIMITS,
    configs,
    increments,
    of_one,
    platforms,
    rooms,
    stream,
    visible,
)

SOURCES = (
    StreamSource(name="UP"),
    StreamSource(name="UP", filter_subject="a.>"),
    StreamSource(
        name="UP", subject_transforms=[SubjectTransform(src="a.*", dest="n.$1"), SubjectTransform(src="b")]
    ),
)
BATCH = [(h.BATCH_ID, b"1"), (h.BATCH_SEQUENCE, b"1")]
bodies = st.sampled_from([b"", b"x", b"long enough to matter", b'{"val":"7"}'])


@st.composite
def leases(draw: st.DrawFn) -> list[SourceLease]:
    """What an upstream sends: runs with gaps, subjects, headers, times that never go back."""
    found, sequence, time = [], 0, 100
    for _ in range(draw(st.integers(1, 3))):
        runs = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=3))
        sequences, counts = [], []
        for gap, count in runs:
            sequences.append(sequence + gap)
            counts.append(count)
            sequence += gap + count - 1
        number = sum(counts)
        of = lambda one, number=number: draw(st.lists(one, min_size=number, max_size=number))  # noqa: E731
        kind = draw(st.sampled_from(["plain", "plain", "headers", "counting", "stripped"]))
        headers: list[Any] = []
        if kind == "headers":
            headers = of(of_one)
        elif kind == "counting":
            headers = [[(h.INCREMENT, text)] for text in of(increments)]
        elif kind == "stripped":
            headers = of(st.sampled_from([BATCH, [("k", b"v")], [(h.STREAM_SOURCE, b"X 1 > > y")]]))
        times = [time := time + step for step in of(st.integers(0, 3))]
        lease = SourceLease(
            "UP", 5, "S", 1, "UP", 1, sequences, counts, of(st.sampled_from(["a.x", "a.y", "b"]))
        )
        lease = lease._replace(headers=headers if any(headers) else [], payloads=of(bodies), times=times)
        found.append(lease._replace(reached=sequence))
    return found


def copy(
    state: OwnedStream,
    mapping: SourceMapping,
    given_leases: list[SourceLease],
    platform: ClusterLimits,
    room: int,
    *,
    columns: bool,
) -> dict[str, Any]:
    """All leases, as far as the stream takes them."""
    origin, log = Origin("UP"), Stored()
    refused: Refusal | None = None
    for lease in given_leases:
        target = Target(state, 1_000, platform, room, log, None)
        if columns and copy_columns(target, origin, mapping, lease):
            continue
        for message in messages_of(lease, origin.position):
            refused = refused or copy_one(target, origin, mapping, message)
    kept = {name: value for name, value in visible(state).items() if name != "tombstones"}
    return kept | {
        "log": (log.sequences, log.subjects, [list(one) for one in log.headers], log.payloads, log.times),
        "origin": asdict(origin),
        "refused": refused,
    }


@pytest.mark.rule("MIR-01", "SRC-01", "SRC-03", "SRC-08", "DUP-14")
@settings(max_examples=400, deadline=None)
@given(
    config=configs,
    source=st.sampled_from(SOURCES),
    mirrors=st.booleans(),
    given_leases=leases(),
    platform=platforms,
    room=rooms,
)
def test_both_ways_copy_the_same(
    config: StreamConfig,
    source: StreamSource,
    mirrors: bool,
    given_leases: list[SourceLease],
    platform: ClusterLimits,
    room: int,
) -> None:
    mapping = mapping_of(MIRROR + "UP" if mirrors else "UP", source)
    quick, slow = stream(config), stream(config)
    found = copy(quick, mapping, given_leases, platform, room, columns=True)
    assert found == copy(slow, mapping, given_leases, platform, room, columns=False)
    if mirrors and found["refused"] is None:
        times = {s: t for lease in given_leases for s, t in zip(_sequences(lease), lease.times, strict=True)}
        assert all(times[entry.sequence] == entry.time for entry in found["entries"])
    if config.max_msgs > 0:
        assert quick.messages <= config.max_msgs
    for state in (quick, slow):
        state.seal()  # what is in the tail becomes blocks
    assert list(quick.iterate()) == list(slow.iterate()) == found["entries"]


def _sequences(lease: SourceLease) -> list[int]:
    return [message.sequence for message in messages_of(lease, 0)]


def test_the_quick_way_is_taken() -> None:
    """The property above must not hold only because one of the ways is never gone."""
    lease = SourceLease(
        "UP", 5, "S", 1, "UP", 1, [4, 9], [2, 1], ["a.x"] * 3, [], [b"1", b"2", b"3"], [1, 2, 3], 9
    )
    for key in ("UP", MIRROR + "UP"):
        state, origin, log = stream(StreamConfig(name="S", subjects=["a.*"])), Origin("UP"), Stored()
        assert copy_columns(
            Target(state, 9, NO_LIMITS, 1 << 60, log, None), origin, mapping_of(key, SOURCES[0]), lease
        )
        assert log.sequences == ([4, 5, 9] if key != "UP" else [1, 2, 3])
        assert origin.position == 9
