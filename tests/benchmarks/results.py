"""The results of a run as values, and as the JSON that is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Result:
    """One row against one peer. ``ratio`` is railgun's value divided by the peer's, whichever way is better."""

    name: str
    railgun: float
    peer: float
    peer_name: str
    unit: str
    ratio: float
    date: str = ""  # ISO 8601, UTC, if it was measured apart from the whole run

    @classmethod
    def of(cls, name: str, railgun: float, peer: float, peer_name: str, unit: str) -> Result:
        return cls(name, _short(railgun), _short(peer), peer_name, unit, _short(railgun / peer))

    @property
    def more_is_better(self) -> bool:
        """Rates end in ``/s``; everything else that is measured here is a cost."""
        return self.unit.endswith("/s")

    @property
    def advantage(self) -> float:
        """How many times better than the peer: above 1 is better, for rates and for costs."""
        return self.ratio if self.more_is_better else 1 / self.ratio


@dataclass(frozen=True)
class Goal:
    """The goal of a row against one peer: a bound of the ratio, or of railgun's own value."""

    text: str
    least_ratio: float | None = None
    most_ratio: float | None = None
    most: float | None = None

    def met(self, result: Result) -> bool:
        if self.least_ratio is not None and result.ratio < self.least_ratio:
            return False
        if self.most_ratio is not None and result.ratio > self.most_ratio:
            return False
        return self.most is None or result.railgun <= self.most


@dataclass(frozen=True)
class Report:
    """A whole run."""

    date: str  # ISO 8601, UTC
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    results: tuple[Result, ...]
    missing: Mapping[str, str]  # rows that could not be measured, and why

    def renewed(self, other: Report, order: Sequence[str]) -> Report:
        """This run with the rows that another one has measured anew, in this order of names. Raises ValueError if that was on another machine or with other versions."""
        if (other.machine, other.versions) != (self.machine, self.versions):
            raise ValueError(
                "the rows were measured on another machine, or with other versions: measure all rows"
            )
        anew = {(result.name, result.peer_name): replace(result, date=other.date) for result in other.results}
        kept = {(result.name, result.peer_name): result for result in self.results if result.name in order}
        measured = {result.name for result in other.results}
        missing = {name: why for name, why in self.missing.items() if name not in measured}
        results = sorted((kept | anew).values(), key=lambda result: order.index(result.name))
        return replace(self, results=tuple(results), missing=missing | dict(other.missing))

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        fields: dict[str, Any] = json.loads(text)
        fields["results"] = tuple(Result(**result) for result in fields["results"])
        return cls(**fields)


def _short(value: float) -> float:
    """Four significant digits: more would promise what a shared machine cannot keep."""
    return float(f"{value:.4g}")
