"""Cycles of mirrors and sources: which would copy a message for ever."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun.model import subjects
from railgun.model.stream_config import StreamConfig
from railgun.semantics.streams.configuration.cycles import closes_a_cycle


def stream(name: str, *sources: Any, **fields: Any) -> StreamConfig:
    return StreamConfig.model_validate({"name": name, "sources": list(sources), **fields})


def part(name: str, filter_subject: str) -> dict[str, str]:
    return {"name": name, "filter_subject": filter_subject}


def renamed(name: str, *pairs: tuple[str, str]) -> dict[str, Any]:
    return {"name": name, "subject_transforms": [{"src": src, "dest": dest} for src, dest in pairs]}


@pytest.mark.rule("MIR-13")
@pytest.mark.parametrize(
    "config, others",
    [
        (stream("A", "B"), [stream("B", "A")]),
        (stream("A", "B"), [stream("B", "C"), stream("C", "D"), stream("D", "A"), stream("E")]),
        (stream("A", mirror="B"), [stream("B", "A")]),
        (stream("A", mirror="B"), [stream("B", mirror="A")]),
        (stream("A", part("B", "b.>")), [stream("B", mirror="A")]),
        (stream("A", part("B", "b.>")), [stream("B", "A")]),
        (stream("A", part("B", "*.x")), [stream("B", part("A", "b.*"))]),
        (stream("A", part("B", "a"), part("B", "b")), [stream("B", part("A", "b"))]),
        (stream("A", renamed("B", ("b.*", "a.$1"))), [stream("B", renamed("A", ("a.>", "b.>")))]),
        (
            stream("A", renamed("B", ("b.*", "a.{{split(1,-)}}"))),
            [stream("B", renamed("A", ("a.*.*", "b.$1")))],
        ),
        (stream("A", renamed("B", ("b.>", ""))), [stream("B", part("A", "b.1"))]),
        (
            stream("A", part("B", "b"), subject_transform={"src": "b", "dest": "a"}),
            [stream("B", part("A", "a"), subject_transform={"src": "a", "dest": "b"})],
        ),
    ],
)
def test_a_message_that_could_come_back_makes_a_cycle(
    config: StreamConfig, others: list[StreamConfig]
) -> None:
    assert closes_a_cycle(config, others)
    for other in others:  # whichever of them comes last
        if other.sources or other.mirror:
            rest = [one for one in others if one is not other]
            assert closes_a_cycle(other, [config, *rest])


@pytest.mark.rule("MIR-13")
@pytest.mark.parametrize(
    "config, others",
    [
        (stream("A"), [stream("B", "A")]),
        (stream("A", "B"), []),
        (stream("A", "B", "C"), [stream("B", "D"), stream("C", "D")]),
        (stream("A", "D", "B"), [stream("B", "D"), stream("D")]),
        (stream("A", part("B", "b.>")), [stream("B", part("A", "a.>"))]),
        (stream("A", renamed("B", ("b.>", "from.b.>"))), [stream("B", renamed("A", ("a.>", "from.a.>")))]),
        (stream("A", renamed("B", ("b.*", "a.$1"))), [stream("B", part("A", "a.>"))]),  # once, and no more
        (stream("A", part("B", "b")), [stream("B", "C"), stream("C", part("A", "a"))]),
        (stream("A", "Z"), [stream("B", "C"), stream("C", "B")]),  # not one of its own
    ],
)
def test_what_nothing_can_go_round_is_not_a_cycle(config: StreamConfig, others: list[StreamConfig]) -> None:
    assert not closes_a_cycle(config, others)
    if all(one.name != "C" for one in others):
        for other in others:
            assert not closes_a_cycle(other, [config, *(one for one in others if one is not other)])


@pytest.mark.rule("MIR-13")
def test_a_dense_net_of_sources_is_searched_in_bounded_time() -> None:
    names = [f"S{number:02}" for number in range(30)]
    others = [
        stream(name, *(renamed(up, ("*.*", f"{up}.{name}-$2")) for up in names[:at]))
        for at, name in enumerate(names)
    ]
    assert not closes_a_cycle(stream("S99", *names), others)
    assert closes_a_cycle(stream("S00", *names[1:]), others[1:])


_PATTERNS = st.lists(st.sampled_from("ab*"), min_size=1, max_size=4).flatmap(
    lambda tokens: st.sampled_from([".".join(tokens), ".".join([*tokens, ">"]), ">"])
)
_LITERALS = st.lists(st.sampled_from("ab"), min_size=1, max_size=5).map(".".join)


@pytest.mark.rule("SUB-09")
@given(_PATTERNS, _PATTERNS, _LITERALS)
def test_an_intersection_matches_what_both_match(one: str, other: str, subject: str) -> None:
    both = subjects.matches(one, subject) and subjects.matches(other, subject)
    common = subjects.intersection(one, other)
    assert (common is not None) == subjects.collides(one, other)
    assert (common is not None and subjects.matches(common, subject)) == both
