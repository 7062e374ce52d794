"""One sequence on both systems, up to the first difference that no agreed conflict explains."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from tests.differ.comparing import Difference, differences
from tests.differ.drivers import Driver
from tests.differ.masks import MASKS
from tests.differ.moments import Done, Mask, Moment
from tests.differ.normal import normal
from tests.differ.operations import READS, Call, Operation, Wait, dumps, loads

_CONFIRMATIONS: Final = 2
_SETTLES_SECONDS: Final = 0.5  # nats-server counts some things a moment after its answer


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference without an agreed conflict: after which operation, and what both said."""

    sequence: list[Operation]
    position: int
    nats: Any
    railgun: Any
    differences: list[Difference]

    @property
    def operation(self) -> Operation:
        return self.sequence[self.position]

    @property
    def kind(self) -> str:
        """What findings with the same cause have in common, more or less: the call, and its errors or what differs."""
        operation = self.operation
        call = (operation.verb or "unknown call") if isinstance(operation, Call) else type(operation).__name__
        if any("error" in one.path for one in self.differences):
            return f"{call}: {_verdict(self.nats)} ≠ {_verdict(self.railgun)}"
        return f"{call}: " + "; ".join(sorted({_summary(one) for one in self.differences}))


@dataclass(slots=True)
class Outcome:
    """How a sequence went: the first finding, or none, and how often each conflict explained a difference."""

    finding: Finding | None = None
    explained: Counter[str] = field(default_factory=Counter)
    operations: int = 0


class Answer(NamedTuple):
    """What both said to one operation, the conflicts that explain where they differ, and what none explains."""

    nats: Any
    railgun: Any
    masks: list[Mask]
    unexplained: list[Difference]


class Arena:
    """Two systems that get the same operations. The first is right wherever no conflict was agreed on."""

    def __init__(self, nats: Driver, railgun: Driver, masks: Sequence[Mask] = MASKS) -> None:
        self._nats = nats
        self._railgun = railgun
        self._masks = masks
        self._runs = 0

    def run(self, sequence: Sequence[Operation]) -> Outcome:
        """Run the sequence on fresh systems until it ends, or the systems are known to have parted."""
        self._nats.fresh()
        self._railgun.fresh()
        self._runs += 1
        outcome = Outcome()
        done: list[Done] = []
        for position, operation in enumerate(sequence):
            if isinstance(operation, Wait):
                time.sleep(operation.seconds)
                continue
            outcome.operations += 1
            answer = self._ask(operation, done)
            outcome.explained.update(mask.reason for mask in answer.masks)
            if answer.unexplained:
                outcome.finding = Finding(
                    list(sequence), position, answer.nats, answer.railgun, answer.unexplained
                )
                return outcome
            if any(mask.parts for mask in answer.masks):
                return outcome
            done.append((operation, answer.nats))
        return outcome

    def comes_again(self, finding: Finding) -> bool:
        """Whether the sequence shows it each time; what does not was a matter of time."""
        again = (self.run(finding.sequence).finding for _ in range(_CONFIRMATIONS))
        return all(one is not None and one.kind == finding.kind for one in again)

    def _ask(self, operation: Operation, done: Sequence[Done]) -> Answer:
        """Both answers and where they differ. What only reads is asked again until the answers are equal or settled."""
        deadline = time.monotonic() + _SETTLES_SECONDS
        reads = isinstance(operation, Call) and operation.verb in READS
        while True:
            nats, railgun = self._say(self._nats, operation), self._say(self._railgun, operation)
            answer = Answer(nats, railgun, [], [])
            moment = Moment(operation, nats, railgun, done, partial(self._say, self._nats))
            for difference in differences(nats, railgun):
                mask = next((mask for mask in self._masks if mask.explains(moment, difference)), None)
                if mask is None:
                    answer.unexplained.append(difference)
                else:
                    answer.masks.append(mask)
            if not answer.unexplained or not reads or time.monotonic() > deadline:
                return answer
            time.sleep(0.02)

    def _say(self, driver: Driver, operation: Operation) -> Any:
        """The answer of one system. Streams have names of this run only: the last one's may still be on a disk."""
        own = f"_{self._runs:05}"
        (renamed,) = loads(re.sub(r"\bS([12])\b", rf"S\1{own}", dumps([operation])))
        return json.loads(json.dumps(normal(driver.send(renamed))).replace(own, ""))


def _verdict(answer: Any) -> str:
    error = (
        answer[0].get("body", {}).get("error") if answer and isinstance(answer[0].get("body"), dict) else None
    )
    return "done" if error is None else f"{error.get('err_code')} {_brief(error.get('description'))}"


def _summary(difference: Difference) -> str:
    return f"{difference.place} {_brief(difference.nats)} ≠ {_brief(difference.railgun)}"


def _brief(value: Any) -> str:
    """A value as far as it tells one kind of difference from another: numbers are all alike."""
    match value:
        case bool() | None:
            return str(value)
        case dict():
            return "{" + ",".join(sorted(value)) + "}"
        case list():
            return f"[{len(value)}]"
    return re.sub(r"\d+", "n", str(value))[:60]
