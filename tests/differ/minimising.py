"""The smallest sequence that still shows a difference of the same kind (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.differ.operations import Ack, Call, Operation, Publish
from tests.differ.running import Finding

Try = Callable[[list[Operation]], Finding | None]


def minimised(finding: Finding, attempt: Try, budget: int = 400) -> Finding:
    """A finding of the same kind that no single step makes smaller, or the smallest after so many attempts."""
    best = replace(finding, sequence=finding.sequence[: finding.position + 1])
    smaller = _Search(attempt, finding.kind, budget)
    while True:
        better = smaller.without_operations(best)
        better = smaller.with_plainer_operations(better)
        if better is best:
            return best
        best = better


class _Search:
    def __init__(self, attempt: Try, kind: str, budget: int) -> None:
        self._attempt = attempt
        self._kind = kind
        self._budget = budget

    def _same(self, sequence: list[Operation]) -> Finding | None:
        """The finding of that kind which the sequence still shows, cut behind it."""
        if self._budget <= 0:
            return None
        self._budget -= 1
        found = self._attempt(sequence)
        if found is None or found.kind != self._kind:
            return None
        return replace(found, sequence=found.sequence[: found.position + 1])

    def without_operations(self, best: Finding) -> Finding:
        """Leave out runs of operations, half of them at first, then ever shorter ones."""
        length = max(len(best.sequence) // 2, 1)
        while length >= 1:
            start = len(best.sequence) - length
            while start >= 0:
                found = self._same(best.sequence[:start] + best.sequence[start + length :])
                if found is not None:
                    best = found
                start -= length
                start = min(start, len(best.sequence) - length)
            length //= 2
        return best

    def with_plainer_operations(self, best: Finding) -> Finding:
        """Make one operation after the other plainer."""
        position = 0
        while position < len(best.sequence):
            for plainer in _plainer(best.sequence[position]):
                found = self._same([*best.sequence[:position], plainer, *best.sequence[position + 1 :]])
                if found is not None:
                    best = found
                    break
            else:
                position += 1
        return best


def _plainer(operation: Operation) -> Iterator[Operation]:
    """The operation with one thing less in it."""
    match operation:
        case Call(_, dict() as body, headers):
            yield from (replace(operation, body=less) for less in _less(body))
            if headers:
                yield replace(operation, headers=())
        case Publish(_, payload, headers):
            for position in range(len(headers)):
                yield replace(operation, headers=headers[:position] + headers[position + 1 :])
            if payload:
                yield replace(operation, payload="")
        case Ack(delivery, body):
            if delivery:
                yield replace(operation, delivery=0)
            if body not in ("", "+ACK"):
                yield replace(operation, body="+ACK")


def _less(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key, value in body.items():
        yield {other: held for other, held in body.items() if other != key}
        if isinstance(value, dict):
            yield from (body | {key: less} for less in _less(value))
