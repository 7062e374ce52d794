"""Packs of publishes with anything that a message may ask for, decided against a stream in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.model.stream_config import BUCKET, StreamConfig, SubjectTransform
from railgun.protocol.replies import sequence_of
from railgun.protocol.topics import Names
from railgun.semantics.messages.budget import ShardMemory
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing import batches, publish
from railgun.semantics.streams.publishing.origin import origin_headers
from railgun.semantics.streams.publishing.outcomes import PackOutcome, Stored
from railgun.semantics.streams.publishing.publish import publish_pack
from railgun.shard.streams import publishing, sourcing
from railgun.shard.streams.batching import Batches
from railgun.state.table import MemoryTable, Overlay

NO_LIMITS = ClusterLimits()
SUBJECTS = ("a.x", "a.y", "b", "no.where", "a.*")


class Pack(NamedTuple):
    subjects: list[str]
    ids: list[str]
    headers: list[list[tuple[str, bytes]]]
    payloads: list[bytes]
    later: int = 0


def stream(config: StreamConfig) -> OwnedStream:
    memory = ShardMemory(origin=origin_headers("node", "cell"))
    return OwnedStream(Overlay(MemoryTable()), "S", 1, config, 0, Names().log("S"), memory)


def visible(state: OwnedStream) -> dict[str, Any]:
    """Everything that a rule could look at."""
    return {
        "messages": state.messages,
        "bytes": state.bytes,
        "first": state.first_seq,
        "last": state.last_seq,
        "last_id": state.last_msg_id,
        "last_time": state.last_time,
        "entries": list(state.iterate()),
        "subjects": state.subjects(),
        "ids": state.window.everything(),
        "tombstones": state.log_keys.tombstones(),
        "bodies": [*state.overlay.scan(b"p"), *state.overlay.scan(b"v")],
        "totals": list(state.overlay.scan(b"t")),
    }


# ------------------------------------------------------------ strategies

configs = st.builds(
    dict,
    max_msgs=st.sampled_from([-1, -1, 1, 3, 7]),
    max_bytes=st.sampled_from([-1, -1, 150, 400]),
    max_msgs_per_subject=st.sampled_from([-1, -1, 1, 1, 2]),
    max_msg_size=st.sampled_from([-1, -1, 20]),
    discard=st.sampled_from(["old", "old", "new"]),
    discard_new_per_subject=st.booleans(),
    storage=st.sampled_from(["file", "memory"]),
    allow_direct=st.booleans(),
    allow_rollup_hdrs=st.booleans(),
    allow_msg_ttl=st.booleans(),
    duplicate_window=st.sampled_from([0.0, 1e-8, 100.0]),
    allow_msg_counter=st.booleans(),
    deny_purge=st.sampled_from([False, False, True]),
    metadata=st.sampled_from([None, {BUCKET: "B"}]),
    transform=st.booleans(),
).map(
    lambda fields: StreamConfig(
        name="S",
        subjects=["a.*", "b"],
        subject_transform=SubjectTransform(src="a.*", dest="a.{{wildcard(1)}}.t")
        if fields.pop("transform")
        else None,
        **fields
        | ({"discard": "old", "allow_msg_ttl": False} if fields["allow_msg_counter"] else {})
        | {
            "discard_new_per_subject": fields["discard_new_per_subject"]
            and fields["discard"] == "new"
            and not fields["allow_msg_counter"]
        },
    )
)
small_numbers = st.sampled_from([b"0", b"0", b"0", b"1", b"2", b"3", b" 4", b"5", b"x", b""])
conditions = st.sampled_from(
    [
        (h.EXPECTED_LAST_SEQUENCE, b"x"),
        (h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT, b">"),
        (h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT, b"a.*"),
        (h.EXPECTED_LAST_MSG_ID, b"1"),
        (h.EXPECTED_STREAM, b"S"),
        (h.EXPECTED_STREAM, b"T"),
        (h.ROLLUP, b"sub"),
        (h.ROLLUP, b"SUB"),
        (h.KV_ORIGIN_SERVER, b"forged"),
        (h.ROLLUP, b"all"),
        (h.TTL, b"5"),
        (h.TTL, b"never"),
        (h.MSG_ID, b"1"),
        (h.INCREMENT, b"+2"),
        (h.INCREMENT, b"2.5"),
        (h.INCREMENT, b""),
        ("other", b"value"),
        ("other", b"longer than the others"),
        ("größe", b""),
    ]
) | st.tuples(st.sampled_from([h.EXPECTED_LAST_SEQUENCE, h.EXPECTED_LAST_SUBJECT_SEQUENCE]), small_numbers)
patterned = st.tuples(
    small_numbers.map(lambda number: (h.EXPECTED_LAST_SUBJECT_SEQUENCE, number)),
    st.sampled_from([b"a.*", b">", b"a.>", b"b", b"a.x", b"*.x", b"a.*.t", b"nowhere.*", b"a..*", b"*"]).map(
        lambda pattern: (h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT, pattern)
    ),
).map(list)
of_one = st.lists(conditions, max_size=3) | patterned
increments = st.sampled_from([b"+1", b"-3", b"5", b" 0", b"9223372036854775807", b"-9223372036854775808"])


@st.composite
def packs(draw: st.DrawFn, *, with_headers: bool = True) -> Pack:
    count = draw(st.integers(0, 6))
    of = lambda one: draw(st.lists(one, min_size=count, max_size=count))  # noqa: E731
    kinds = ["plain", "plain", "ids", "headers", "both", "counting", "counting"]
    kind = draw(st.sampled_from(kinds if with_headers else ["plain", "ids"]))
    with_ids = kind in ("ids", "both") or (kind == "counting" and draw(st.booleans()))
    headers: list[list[tuple[str, bytes]]] = []
    if kind == "counting":
        headers = [[(h.INCREMENT, text)] for text in of(increments)]
    elif kind in ("headers", "both"):
        headers = of(of_one)
    return Pack(
        of(st.sampled_from(SUBJECTS)) if draw(st.booleans()) else of(st.sampled_from(SUBJECTS[:3])),
        of(st.sampled_from(["", "1", "2", "3", "4", "5", "6", "7"])) if with_ids else [],
        headers,
        [b""] * count if kind == "counting" else of(st.binary(max_size=25)),
        draw(st.integers(0, 12)),
    )


platforms = st.sampled_from([NO_LIMITS, NO_LIMITS, ClusterLimits(max_stream_bytes=200)])
rooms = st.sampled_from([1 << 60, 1 << 60, 130])


def decide(
    state: OwnedStream, pack: Pack, time: int, platform: ClusterLimits, room: int, log: Stored
) -> PackOutcome:
    return publish_pack(
        state, pack.subjects, pack.ids, pack.headers, pack.payloads, time, platform, room - state.bytes, log
    )


@contextmanager
def one_by_one() -> Iterator[None]:
    """Every message is decided in the general way, batches are staged message by message, and nothing is copied in columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publish, "_publish_columns", lambda *_: None)
        patch.setattr(publish, "quick_way", lambda *_: None)
        patch.setattr(batches, "quick_way", lambda *_, batch: None)
        patch.setattr(publishing, "whole_batches", lambda *_: {})
        patch.setattr(Batches, "stage_more", lambda *_: 0)
        patch.setattr(sourcing, "copy_columns", lambda *_: False)
        yield


def by_index(outcome: PackOutcome) -> dict[int, int | Refusal | tuple[int, int]]:
    """The sequence of each stored message, minus the original's of a duplicate, the refusal of the others.

    Of an increment sequence and total.
    """
    result: dict[int, int | Refusal | tuple[int, int]] = dict(outcome.refused)
    result |= {index: -sequence for index, sequence in outcome.duplicates}
    for run in outcome.runs:
        result |= {index: sequence_of(run, index) for index in range(run[0], run[0] + run[1])}
    for index, total in outcome.values:
        sequence = result[index]
        assert isinstance(sequence, int)
        result[index] = sequence, total
    return result
