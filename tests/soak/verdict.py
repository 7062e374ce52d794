"""Flat or growing: the last quarter of a run beside its second one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

SHORTEST: Final = 15 * 60.0  # seconds: below it, warming up cannot be told from growing
_RATIO: Final = 1.3
# What is small anyway may wobble: by the unit in which it is named.
_SLACK: Final = {"MB": 8.0, "s": 1.0, "records": 3_000.0, "entries": 300.0}


class Trend(NamedTuple):
    """How one measure went."""

    name: str
    before: float  # median of the second quarter
    after: float  # median of the last one
    grows: bool


def trends(samples: Sequence[dict[str, float]]) -> list[Trend]:
    """The trend of each measure; samples are in the order of time."""
    length = len(samples)
    second, last = samples[length // 4 : max(length // 2, length // 4 + 1)], samples[length * 3 // 4 :]
    names = [name for name in samples[0] if name != "seconds"]
    return [_trend(name, [one[name] for one in second], [one[name] for one in last]) for name in names]


def _trend(name: str, second: Sequence[float], last: Sequence[float]) -> Trend:
    before, after = median(second), median(last)
    slack = next((value for unit, value in _SLACK.items() if unit in name.replace(",", " ").split()), 0.0)
    return Trend(name, before, after, after > before * _RATIO + slack)
