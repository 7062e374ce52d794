"""A check that a history of calls on one key could have happened one after the other (linearizability).

Every call takes effect at one moment between its begin and its end, and the results are those of a key that is written and read by
nobody else at that moment. The search is the one of Wing and Gong, with the memory of Lowe: which calls have taken effect, and
what the key held then, is looked at once.

A call without an answer may have taken effect at any moment after its begin, or never. It is tried only directly before an answered
call that could tell: one that nobody notices changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

UNANSWERED: Final = math.inf
OK, MISSING, REFUSED, UNKNOWN = "ok", "missing", "refused", "unknown"
PUT, GET, CREATE, UPDATE, DELETE = "put", "get", "create", "update", "delete"


@dataclass(frozen=True, slots=True)
class Call:
    """One call on the key."""

    client: str
    kind: str
    begin: float
    end: float  # UNANSWERED: nobody knows what became of it
    result: str
    value: str = ""  # written or read; every written value is another
    revision: int = 0  # written or read
    last: int = (
        0  # of an update: the revision that it expects; of a refused one, `revision` is the one that is there
    )

    def __str__(self) -> str:
        told = f"{self.client} {self.kind} {self.value or '-'}"
        condition = f" if {self.last}" if self.kind == UPDATE else ""
        return f"[{self.begin:.6f}, {self.end:.6f}] {told}{condition}: {self.result} {self.revision or ''}"


class Held(NamedTuple):
    """What the key holds: nothing where ``value`` is empty. Unless ``exact``, its revision is only known to be above."""

    value: str = ""
    revision: int = 0
    exact: bool = True

    def may_be(self, revision: int) -> bool:
        return revision == self.revision if self.exact else revision > self.revision


def after(call: Call, held: Held) -> Held | None:
    """What the key holds once the call has taken effect; None: the call cannot have had its result here."""
    if call.result == UNKNOWN:
        return _after_unknown(call, held)
    if call.kind == GET:
        if call.result == MISSING:
            return None if held.value else held
        same = call.value == held.value and held.may_be(call.revision)
        return Held(call.value, call.revision) if same else None
    if call.result == REFUSED:
        return _after_refusal(call, held)
    if call.kind == CREATE and held.value:
        return None
    if call.kind == UPDATE and not held.may_be(call.last):
        return None
    if call.revision <= held.revision:
        return None  # revisions rise (KV-13)
    return Held("" if call.kind == DELETE else call.value, call.revision)


def _after_unknown(call: Call, held: Held) -> Held | None:
    if call.kind == GET or (call.kind == CREATE and held.value):
        return None
    if call.kind == UPDATE and not held.may_be(call.last):
        return None
    return Held("" if call.kind == DELETE else call.value, max(held.revision, call.last), exact=False)


def _after_refusal(call: Call, held: Held) -> Held | None:
    """A condition that did not hold changes nothing."""
    if call.kind == CREATE:
        return held if held.value else None
    if held.exact and held.revision == call.last:
        return None
    return held if not call.revision or held.may_be(call.revision) else None


def explain(history: Sequence[Call]) -> list[str]:
    """Why no order of the calls gives their results; empty if one does."""
    calls = sorted(history, key=lambda call: call.begin)
    answered = sum(call.result != UNKNOWN for call in calls)
    seen: set[tuple[int, Held]] = set()
    best = (0, 0, Held())  # calls that took effect, which ones, and what the key held then
    stack = [_moves(calls, 0, Held())]
    depth = [(0, 0, Held())]
    while stack:
        move = next(stack[-1], None)
        if move is None:
            stack.pop()
            depth.pop()
            continue
        done, held = move
        if (done, held) in seen:
            continue
        seen.add((done, held))
        count = depth[-1][0] + 1
        if count == answered:
            return []
        best = max(best, (count, done, held), key=lambda one: one[0])
        stack.append(_moves(calls, done, held))
        depth.append((count, done, held))
    if not answered:
        return []
    _, done, held = best
    stuck = [str(calls[index]) for index in _next(calls, done)]
    return [
        f"after {best[0]} of {answered} calls the key holds {held}, and none of these can follow:",
        *stuck,
    ]


def _moves(calls: Sequence[Call], done: int, held: Held) -> Iterator[tuple[int, Held]]:
    """An answered call that takes effect next, alone or behind some that were never answered."""
    candidates = _next(calls, done)
    before = [(done, held), *_unnoticed(calls, candidates, done, held)]
    for index in candidates:
        if calls[index].result == UNKNOWN:
            continue
        for earlier, held_then in before:
            found = after(calls[index], held_then)
            if found is not None:
                yield earlier | 1 << index, found


def _unnoticed(
    calls: Sequence[Call], candidates: Sequence[int], done: int, held: Held
) -> Iterator[tuple[int, Held]]:
    """What the key may hold after calls that were never answered: one, or a delete that lets a create succeed.

    No longer row of them gives anything else: an update needs a revision that somebody was told.
    """
    unknown = [index for index in candidates if calls[index].result == UNKNOWN]
    for first in unknown:
        found = after(calls[first], held)
        if found is None:
            continue
        yield done | 1 << first, found
        if not found.value:
            for second in unknown:
                if calls[second].kind == CREATE:
                    made = after(calls[second], found)
                    if made is not None:
                        yield done | 1 << first | 1 << second, made


def _next(calls: Sequence[Call], done: int) -> list[int]:
    """Calls that began before any that is left has ended."""
    found, first_end = [], UNANSWERED
    index = (~done & done + 1).bit_length() - 1
    while index < len(calls) and calls[index].begin <= first_end:
        if not done >> index & 1:
            found.append(index)
            first_end = min(first_end, calls[index].end)
        index += 1
    return found
