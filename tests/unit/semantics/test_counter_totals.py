"""Totals of counters against a naive model: the newest message says it all; and what is left in the table."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.counters import parse_body, parse_number
from railgun.model.headers import Headers
from railgun.model.refusals import Refusal
from railgun.model.stream_config import StreamConfig
from railgun.protocol import avro
from railgun.protocol.topics import Names
from railgun.semantics.messages.budget import ShardMemory
from railgun.semantics.steps import finish
from railgun.semantics.streams import backlog, limits, removal
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.outcomes import PackOutcome, Stored
from railgun.semantics.streams.publishing.publish import publish_pack
from railgun.semantics.streams.publishing.totals import CounterTotal, CounterTotals
from railgun.semantics.streams.removal import PurgeRequest
from railgun.state import keys
from railgun.state.table import MemoryTable, Overlay
from railgun.state.unreadable_entries import UnreadableEntry

SUBJECTS = ("a", "b", "c")
INT64 = range(-(2**63), 2**63)


class Owner:
    """A stream with its log, as a shard drives it: drains are committed or dropped."""

    def __init__(self, **fields: Any) -> None:
        self.table = MemoryTable()
        self.overlay = Overlay(self.table)
        self.memory = ShardMemory()
        config = StreamConfig(name="S", subjects=list(SUBJECTS), **{"allow_msg_counter": True, **fields})
        self.state = OwnedStream(self.overlay, "S", 1, config, 0, Names().log("S"), self.memory)
        self.log: dict[int, tuple[Headers, bytes]] = {}
        self.reads = 0
        self.commit()

    def read(self, sequence: int) -> tuple[Headers, bytes] | None:
        self.reads += 1
        return self.log.get(sequence)

    def publish(self, *messages: tuple[str, str | None]) -> PackOutcome:
        """Subject and increment of each; None: a plain message."""
        headers = [[] if text is None else [(h.INCREMENT, text.encode())] for _, text in messages]
        return publish_pack(
            self.state,
            [subject for subject, _ in messages],
            [],
            headers if any(headers) else [],
            [b"plain" if text is None else b"" for _, text in messages],
            0,
            ClusterLimits(),
            1 << 60,
            self.stored,
            self.read,
        )

    def commit(self) -> None:
        if hasattr(self, "stored"):
            for at, sequence in enumerate(self.stored.sequences):
                self.log[sequence] = self.stored.headers[at], self.stored.payloads[at]
        self.state.seal()
        self.table.apply(dict(self.overlay.changes))
        self.overlay.clear()
        self.stored = Stored()

    def reload(self) -> None:
        """Drop what was not committed, and read the stream from the table."""
        self.overlay.clear()
        self.stored = Stored()
        self.memory = ShardMemory()
        self.state = OwnedStream.load(self.overlay, 1, Names(), self.memory)

    def sweep(self) -> None:
        while 1 in self.memory.untidy:
            self.state.drop_strays(2)

    def entries(self) -> list[bytes]:
        prefix = keys.all_of(keys.TOTAL, 1)
        return [key[len(prefix) :] for key, _ in self.overlay.scan(prefix)]


class Model:
    """All messages that exist: sequence to subject, increment and total; no increment: a plain one."""

    def __init__(self) -> None:
        self.messages: dict[int, tuple[str, int | None, int]] = {}
        self.last = 0
        self.on = True

    def newest(self, subject: str) -> tuple[str, int | None, int] | None:
        return next(
            (one for _, one in sorted(self.messages.items(), reverse=True) if one[0] == subject), None
        )

    def publish(self, subject: str, text: str | None, most: int) -> Refusal | int:
        newest = self.newest(subject)
        number = None if text is None else parse_number(text.encode())
        if text is not None:
            if number is None:
                return refusals.INCREMENT_INVALID
            if not self.on:
                return refusals.COUNTERS_DISABLED
            if newest is not None and newest[1] is None:
                return refusals.COUNTER_BROKEN
        elif self.on and newest is not None and newest[1] is not None:
            return refusals.INCREMENT_MISSING
        total = (0 if newest is None else newest[2]) + (number or 0)
        if number is not None and total not in INT64:
            return refusals.INCREMENT_INVALID
        self.last += 1
        self.messages[self.last] = subject, number, total if number is not None else 0
        own = [sequence for sequence, one in sorted(self.messages.items()) if one[0] == subject]
        for sequence in own[: max(len(own) - most, 0)] if most > 0 else ():
            del self.messages[sequence]
        return total if number is not None else -1


texts = st.sampled_from(["+1", "-2", "10", "0", str(2**63 - 1), str(-(2**63)), "bogus", None, None])
operations = st.one_of(
    st.tuples(
        st.just("publish"), st.lists(st.tuples(st.sampled_from(SUBJECTS), texts), min_size=1, max_size=4)
    ),
    st.tuples(st.just("delete"), st.integers(0, 3)),
    st.tuples(st.just("purge"), st.sampled_from([*SUBJECTS, ""])),
    st.tuples(st.just("toggle"), st.none()),
    st.tuples(st.sampled_from(["commit", "commit", "reload", "sweep"]), st.none()),
)


@pytest.mark.rule("CTR-16", "CTR-18", "CTR-20")
@settings(max_examples=300, deadline=None)
@given(st.lists(operations, max_size=25), st.sampled_from([-1, -1, 1, 2]))
def test_totals_are_those_of_a_naive_model(history: list[tuple[str, Any]], most: int) -> None:
    owner, model = Owner(max_msgs_per_subject=most), Model()
    saved = (dict(model.messages), model.last, model.on)
    for name, argument in history:
        if name == "publish":
            outcome = owner.publish(*argument)
            said = dict(outcome.refused) | dict(outcome.values)
            for index, (subject, text) in enumerate(argument):
                expected = model.publish(subject, text, most)
                assert said.get(index, -1) == expected, (subject, text)
        elif name == "delete":
            sequence = model.last - argument
            assert owner.state.remove(sequence, why="delete") == (
                model.messages.pop(sequence, None) is not None
            )
        elif name == "purge":
            finish(removal.purge(owner.state, PurgeRequest(argument), {}))
            model.messages = {
                sequence: one for sequence, one in model.messages.items() if argument and one[0] != argument
            }
        elif name == "toggle":
            model.on = not model.on
            before = owner.state.config
            owner.state.reconfigure(before.model_copy(update={"allow_msg_counter": model.on}), 0)
            limits.tighten(owner.state, before)
            finish(backlog.catch_up(owner.state))
        elif name == "reload":  # as after an aborted drain
            owner.reload()
            model.messages, model.last, model.on = dict(saved[0]), saved[1], saved[2]
        elif name == "sweep":
            owner.sweep()
        if name in ("commit", "toggle"):
            owner.commit()
            saved = (dict(model.messages), model.last, model.on)
        assert [one.sequence for one in owner.state.iterate()] == sorted(model.messages)
    owner.sweep()
    assert set(owner.entries()) <= {one[0].encode() for one in model.messages.values()}


def test_a_purge_of_many_counters_leaves_nothing_in_the_table() -> None:
    owner = Owner()
    many = StreamConfig(name="S", subjects=["n.*"], allow_msg_counter=True)
    owner.state.reconfigure(many, 0)
    owner.publish(*((f"n.{number}", "1") for number in range(50)))
    owner.commit()
    assert len(owner.entries()) == 50
    owner.state.purge_below(owner.state.last_seq + 1)
    owner.publish(("n.7", "1"), ("n.8", "1"))
    owner.commit()
    owner.reload()  # another owner goes on with it
    assert owner.memory.untidy == {1}
    assert owner.publish(("n.9", "3")).values == [(0, 3)]
    owner.sweep()
    assert sorted(owner.entries()) == [b"n.7", b"n.8", b"n.9"]
    assert owner.publish(("n.7", "1")).values == [(0, 2)]
    assert not owner.state.totals.has_strays
    owner.state.remove_run(1, owner.state.last_seq + 1)
    assert owner.entries() == []


def test_a_stream_without_counters_is_told_of_no_subject() -> None:
    owner = Owner(allow_msg_counter=False)
    owner.publish(("a", None))
    assert owner.state._by_subject.gone is None
    owner.reload()
    assert owner.state._by_subject.gone is None


def counter_of_three() -> Owner:
    owner = Owner()
    owner.publish(("a", "1"), ("a", "2"))
    owner.commit()
    owner.publish(("a", "3"))
    owner.commit()
    owner.state.remove(3)
    owner.commit()
    return owner


def test_only_a_deleted_newest_message_makes_the_owner_read_and_only_once() -> None:
    owner = counter_of_three()
    assert owner.reads == 0
    assert owner.publish(("a", None)).refused == [(0, refusals.INCREMENT_MISSING)]
    owner.commit()
    assert owner.publish(("a", "1")).values == [(0, 4)]
    assert owner.reads == 1


def test_what_cannot_be_read_is_refused_and_not_guessed() -> None:
    owner = counter_of_three()
    owner.log.clear()
    for text in ("1", None):
        ((_, refused),) = owner.publish(("a", text)).refused
        assert refused == refusals.unavailable("message 2 of S, a counter's newest, could not be read")
    assert owner.state.messages == 2


@pytest.mark.rule("CTR-12")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"5",
        b'{"val":5}',
        b'{"val":"x"}',
        b'{"value":"5"}',
        b"{",
        b"[]",
        b'{"val":"9223372036854775808"}',
    ],
)
def test_a_counter_whose_body_is_no_total_is_broken(body: bytes) -> None:
    assert parse_body(body) is None
    owner = counter_of_three()
    owner.log[2] = ([(h.INCREMENT, b"+2")], body)
    assert owner.publish(("a", "1")).refused == [(0, refusals.COUNTER_BROKEN)]
    assert owner.publish(("a", None)).refused == [(0, refusals.INCREMENT_MISSING)]


@given(st.integers(0, 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_totals_of_a_pack_have_the_bytes_of_their_schema(sequence: int, total: int) -> None:
    one, many = Overlay(MemoryTable()), Overlay(MemoryTable())
    CounterTotals(one, 1).put("a", sequence, total)
    totals = CounterTotals(many, 1)
    totals.put_all(totals.keys_of(["a"]), [sequence], [total])
    assert many.changes == one.changes
    assert CounterTotals(many, 1).get("a") == CounterTotal(sequence, total)


@given(st.binary(max_size=25))
def test_bytes_that_are_not_a_total_are_told(data: bytes) -> None:
    overlay = Overlay(MemoryTable())
    overlay.put(keys.all_of(keys.TOTAL, 1) + b"a", data)
    try:
        expected = CounterTotal(**avro.decode("counter_total", data))
    except avro.WireError:
        with pytest.raises(UnreadableEntry):
            CounterTotals(overlay, 1).get("a")
    else:
        assert CounterTotals(overlay, 1).get("a") == expected


@given(
    st.lists(
        st.tuples(st.integers(1, 2**62 - 1), st.sampled_from([0, 1, -1, 63, 64, 2**62, 2**63 - 1, -(2**63)])),
        max_size=20,
    ),
    st.data(),
)
def test_totals_that_are_looked_up_together_are_those_of_one_at_a_time(
    entries: list[tuple[int, int]], data: st.DataObject
) -> None:
    table = MemoryTable()
    overlay = Overlay(table)
    totals = CounterTotals(overlay, 1)
    newest: dict[str, int] = {}
    easy: set[str] = set()
    for place, (sequence, total) in enumerate(entries):
        subject = f"s.{place}"
        kind = data.draw(st.sampled_from(["plain", "ledger", "older", "none", "cut", "long", "new"]))
        if kind != "none":
            totals.put(subject, sequence, total, '{"A":{"a":"1"}}' if kind == "ledger" else "")
        if kind in ("cut", "long"):
            key = keys.all_of(keys.TOTAL, 1) + subject.encode()
            whole = overlay.get(key) or b""
            overlay.put(key, whole[:-1] if kind == "cut" else whole + b"\0")
        newest[subject] = 0 if kind == "new" else sequence + (kind == "older")
        if kind == "plain" and -64 <= total <= 64:
            easy.add(subject)
    table.apply(dict(overlay.changes))
    overlay.clear()
    for _ in range(2):  # the second time the totals are known
        several = dict(
            zip(newest, totals.plain_totals(totals.keys_of(newest), [*newest.values()]), strict=True)
        )
        found = {subject: total for subject, total in several.items() if total is not None}
        for subject, sequence in newest.items():
            if not sequence:  # a subject without a message; a stray entry says nothing of it
                assert found[subject] == 0
                continue
            try:
                one = totals.get(subject)
            except UnreadableEntry:
                one = None
            if subject in found:
                assert one is not None
                assert (one.sequence, one.total, one.ledger) == (sequence, found[subject], "")
            else:
                assert subject not in easy
