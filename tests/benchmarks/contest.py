"""What a row is, and how one is measured: all sides in turn, round by round, the median of the rounds.

Sides alternate within one run because a shared machine drifts: what disturbs one side of a round disturbs the other, and
the ratio stays. The order turns around from round to round, so that nobody always goes first.
"""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import ClassVar, Final

from tests.benchmarks.arena import Arena
from tests.benchmarks.results import Goal, Result
from tests.benchmarks.scale import Scale

RAILGUN: Final = "railgun"

Side = Callable[[], float]
"""Does one round of the work and returns its value in the row's unit."""

Progress = Callable[[str], None]


class Row(ABC):
    """One line of the table. ``sides`` opens everything it needs, gives railgun's side and its peers', and closes it."""

    key: ClassVar[str]  # what --only takes
    name: ClassVar[str]
    unit: ClassVar[str]
    goals: ClassVar[Mapping[str, Goal]] = {}  # by peer
    warm_up: ClassVar[bool] = True  # one round that does not count

    @abstractmethod
    def sides(self, arena: Arena, scale: Scale) -> AbstractContextManager[dict[str, Side]]: ...

    def rounds(self, scale: Scale) -> int:
        return scale.rounds


def measure(row: Row, arena: Arena, scale: Scale, progress: Progress) -> list[Result]:
    """Run the row; one result for each peer."""
    with row.sides(arena, scale) as sides:
        values: dict[str, list[float]] = {name: [] for name in sides}
        if row.warm_up:
            for side in sides.values():
                side()
        for number in range(row.rounds(scale)):
            order = list(sides) if number % 2 == 0 else list(reversed(sides))
            for name in order:
                values[name].append(sides[name]())
            progress(
                f"  round {number + 1}: " + ", ".join(f"{name} {values[name][-1]:,.4g}" for name in sides)
            )
    medians = {name: statistics.median(of_side) for name, of_side in values.items()}
    own = medians.pop(RAILGUN)
    return [Result.of(row.name, own, peer, peer_name, row.unit) for peer_name, peer in medians.items()]
