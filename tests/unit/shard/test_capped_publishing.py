"""Streams with a limit per subject, as buckets have one: runs of publishes end as single ones do, in the table, the log and at consumers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.model.stream_config import BUCKET
from railgun.protocol.commands import Pull
from railgun.semantics.messages import tail
from railgun.state import keys
from tests.support.publish_packs import one_by_one
from tests.support.shards import CLIENT, NAMES, Shards

subjects = st.sampled_from(["S.a", "S.b", "S.c", "S.d"])
shapes = st.fixed_dictionaries(
    {
        "max_msgs_per_subject": st.sampled_from([1, 1, 2, 3]),
        "allow_rollup_hdrs": st.just(True),
        "allow_msg_ttl": st.just(True),
        "allow_direct": st.booleans(),
    },
    optional={
        "max_msgs": st.integers(3, 12),
        "max_bytes": st.integers(300, 900),
        "discard": st.just("new"),
        "metadata": st.just({BUCKET: "B"}),
        "retention": st.just("interest"),
    },
)
said = st.sampled_from(
    [
        *[[]] * 4,
        [(h.EXPECTED_LAST_SUBJECT_SEQUENCE, b"0")],
        [(h.EXPECTED_LAST_SUBJECT_SEQUENCE, b"3")],
        [("KV-Operation", b"DEL"), (h.ROLLUP, b"sub"), (h.TTL, b"2")],
        [(h.ROLLUP, b"all")],
        [(h.TTL, b"1")],
    ]
)
packs = st.lists(st.tuples(subjects, said), min_size=1, max_size=8)
publishes = st.tuples(st.just("publish"), packs)
consumers = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["one", "two"]),
        "deliver_policy": st.sampled_from(["all", "last_per_subject"]),
        "ack_policy": st.sampled_from(["explicit", "all", "none"]),
    }
)
commands = st.one_of(
    publishes,
    publishes,
    publishes,
    publishes,
    st.tuples(st.just("limit"), st.sampled_from([1, 2, 3])),
    st.tuples(st.just("direct"), st.booleans()),
    st.tuples(st.just("consumer"), consumers),
    st.tuples(st.just("pull"), st.tuples(st.sampled_from(["one", "two"]), st.integers(1, 4))),
    st.tuples(st.just("delete"), st.integers(1, 20)),
    st.tuples(st.just("purge"), st.sampled_from([{}, {"filter": "S.a"}, {"keep": 2}])),
    st.tuples(st.just("later"), st.integers(1, 3)),
    st.tuples(st.just("step"), st.just("")),
    st.tuples(st.just("step"), st.sampled_from(["", "abort", "restart"])),
)
Commands = list[tuple[str, Any]]


@contextmanager
def tiny_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail, "BLOCK_SIZE", 3)
        yield


@settings(max_examples=200)
@given(shapes, st.lists(commands, max_size=25))
def test_runs_and_single_publishes_end_the_same(shape: dict[str, Any], history: Commands) -> None:
    with tiny_blocks():
        runs = played(shape, history, general=False)
        single = played(shape, history, general=True)
        assert runs.snapshot() == single.snapshot()
    assert runs.outcomes == single.outcomes
    assert runs.answers == single.answers
    assert runs.leases == single.leases
    assert _state(runs) == _state(single)
    assert runs.logs == single.logs


@settings(max_examples=200)
@given(shapes, st.lists(commands, max_size=25))
def test_compaction_leaves_what_lives_and_nothing_else(shape: dict[str, Any], history: Commands) -> None:
    """Whatever becomes of the limit; and readers still find each message where its owner says it is."""
    with tiny_blocks():
        shards = played(shape, history, general=False)
        before = shards.snapshot()
        log = shards.logs.get(NAMES.log("S"))
        if log is None:
            return
        log.compact()
        alive = {entry.sequence for entry in before["S"]["entries"]}
        assert {sequence for _, sequence, _ in log.records.values()} == alive
        assert shards.snapshot() == before
        shards.restart(0)  # nothing is at hand but what the table and the log have
        assert shards.snapshot() == before
        written = {sequence: shards.written[NAMES.log("S"), sequence].payload for sequence in alive}
        assert before["S"]["payloads"] == written
    if "direct" not in {name for name, _ in history}:
        kept = [key for key in _state(shards) if key.startswith((keys.BODY, keys.VALUE))]
        assert len(kept) == (len(alive) if shape["allow_direct"] else 0)


def _state(shards: Shards) -> dict[bytes, bytes]:
    """The table, but for the ids, whose blocks may be cut elsewhere."""
    return {key: value for key, value in shards.tables[0].scan(b"") if not key.startswith(keys.IDS)}


def played(shape: dict[str, Any], history: Commands, *, general: bool) -> Shards:
    """Commands are decided together, until a step comes. ``general``: each message by itself."""
    shards, pulls, published = Shards(1), 0, 0
    with ExitStack() as stack:
        if general:
            stack.enter_context(one_by_one())
        shards.request("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], **shape})
        shards.settle()
        shards.presence(CLIENT)
        for name, told in history:
            if name == "publish":
                payloads = [b"%d" % (published + place) for place in range(len(told))]
                published += len(told)
                headers = [list(given_) for _, given_ in told]
                shards.publish("S", [one for one, _ in told], headers=headers, payloads=payloads)
            elif name in ("limit", "direct"):
                shape = shape | {"max_msgs_per_subject" if name == "limit" else "allow_direct": told}
                shards.request("STREAM.UPDATE.S", {"name": "S", "subjects": ["S.>"], **shape})
            elif name == "consumer":
                body = {"stream_name": "S", "config": told}
                shards.request(f"CONSUMER.CREATE.S.{told['name']}", body, stream="S")
            elif name == "pull":
                pulls += 1
                shards.command("S", told[0], pull=Pull(pulls, told[1], no_wait=True))
            elif name == "delete":
                shards.request("STREAM.MSG.DELETE.S", {"seq": told})
            elif name == "purge":
                shards.request("STREAM.PURGE.S", told)
            elif name == "later":
                shards.now += told * 1_000_000_000
            else:
                shards.step(0, abort=told == "abort")
                if told == "restart":
                    shards.restart(0)
        shards.settle()
    return shards
