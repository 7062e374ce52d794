"""Finding subjects by wildcard among sorted ones, at the cost of what matches.

A skip scan: where a subject does not match, :func:`leap` tells the smallest text at which the next match may be, and the
search goes on there. So ``orders.42.>`` costs its matches, and ``a.*.c`` about one step for each second token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from sortedcontainers import SortedList

from railgun.model import subjects
from railgun.model.subjects import Filter

_AFTER_DOT = chr(ord(".") + 1)
_LEAST = "\0"  # below every character of a subject
_FEW = 1_000
_FEW_STEPS = 64  # for so few, compiling the pattern costs more than it spares
_FORGOTTEN = 100_000


class Place(NamedTuple):
    """Where a search goes on: among the subjects in memory or beyond, with which pattern, from which text on."""

    beyond: bool = False
    pattern: int = 0
    text: str = ""


BEGINNING = Place()


def leap(tokens: list[str], subject: str) -> str | None:
    """The smallest text above the subject at which a match of the pattern may be; None: there is none any more.

    The subject is one that the pattern does not match. Whatever lies between it and the text cannot match either.
    """
    begin = ""  # what the tokens before stand for in this subject, with the dot behind it
    last = len(tokens) - 1
    for number, token in enumerate(tokens):
        if token == "*":
            dot = subject.find(".", len(begin))
            if dot < 0:
                break  # too short; what follows need not begin with it: "a-b.c" sorts before "a.c"
            if number == last:
                return subject[:dot] + _AFTER_DOT  # whatever begins like this is too long
            begin = subject[: dot + 1]
            continue
        goal = begin + token if number == last else f"{begin}{token}."
        if number < last and subject.startswith(goal):
            begin = goal
            continue
        if subject < goal:
            return goal
        return begin[:-1] + _AFTER_DOT if begin else None
    return subject + _LEAST


def scan(
    seek: Callable[[str], Iterator[str]], pattern: str, begin: str, steps: int
) -> tuple[list[str], str | None, int]:
    """Subjects that match from ``begin`` on, found in at most ``steps`` steps; where to go on (None: it is over); and the steps left.

    ``seek`` gives the subjects from a text on, ascending.
    """
    tokens = pattern.split(".")
    matches = Filter(pattern).matches if steps > _FEW_STEPS else partial(subjects.matches, pattern)
    found: list[str] = []
    at, ahead = begin, seek(begin)
    while steps > 0:
        steps -= 1
        subject = next(ahead, None)
        if subject is None:
            return found, None, steps
        if subject < at:
            ahead = seek(at)
        elif matches(subject):
            found.append(subject)
            at = subject + _LEAST
        else:
            further = leap(tokens, subject)
            if further is None:
                return found, None, steps
            at = further
    return found, at, steps


class SortedSubjects:
    """A sorted view of subjects, made for the first search, and cheap to keep up: it is put in order when asked.

    It may hold subjects that are gone, which the caller must leave out. Too many of them, and it is made anew.
    """

    def __init__(self) -> None:
        self._sorted: SortedList[str] | None = None
        self._fresh: list[str] = []

    @property
    def kept(self) -> bool:
        """Whether there was a search: from then on every new subject must be added."""
        return self._sorted is not None

    def add(self, subject: str) -> None:
        self._fresh.append(subject)
        if len(self._fresh) > _FORGOTTEN:
            self.clear()  # nobody has searched for long

    def clear(self) -> None:
        self._sorted, self._fresh = None, []

    def bring_up_to_date(self, size: int, everything: Callable[[], Iterable[str]]) -> None:
        """Before a search: the number of subjects, and all of them."""
        known = self._sorted
        if known is None or len(known) + len(self._fresh) > 2 * size + _FEW:
            self._sorted = SortedList(everything())
        elif len(self._fresh) > len(known) // 8:
            known.update(set(self._fresh).difference(known))
        else:
            for subject in self._fresh:
                if subject not in known:
                    known.add(subject)
        self._fresh = []

    def seek(self, begin: str) -> Iterator[str]:
        """The subjects from the text on, ascending."""
        assert self._sorted is not None
        found: Iterator[str] = self._sorted.irange(begin)
        return found
