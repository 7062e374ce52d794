"""The audit of the journals finds what it is there to find, and nothing where all is well."""

from __future__ import annotations

import pytest

from tests.chaos.consumer_audit import differences
from tests.chaos.journal import ACKING, CONFIRMED, GOT, LOOKED, Entry

PUBLISHED = {"one": 1, "two": 2}
BODIES = {1: "one", 2: "two"}


def entry(time: int, what: str, sequence: int, delivery: int, count: int = 1, body: str = "") -> Entry:
    return Entry(time, what, "S/C", delivery, sequence, count, "S.a", body or BODIES[sequence])


def resolved(time: int, sequence: int, delivery: int, count: int = 1) -> list[Entry]:
    return [
        entry(time + at, what, sequence, delivery, count) for at, what in enumerate([GOT, ACKING, CONFIRMED])
    ]


def looked(time: int, delivered: int) -> Entry:
    return Entry(time, LOOKED, "S/C", delivered)


GOOD = [*resolved(10, 1, 1), looked(15, 1), *resolved(20, 2, 2), looked(25, 2)]


def found(entries: list[Entry], ends: int = 0) -> list[str]:
    return differences(sorted(entries), PUBLISHED, ends=ends, in_turn=True)


def test_all_is_well() -> None:
    assert found(GOOD) == []


def test_a_delivery_that_was_on_its_way_during_the_confirmation_is_none_after_it() -> None:
    late = [*resolved(10, 1, 1), entry(14, GOT, 1, 2, count=2), looked(15, 2), *resolved(20, 2, 3)]
    assert found(late) == []


@pytest.mark.parametrize(
    "entries, text",
    [
        pytest.param([*GOOD, entry(30, GOT, 1, 3, count=2)], "delivered after the confirmation", id="again"),
        pytest.param([*GOOD, entry(30, GOT, 2, 2)], "handed out twice", id="twice"),
        pytest.param([*GOOD, entry(19, GOT, 2, 3)], "counts that do not rise", id="count"),
        pytest.param(resolved(10, 1, 1), "1 messages were never worked on: [2]", id="lost"),
        pytest.param(GOOD[:-2], "1 double acks without an answer after 0 ends", id="unanswered"),
        pytest.param([*GOOD, entry(9, GOT, 1, 0, body="two")], "sequence that is not theirs", id="body"),
        pytest.param([*resolved(10, 1, 1), *resolved(8, 2, 2)], "not in turn", id="two at once"),
        pytest.param([*resolved(10, 2, 1), *resolved(20, 1, 2)], "not in turn", id="backwards"),
    ],
)
def test_what_is_wrong_is_told(entries: list[Entry], text: str) -> None:
    assert any(text in one for one in found(entries))


def test_an_end_may_hide_one_answer() -> None:
    assert found(GOOD[:-2], ends=1) == []
