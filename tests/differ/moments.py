"""The moment of a difference, and what masks ask about it: the request, both answers, and what was done before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from railgun.model.subjects import matches
from tests.differ.comparing import Difference, Path
from tests.differ.operations import Ack, Call, Operation, Publish

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


def selected(moment: Moment, stream: str, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The stored messages that match the filters of a consumer."""
    one = config.get("filter_subject")
    filters = [one] if one else config.get("filter_subjects", [">"])
    for message in stored(moment, stream):
        if any(matches(pattern, message["subject"]) for pattern in filters):
            yield message


def deliveries(answer: Any) -> list[dict[str, Any]]:
    """What the reply addresses of an answer's messages say."""
    return [frame["delivery"] for frame in answer if "delivery" in frame]


def calls(moment: Moment) -> list[Call]:
    """The calls up to this moment."""
    return [one for one, _ in [*moment.before, (moment.operation, None)] if isinstance(one, Call)]


def accepted(moment: Moment) -> list[Call]:
    """The calls up to this moment that nats-server did not refuse."""
    done = [*moment.before, (moment.operation, moment.nats)]
    return [one for one, answer in done if isinstance(one, Call) and not error_of(answer)]


def members(moment: Moment) -> list[Publish]:
    """The messages that a publish would store: itself, or those of the batch that it commits."""
    last = moment.operation
    if not isinstance(last, Publish):
        return []
    batch, commit = _batch_of(last)
    if not batch or commit is None:
        return [last]
    found = [] if commit == "eob" else [last]
    for operation, answer in reversed(moment.before):
        if isinstance(operation, Publish) and _batch_of(operation)[0] == batch:
            if answer != [{"body": ""}]:
                break  # it ended another batch of that id
            found.append(operation)
    return found[::-1]


def _batch_of(message: Publish) -> tuple[str | None, str | None]:
    """The id of the batch that a message is of, and what it says of a commit."""
    given = dict(message.headers)
    return given.get("Nats-Batch-Id"), given.get("Nats-Batch-Commit")


# ------------------------------------------------------------ which stream, which consumer


class Place(NamedTuple):
    """A stream, or one of its consumers."""

    stream: str
    consumer: str = ""


def place_of(call: Call) -> Place:
    """The stream and the consumer that a call names."""
    stream, consumer, *_ = [*call.name.removeprefix(call.verb).split(".")[1:], "", ""]
    config = consumer_config(call)
    return Place(stream, consumer or config.get("name") or config.get("durable_name") or "")


def place(moment: Moment, difference: Difference) -> Place:
    """What the difference is about: the delivery or the info that it lies in, else what the operation asked for."""
    for end in range(len(difference.path), 0, -1):
        for answer in (moment.nats, moment.railgun):
            found = at(answer, difference.path[:end])
            if "delivery" in found:
                return Place(found["delivery"]["stream"], found["delivery"]["consumer"])
            if "stream_name" in found:
                return Place(found["stream_name"], found.get("name", ""))
            if "state" in found and "config" in found:
                return Place(found["config"]["name"])
    if isinstance(moment.operation, Call):
        return place_of(moment.operation)
    acked = [delivery for ack, delivery in acknowledged(moment) if ack is moment.operation]
    return Place(acked[0]["stream"], acked[0]["consumer"]) if acked else Place("")


def acknowledged(moment: Moment) -> Iterator[tuple[Ack, dict[str, Any]]]:
    """Each acknowledgement up to this moment, with the delivery that it is for."""
    known: list[dict[str, Any]] = []
    for operation, answer in [*moment.before, (moment.operation, [])]:
        if isinstance(operation, Ack) and known:
            yield operation, known[operation.delivery % len(known)]
        known += deliveries(answer)


def stream_configs(moment: Moment, stream: str) -> list[dict[str, Any]]:
    """The configurations that were asked for a stream, in order."""
    verbs = ("STREAM.CREATE", "STREAM.UPDATE")
    return [requested(one) for one in calls(moment) if one.verb in verbs and place_of(one).stream == stream]


def consumer_configs(moment: Moment, about: Place) -> list[dict[str, Any]]:
    """The configurations that were asked for a consumer, in order; for all of a stream where none is named."""
    asked = [(place_of(one), consumer_config(one)) for one in calls(moment) if "config" in requested(one)]
    return [config for found, config in asked if about in (found, Place(found.stream))]


def filters_changed(moment: Moment, about: Place) -> bool:
    """Whether the consumer, or some consumer of the stream, was asked for with different filters."""
    filters: dict[Place, str] = {}
    for call in calls(moment):
        found, config = place_of(call), consumer_config(call)
        if config and about in (found, Place(found.stream)):
            wanted = str(config.get("filter_subject") or config.get("filter_subjects"))
            if filters.setdefault(found, wanted) != wanted:
                return True
    return False


def something_removed(moment: Moment, stream: str) -> bool:
    """Whether messages of the stream may be gone: by request, by a roll-up, by a limit."""
    limits = ("max_msgs", "max_bytes", "max_msgs_per_subject")
    for operation, answer in moment.before:
        if isinstance(operation, Publish) and "Nats-Rollup" in dict(operation.headers):
            if body_of(answer).get("stream", stream) == stream:  # without an ack it may have been this one
                return True
        elif isinstance(operation, Call) and place_of(operation).stream == stream:
            if operation.verb in ("STREAM.PURGE", "STREAM.MSG.DELETE"):
                return True
            if any(requested(operation).get(limit) for limit in limits):
                return True
    return False
