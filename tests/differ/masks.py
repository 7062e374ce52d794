"""The agreed conflicts with NATS as masks: each says which difference it explains, by its number in SEMANTICS 0.2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.differ.comparing import MISSING, Difference
from tests.differ.drivers import Driver
from tests.differ.normal import normal
from tests.differ.operations import Call, Operation, Publish

Done = tuple[Operation, Any]  # an operation and the answer of nats-server


@dataclass(frozen=True, slots=True)
class Moment:
    """What a mask may look at: the operation, both answers, what was asked before, and nats-server itself."""

    operation: Operation
    nats: Any
    railgun: Any
    before: Sequence[Done]
    driver: Driver


@dataclass(frozen=True, slots=True)
class Mask:
    """An agreed conflict. ``parts``: from here on the two systems hold different things, so the sequence ends."""

    conflict: str
    explains: Callable[[Moment, Difference], bool]
    parts: bool = False


# ------------------------------------------------------------ C-17, C-41: configurations


def _replay_of_pulls(moment: Moment, difference: Difference) -> bool:
    """C-17: a pull consumer cannot replay at the original pace; NATS lets it."""
    config = _requested(moment.operation).get("config") or {}
    return (
        error_of(moment.nats) is None
        and error_number(moment.railgun) == 10182
        and config.get("replay_policy") == "original"
        and not config.get("deliver_subject")
    )


def _texts_of_json_errors(moment: Moment, difference: Difference) -> bool:
    """C-41: JSON that does not fit is refused with the same number, and a text of one's own."""
    numbers = (error_number(moment.nats), error_number(moment.railgun))
    return numbers == (10025, 10025) and difference.path[-1] == "description"


_NOT_NEEDED: Final = (  # fields that NATS knows, and railgun only where they say the default
    "allow_batched",
    "compression",
    "direct",
    "pause_until",
    "persist_mode",
    "placement",
    "priority_groups",
    "priority_policy",
    "template_owner",
)


def _fields_not_needed(moment: Moment, difference: Difference) -> bool:
    """C-41: a field that railgun does not need is refused by its name where it says more than the default."""
    error = error_of(moment.railgun)
    if error_of(moment.nats) is not None or error is None:
        return False
    asked = _requested(moment.operation)
    given = {**asked, **(asked.get("config") or {})}
    return any(given.get(field) and field in error["description"] for field in _NOT_NEEDED)


# ------------------------------------------------------------ C-18: bytes of headers


def _bytes_of_headers(moment: Moment, difference: Difference) -> bool:
    """C-18: NATS counts the line ``NATS/1.0`` and a space in each header, for all messages that are stored."""
    if difference.path[-2:] != ("state", "bytes") or MISSING in (difference.nats, difference.railgun):
        return False
    about = moment.nats
    for part in difference.path[:-2]:
        about = about[part]
    extra = sum(
        10 + len(one["hdrs"]) for one in _stored(moment.driver, about["config"]["name"]) if "hdrs" in one
    )
    return bool(difference.nats == difference.railgun + extra)


def _stored(driver: Driver, stream: str) -> Iterator[dict[str, Any]]:
    """All messages of a stream."""
    sequence = 0
    while True:
        call = Call(f"STREAM.MSG.GET.{stream}", {"next_by_subj": ">", "seq": sequence + 1})
        message = normal(driver.send(call))[0]["body"].get("message")
        if message is None:
            return
        yield message
        sequence = message["seq"]


# ------------------------------------------------------------ C-26: duplicates before expectations


def _duplicate_first(moment: Moment, difference: Difference) -> bool:
    """C-26: a repeated id is a duplicate, also where its expectation does not hold any more."""
    operation = moment.operation
    if not isinstance(operation, Publish):
        return False
    names = {name for name, value in operation.headers if value}
    return (
        "Nats-Msg-Id" in names
        and any(name.startswith("Nats-Expected-Last-") for name in names)
        and error_number(moment.nats) in (10070, 10071)
        and _body(moment.railgun).get("duplicate") is True
    )


# ------------------------------------------------------------ C-43: removal under ack all


def _removal_under_ack_all(moment: Moment, difference: Difference) -> bool:
    """C-43: NATS takes the removal of a pending message for an ack of all below it; railgun delivers those again."""
    return any(_acks_all(operation) for operation, _ in moment.before) and any(
        _removes(operation) for operation, _ in moment.before
    )


def _acks_all(operation: Operation) -> bool:
    config = _requested(operation).get("config")
    return isinstance(config, dict) and config.get("ack_policy") == "all"


def _removes(operation: Operation) -> bool:
    return isinstance(operation, Call) and operation.verb in ("STREAM.PURGE", "STREAM.MSG.DELETE")


# ------------------------------------------------------------ looking into answers


def _requested(operation: Operation) -> dict[str, Any]:
    """The JSON object that a call carries."""
    return operation.body if isinstance(operation, Call) and isinstance(operation.body, dict) else {}


def _body(answer: Any) -> dict[str, Any]:
    """The JSON object of an answer of one frame."""
    return answer[0]["body"] if len(answer) == 1 and isinstance(answer[0]["body"], dict) else {}


def error_of(answer: Any) -> dict[str, Any] | None:
    """The refusal in an answer."""
    return _body(answer).get("error")


def error_number(answer: Any) -> int | None:
    return (error_of(answer) or {}).get("err_code")


MASKS: Final[tuple[Mask, ...]] = (
    Mask("C-17", _replay_of_pulls, parts=True),
    Mask("C-18", _bytes_of_headers),
    Mask("C-26", _duplicate_first),
    Mask("C-41", _texts_of_json_errors),
    Mask("C-41", _fields_not_needed, parts=True),
)
