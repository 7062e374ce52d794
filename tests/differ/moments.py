"""The moment of a difference, and what masks ask about it: the request, both answers, and what was done before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.differ.comparing import Difference, Path
from tests.differ.operations import Call, Operation, Publish

Done = tuple[Operation, Any]  # an operation and the answer of nats-server


@dataclass(frozen=True, slots=True)
class Moment:
    """What a mask may look at; ``ask`` asks nats-server something more."""

    operation: Operation
    nats: Any
    railgun: Any
    before: Sequence[Done]
    ask: Callable[[Operation], Any]


@dataclass(frozen=True, slots=True)
class Mask:
    """An agreed difference. ``parts``: from here on the two systems hold different things, so the sequence ends."""

    reason: str
    explains: Callable[[Moment, Difference], bool]
    parts: bool = False


def requested(operation: Operation) -> dict[str, Any]:
    """The JSON object that a call carries."""
    return operation.body if isinstance(operation, Call) and isinstance(operation.body, dict) else {}


def consumer_config(operation: Operation) -> dict[str, Any]:
    """The configuration that a call asks for a consumer."""
    config = requested(operation).get("config")
    return config if isinstance(config, dict) else {}


def body_of(answer: Any) -> dict[str, Any]:
    """The JSON object of an answer of one frame."""
    body = answer[0].get("body") if len(answer) == 1 else None
    return body if isinstance(body, dict) else {}


def error_of(answer: Any) -> dict[str, Any]:
    """The refusal in an answer; empty where there is none."""
    return body_of(answer).get("error") or {}


def error_numbers(moment: Moment) -> tuple[int | None, int | None]:
    """The numbers of both refusals."""
    return error_of(moment.nats).get("err_code"), error_of(moment.railgun).get("err_code")


def last_status(answer: Any) -> str:
    return answer[-1].get("status", "") if answer else ""


def at(answer: Any, path: Path) -> dict[str, Any]:
    """The object at a path of an answer; an empty one where there is none."""
    for part in path:
        answer = answer.get(part, {}) if isinstance(part, str) else answer[part]
    return answer if isinstance(answer, dict) else {}


def around(moment: Moment, difference: Difference) -> dict[str, Any]:
    """The object of nats-server's answer that the difference lies in."""
    return at(moment.nats, difference.path[:-1])


def stored(moment: Moment, stream: str) -> Iterator[dict[str, Any]]:
    """All messages that nats-server has in a stream."""
    sequence = 0
    while True:
        call = Call(f"STREAM.MSG.GET.{stream}", {"next_by_subj": ">", "seq": sequence + 1})
        message = body_of(moment.ask(call)).get("message")
        if message is None:
            return
        yield message
        sequence = message["seq"]


def calls(moment: Moment) -> list[Call]:
    """The calls up to this moment."""
    return [one for one, _ in [*moment.before, (moment.operation, None)] if isinstance(one, Call)]


def filters_changed(moment: Moment) -> bool:
    """Whether some consumer was asked for with different filters."""
    filters: dict[str, str] = {}
    for call in calls(moment):
        config = consumer_config(call)
        if config:
            consumer = ".".join(call.name.removeprefix(call.verb).split(".")[1:3])
            wanted = str(config.get("filter_subject") or config.get("filter_subjects"))
            if filters.setdefault(consumer, wanted) != wanted:
                return True
    return False


def something_removed(moment: Moment) -> bool:
    """Whether messages may be gone: by request, by a roll-up, by a limit."""
    limits = ("max_msgs", "max_bytes", "max_msgs_per_subject")
    for operation, _ in moment.before:
        if isinstance(operation, Publish) and "Nats-Rollup" in dict(operation.headers):
            return True
        if isinstance(operation, Call) and operation.verb in ("STREAM.PURGE", "STREAM.MSG.DELETE"):
            return True
        if any(requested(operation).get(limit) for limit in limits):
            return True
    return False
