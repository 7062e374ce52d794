"""The checker of histories finds what it must find, and nothing in a history of a real key."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chaos.buckets.linearizability import (
    CREATE,
    DELETE,
    GET,
    MISSING,
    OK,
    PUT,
    REFUSED,
    UNANSWERED,
    UNKNOWN,
    UPDATE,
    Call,
    Held,
    after,
    explain,
)


def call(kind: str, begin: float, end: float, value: str = "", revision: int = 0, **more: object) -> Call:
    fields = {"client": "c", "result": OK, **more}
    return Call(kind=kind, begin=begin, end=end, value=value, revision=revision, **fields)  # type: ignore[arg-type]


WRITTEN = [call(PUT, 0, 1, "a", 1), call(PUT, 2, 3, "b", 2)]


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param([*WRITTEN, call(GET, 4, 5, "a", 1)], id="a stale read"),
        pytest.param([*WRITTEN, call(GET, 4, 5, result=MISSING)], id="a lost write"),
        pytest.param([call(PUT, 0, 9, "a", 1), call(GET, 2, 3, "a", 1), call(GET, 4, 5, result=MISSING)], id="a read that goes back"),
        pytest.param([*WRITTEN, call(UPDATE, 4, 5, "c", 3, last=1)], id="an update on an old revision"),
        pytest.param([*WRITTEN, call(UPDATE, 4, 5, "c", last=2, result=REFUSED)], id="a refusal without a reason"),
        pytest.param([*WRITTEN, call(CREATE, 4, 5, "c", 3)], id="a key that is made twice"),
        pytest.param([*WRITTEN, call(DELETE, 4, 5, "", 3), call(GET, 6, 7, "b", 2)], id="a deleted key that is back"),
        pytest.param([call(PUT, 0, 1, "a", 2), call(PUT, 2, 3, "b", 1)], id="revisions that fall"),
        pytest.param(
            [call(PUT, 0, UNANSWERED, "a", result=UNKNOWN), call(PUT, 1, 2, "b", 5), call(GET, 3, 4, "a", 4)],
            id="a write without an answer that takes effect in the past",
        ),
        pytest.param(
            [
                call(PUT, 0, 1, "a", 1),
                call(UPDATE, 2, 8, "b", 2, last=1),
                call(UPDATE, 2, 8, "c", 3, last=1),
            ],
            id="two winners",
        ),
    ],
)  # fmt: skip
def test_a_planted_violation_is_found(planted: list[Call]) -> None:
    assert explain(planted)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([], id="nothing"),
        pytest.param([call(PUT, 0, 5, "a", 1), call(GET, 1, 2, result=MISSING), call(GET, 3, 4, "a", 1)], id="a read beside a write"),
        pytest.param(
            [call(PUT, 0, UNANSWERED, "a", result=UNKNOWN), call(GET, 1, 2, result=MISSING), call(GET, 3, 4, "a", 7)],
            id="a write without an answer that took effect",
        ),
        pytest.param([call(PUT, 0, UNANSWERED, "a", result=UNKNOWN), call(GET, 1, 2, result=MISSING)], id="one that did not"),
        pytest.param(
            [
                *WRITTEN,
                call(DELETE, 3.5, UNANSWERED, result=UNKNOWN),
                call(UPDATE, 4, 5, "c", last=2, result=REFUSED, revision=3),
                call(CREATE, 6, 7, "d", 4),
            ],
            id="a delete without an answer that others notice",
        ),
    ],
)  # fmt: skip
def test_a_sound_history_is_left_alone(history: list[Call]) -> None:
    assert explain(history) == []


def _history(seed: int, clients: int, count: int) -> list[Call]:
    """Calls of several clients on a real key, each with its moment somewhere between begin and end."""
    dice, held, revision, known, calls = random.Random(seed), Held(), 0, 0, list[Call]()
    for moment in range(count):
        kind = dice.choice([PUT, GET, GET, CREATE, UPDATE, DELETE])
        begin, end = moment - dice.random() * clients, moment + dice.random() * clients
        last = known if kind == UPDATE else 0  # nobody expects a revision that nobody was told
        made = Call(f"c{moment}", kind, begin, end, OK, f"v{moment}", revision + 1, last)
        if kind == GET:
            made = replace(
                made, result=OK if held.value else MISSING, value=held.value, revision=held.revision
            )
        elif kind == DELETE:
            made = replace(made, value="")
        following = after(made, held)
        if following is None:
            calls.append(replace(made, result=REFUSED, revision=held.revision))
            known = held.revision
            continue
        if kind != GET:
            revision += 1
        held = following
        lost = kind != GET and dice.random() < 0.1
        known = known if lost else held.revision
        calls.append(replace(made, result=UNKNOWN, end=UNANSWERED, revision=0) if lost else made)
    return calls


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_every_history_of_a_real_key_is_sound(seed: int, clients: int, count: int) -> None:
    assert explain(_history(seed, clients, count)) == []


def test_most_reads_that_are_changed_afterwards_are_found() -> None:
    found = changed = 0
    for seed in range(60):
        history = _history(seed, 2, 60)
        reads = [
            at for at, one in enumerate(history) if one.kind == GET and one.result == OK and one.revision > 3
        ]
        if not reads:
            continue
        at = random.Random(seed).choice(reads)
        older = [
            one
            for one in history[: at - 6]
            if one.kind == PUT and one.result == OK and one.end < history[at].begin
        ]
        if not older:
            continue
        changed += 1
        stale = replace(history[at], value=older[0].value, revision=older[0].revision)
        found += bool(explain([*history[:at], stale, *history[at + 1 :]]))
    assert changed > 20
    assert found == changed
