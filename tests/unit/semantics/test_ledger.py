"""The ledger of a counter that adds up others: what is one, and what a damaged one does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.counters import LEAST, MOST, body_of
from railgun.model.stream_config import StreamConfig
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.outcomes import Stored
from railgun.semantics.streams.sourcing.ledger import (
    KnownLedgers,
    Ledger,
    SourcedIncrement,
    parse_ledger,
    sourced_increment,
)
from tests.support.publish_packs import stream

ledgers = st.dictionaries(
    st.text(min_size=1, max_size=5),
    st.dictionaries(st.text(min_size=1, max_size=5), st.integers(LEAST, MOST), min_size=1, max_size=3),
    max_size=3,
)


def counting(ledger: str = "", total: int = 10) -> OwnedStream:
    """A stream with the counter ``sum`` at 10."""
    state = stream(StreamConfig(name="S", subjects=["sum"], allow_msg_counter=True))
    sequence = state.store("sum", 10, 1, headers=[(h.INCREMENT, b"10")], payload=body_of(total))
    state.totals.put("sum", sequence, total, ledger)
    return state


def sourced(state: OwnedStream, payload: bytes) -> object:
    return sourced_increment(
        state, "UP", "up.a", "sum", [(h.INCREMENT, b"1")], payload, Stored(), None, KnownLedgers()
    )


@given(ledgers)
def test_a_ledger_is_read_as_it_was_written(ledger: dict[str, dict[str, int]]) -> None:
    text = Ledger.of(ledger).text()
    assert json.loads(text) == {
        stream: {subject: str(total) for subject, total in of_stream.items()}
        for stream, of_stream in ledger.items()
    }
    assert parse_ledger(text) == Ledger.of(ledger)


@given(ledgers, st.text(min_size=1, max_size=2), st.text(min_size=1, max_size=2), st.integers(LEAST, MOST))
def test_one_entry_is_written_as_all_of_them_are(
    ledger: dict[str, dict[str, int]], stream: str, subject: str, total: int
) -> None:
    before = Ledger.of(ledger)
    text = before.text()
    after = before.having(stream, subject, total)
    changed = {name: dict(totals) for name, totals in ledger.items()}
    changed.setdefault(stream, {})[subject] = total
    assert (after, after.text()) == (Ledger.of(changed), Ledger.of(changed).text())
    assert before.text() == text


def test_ledgers_that_were_read_last_are_known() -> None:
    known = KnownLedgers()
    first = known.read("")
    for number in range(20):
        assert known.read("") is first
        assert known.read(f'{{"A":{{"a":"{number}"}}}}') == Ledger.of({"A": {"a": number}})
    assert known.read("{") is None
    assert len(known._known) == 8


@pytest.mark.rule("CTR-32")
@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "5", '"x"', "null", '{"A":5}', '{"A":{"a":5}}', '{"A":{"a":"x"}}', '{"A":{"a":"1.5"}}',
        '{"A":{"a":"9223372036854775808"}}', '{"A":{"a":null}}', "[" * 5_000,
    ],
)  # fmt: skip
def test_a_ledger_that_cannot_be_read_takes_nothing(text: str) -> None:
    assert parse_ledger(text) is None
    assert sourced(counting(text), body_of(5)) == refusals.COUNTER_BROKEN


@pytest.mark.rule("CTR-12", "CTR-32")
@pytest.mark.parametrize("body", [b"", b"{}", b'{"val":5}', b'{"val":"x"}', b"5", b"\xff", b"[" * 5_000])
def test_a_body_that_is_not_a_total_is_not_added(body: bytes) -> None:
    assert sourced(counting(), body) == refusals.COUNTER_BROKEN


@pytest.mark.rule("CTR-26", "CTR-28")
def test_the_difference_is_added_and_a_repeat_adds_nothing() -> None:
    state = counting('{"UP":{"up.a":"3"}}')
    made = sourced(state, body_of(5))
    assert isinstance(made, SourcedIncrement)
    assert (made.total, made.ledger, made.payload) == (12, '{"UP":{"up.a":"5"}}', b'{"val":"12"}')
    assert made.headers == [(h.INCREMENT, b"+2"), (h.COUNTER_SOURCES, b'{"UP":{"up.a":"5"}}')]
    again = sourced(counting(made.ledger, made.total), body_of(5))
    assert isinstance(again, SourcedIncrement)
    assert (again.total, again.headers[0]) == (12, (h.INCREMENT, b"+0"))


@pytest.mark.rule("CTR-08")
@pytest.mark.parametrize("total, theirs", [(MOST, 1), (LEAST, -1), (0, MOST)])
def test_sums_stay_within_64_bits(total: int, theirs: int) -> None:
    seen = '{"UP":{"up.a":"-5"}}' if not total else ""
    assert sourced(counting(seen, total), body_of(theirs)) == refusals.INCREMENT_INVALID
