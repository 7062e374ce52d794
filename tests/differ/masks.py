"""The agreed conflicts with NATS as masks: each says which difference it explains, by its number in SEMANTICS 0.2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from railgun.model.subjects import matches
from tests.differ.comparing import MISSING, Difference, Path
from tests.differ.operations import Ack, Call, Operation, Publish

Done = tuple[Operation, Any]  # an operation and the answer of nats-server


@dataclass(frozen=True, slots=True)
class Moment:
    """What a mask may look at: the operation, both answers, what was asked before, and nats-server itself."""

    operation: Operation
    nats: Any
    railgun: Any
    before: Sequence[Done]
    ask: Callable[[Operation], Any]


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
    return numbers == (10025, 10025) and difference.field == "description"


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
    if error is None:
        return False
    asked = _requested(moment.operation)
    given = {**asked, **(asked.get("config") or {})}
    return any(given.get(field) and field in error["description"] for field in _NOT_NEEDED)


def _nothing_to_rewrite_to(moment: Moment, difference: Difference) -> bool:
    """C-41: a transform or a republish without a destination is refused; NATS takes it and does nothing."""
    text = (error_of(moment.railgun) or {}).get("description", "")
    return error_of(moment.nats) is None and text.endswith('.dest": field required')


# ------------------------------------------------------------ C-18: bytes of headers


def _bytes_of_headers(moment: Moment, difference: Difference) -> bool:
    """C-18: NATS counts the line ``NATS/1.0`` and a space in each header, for all messages that are stored."""
    if difference.path[-2:] != ("state", "bytes") or MISSING in (difference.nats, difference.railgun):
        return False
    about = moment.nats
    for part in difference.path[:-2]:
        about = about[part]
    extra = sum(10 + len(one["hdrs"]) for one in _stored(moment, about["config"]["name"]) if "hdrs" in one)
    return bool(difference.nats == difference.railgun + extra)


def _stored(moment: Moment, stream: str) -> Iterator[dict[str, Any]]:
    """All messages of a stream."""
    sequence = 0
    while True:
        call = Call(f"STREAM.MSG.GET.{stream}", {"next_by_subj": ">", "seq": sequence + 1})
        message = moment.ask(call)[0]["body"].get("message")
        if message is None:
            return
        yield message
        sequence = message["seq"]


# ------------------------------------------------------------ C-26: duplicates before expectations


def _duplicate_first(moment: Moment, difference: Difference) -> bool:
    """C-26: a repeated id is a duplicate, also where its expectation does not hold any more, or could never hold."""
    operation = moment.operation
    if not isinstance(operation, Publish):
        return False
    names = {name for name, value in operation.headers if value}
    return (
        "Nats-Msg-Id" in names
        and any(name.startswith(("Nats-Expected-Last-", "Nats-Stream-Source")) for name in names)
        and error_number(moment.nats) in (10070, 10071, 10193, 10227)
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


# ------------------------------------------------------------ rules that say otherwise than nats-server, without a conflict


def _missing_sequence(moment: Moment, difference: Difference) -> bool:
    """DEL-03: a message that is not there cannot be deleted; the rule allows either number."""
    verb = moment.operation.verb if isinstance(moment.operation, Call) else ""
    numbers = (error_number(moment.nats), error_number(moment.railgun))
    return verb == "STREAM.MSG.DELETE" and numbers == (10057, 10043)


def _nothing_delivered(moment: Moment, difference: Difference) -> bool:
    """SEQ-02: before the first delivery nothing was delivered; NATS shows the sequence before the start."""
    return _ends_with(difference, "delivered", "stream_seq") and "consumer_seq" not in _around(
        moment, difference
    )


def _nothing_deleted(moment: Moment, difference: Difference) -> bool:
    """CFG-33: a brand-new stream has lost nothing; NATS lists sequence 0 as deleted."""
    state = _around(moment, difference)
    return difference.field in ("deleted", "num_deleted") and state.get("deleted") == [0]


def _durable_by_update(moment: Moment, difference: Difference) -> bool:
    """CON-12: an update without a durable name leaves a durable one, and railgun says so."""
    given = (_requested(moment.operation).get("config") or {}).get("durable_name")
    return difference.field == "durable_name" and difference.nats is MISSING and not given


def _first_sequence_by_update(moment: Moment, difference: Difference) -> bool:
    """UPD-01: the first sequence of a stream that has begun is not changed; NATS repeats what the update said."""
    return _ends_with(difference, "config", "first_seq")


def _equal_consumer(moment: Moment, difference: Difference) -> bool:
    """CON-10: creating a consumer again with the same configuration is right; NATS refuses it for ephemeral ones."""
    asked = _requested(moment.operation)
    return (
        asked.get("action") == "create"
        and error_number(moment.nats) == 10148
        and error_of(moment.railgun) is None
        and not (asked.get("config") or {}).get("durable_name")
    )


def _replicas_of_consumers(moment: Moment, difference: Difference) -> bool:
    """CFG-16: replicas of a consumer are those of the topics; no number is refused."""
    return error_number(moment.nats) == 10074 and error_of(moment.railgun) is None


def _reason_of_sampling(moment: Moment, difference: Difference) -> bool:
    """ADV-08: why a sampling rate cannot be read is told in one's own words."""
    numbers = (error_number(moment.nats), error_number(moment.railgun))
    return numbers == (10095, 10095) and difference.field == "description"


def _equal_subjects(moment: Moment, difference: Difference) -> bool:
    """CFG-09: equal subjects are duplicates; NATS calls them overlapping."""
    return difference.railgun == "duplicate subjects detected" and "overlaps with" in str(difference.nats)


def _mirror_direct_by_update(moment: Moment, difference: Difference) -> bool:
    """CFG-22: only a mirror has mirror_direct; NATS forgets to ask in an update."""
    text = (error_of(moment.railgun) or {}).get("description")
    return error_of(moment.nats) is None and text == "stream has no mirror but does have mirror direct"


def _end_at_the_wall(moment: Moment, difference: Difference) -> bool:
    """RDL-12: a pull meets the wall of max_ack_pending where there is something behind it; NATS is silent there anyway."""
    ended = {"body": "", "status": "404 No Messages"}
    return not difference.path and moment.railgun == [*moment.nats, ended]


def _negative_patience(moment: Moment, difference: Difference) -> bool:
    """PUL-12: a pull that expires before it came, or takes fewer than no bytes, is a bad request; NATS ends it at once."""
    return _last_status(moment.railgun) in _NEGATIVE


def _reason_of_bad_pulls(moment: Moment, difference: Difference) -> bool:
    """PUL-12: why a pull cannot be read is told in one's own words."""
    bad = "400 Bad Request - "
    return _last_status(moment.nats).startswith(bad) and _last_status(moment.railgun).startswith(bad)


_NEGATIVE: Final = tuple(
    f"400 Bad Request - {field} can not be negative" for field in ("expires", "max_bytes", "idle_heartbeat")
)


def _last_status(answer: Any) -> str:
    return answer[-1].get("status", "") if answer else ""


def _same_floor(moment: Moment, difference: Difference) -> bool:
    """SEQ-09: numbers that differ by sequences which hold no message of the consumer say the same."""
    if (
        difference.field == "consumer_seq"
    ):  # resolved deliveries, whichever way: NATS leaves some out after a purge
        floor, other = (_at(answer, difference.path[:-1]) for answer in (moment.nats, moment.railgun))
        return floor.get("stream_seq") == other.get("stream_seq") and floor.get(
            "consumer_seq", 0
        ) < other.get("consumer_seq", 0)
    if difference.field != "stream_seq" or (
        "ack_floor" not in difference.path and "delivered" not in difference.path
    ):
        return False
    about = _at(moment.nats, difference.path[:-2])
    if "config" not in about:
        return False
    low, high = sorted(0 if value is MISSING else value for value in (difference.nats, difference.railgun))
    config = about["config"]
    filters = (
        [config["filter_subject"]] if "filter_subject" in config else config.get("filter_subjects", [">"])
    )
    return not any(
        low < message["seq"] <= high and any(matches(one, message["subject"]) for one in filters)
        for message in _stored(moment, about["stream_name"])
    )


def _width_of_numbers(moment: Moment, difference: Difference) -> bool:
    """PUL-06: a delivery counts with the room that its numbers may take; NATS counts the digits that they have."""
    if not isinstance(difference.field, int) or "headers" not in difference.path:
        return False
    name = _at_list(moment.nats, difference.path[:-1])[0]
    messages = sum("delivery" in frame for frame in moment.nats)
    few = abs(int(difference.nats) - int(difference.railgun)) <= 4 * messages
    return name == "Nats-Pending-Bytes" and few


def _delayed_last_try(moment: Moment, difference: Difference) -> bool:
    """RDL-08: the last delivery's nak ends the message at once, with or without a delay; NATS waits the delay out."""
    about = _at(moment.nats, difference.path[:-1]) | _at(moment.nats, difference.path[:-2])
    last = about.get("config", {}).get("max_deliver", -1) > 0
    delayed = any(isinstance(one, Ack) and one.body.startswith("-NAK ") for one, _ in moment.before)
    return last and delayed


def _interest_after_a_change(moment: Moment, difference: Difference) -> bool:
    """RET-13, RET-14: who is interested is known from the consumers there are; NATS forgets after some changes of them."""
    if "state" not in difference.path:
        return False
    asked = [one for one, _ in moment.before if isinstance(one, Call)]
    configs = [_requested(one).get("config") or {} for one in asked if one.verb.startswith("CONSUMER.")]
    to_interest = [one.verb for one in asked if _requested(one).get("retention") == "interest"]
    unacked = any(
        config.get("ack_policy", "none") == "none" for config in configs if isinstance(config, dict)
    )
    return bool(to_interest) and (_filters_changed(moment) or ("STREAM.UPDATE" in to_interest and unacked))


def _filters_changed(moment: Moment) -> bool:
    filters: dict[str, str] = {}
    for one, _ in moment.before:
        config = _requested(one).get("config")
        if isinstance(one, Call) and isinstance(config, dict):
            wanted = str(config.get("filter_subject") or config.get("filter_subjects"))
            if filters.setdefault(one.name, wanted) != wanted:
                return True
    return False


def _unlimited_consumers(moment: Moment, difference: Difference) -> bool:
    """UPD-17: a consumer without a limit is above every limit; NATS compares its -1."""
    return error_of(moment.nats) is None and error_number(moment.railgun) == 10069


def _pending_after_new_filter(moment: Moment, difference: Difference) -> bool:
    """CON-28: what matches and was not delivered is counted; NATS miscounts after a change of the filter."""
    if difference.field not in ("num_pending", "pending"):
        return False
    around = _around(moment, difference)
    if around.get("config", {}).get("deliver_policy") == "by_start_sequence":
        return True  # one that lies ahead is forgotten in the count
    name = around.get("name") or around.get("consumer")
    asked = [one for one, _ in [*moment.before, (moment.operation, None)] if isinstance(one, Call)]
    made = [_requested(one).get("config") or {} for one in asked if name in one.name.split(".")[2:]]
    filters = {
        str(config.get("filter_subject") or config.get("filter_subjects")) for config in made if config
    }
    return len(filters) > 1


def _invalid_life_time(moment: Moment, difference: Difference) -> bool:
    """TTL-03: a time to live that is none is refused; NATS takes -1 for never, and anything where nobody is interested."""
    return (
        isinstance(moment.operation, Publish)
        and "Nats-TTL" in dict(moment.operation.headers)
        and error_of(moment.nats) is None
        and error_number(moment.railgun) == 10165
    )


def _source_or_id(moment: Moment, difference: Difference) -> bool:
    """PUB-16: a wrong last id is told before a source that is not allowed; NATS tells it after."""
    return (error_number(moment.nats), error_number(moment.railgun)) == (10227, 10070)


def _view_of_the_future(moment: Moment, difference: Difference) -> bool:
    """GET-16: the view as of a sequence that is still to come is what there is now; NATS finds nothing."""
    asked = _requested(moment.operation)
    return "up_to_seq" in asked and _last_status(moment.nats) == "404 No Results"


def _pending_without_headers(moment: Moment, difference: Difference) -> bool:
    """GET-11: what is left of a batch is counted alike with and without headers; NATS counts one more without."""
    asked = _requested(moment.operation)
    return bool(asked.get("no_hdr") and asked.get("batch")) and "headers" in difference.path


# ------------------------------------------------------------ looking into answers


def _ends_with(difference: Difference, *parts: str) -> bool:
    return difference.path[-len(parts) :] == parts


def _around(moment: Moment, difference: Difference) -> dict[str, Any]:
    """The object of nats-server's answer that the difference lies in."""
    return _at(moment.nats, difference.path[:-1])


def _at_list(answer: Any, path: Path) -> Any:
    for part in path:
        answer = answer[part]
    return answer


def _at(answer: Any, path: Path) -> dict[str, Any]:
    """The object at a path of an answer; an empty one where there is none."""
    for part in path:
        answer = answer.get(part, {}) if isinstance(part, str) else answer[part]
    return answer if isinstance(answer, dict) else {}


def _requested(operation: Operation) -> dict[str, Any]:
    """The JSON object that a call carries."""
    return operation.body if isinstance(operation, Call) and isinstance(operation.body, dict) else {}


def _body(answer: Any) -> dict[str, Any]:
    """The JSON object of an answer of one frame."""
    body = answer[0].get("body") if len(answer) == 1 else None
    return body if isinstance(body, dict) else {}


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
    Mask("C-41", _nothing_to_rewrite_to, parts=True),
    Mask("ADV-08", _reason_of_sampling),
    Mask("CFG-09", _equal_subjects),
    Mask("CFG-16", _replicas_of_consumers, parts=True),
    Mask("CFG-22", _mirror_direct_by_update, parts=True),
    Mask("CFG-33", _nothing_deleted),
    Mask("CON-10", _equal_consumer),
    Mask("CON-12", _durable_by_update),
    Mask("DEL-03", _missing_sequence),
    Mask("GET-11", _pending_without_headers),
    Mask("PUB-16", _source_or_id),
    Mask("CON-28", _pending_after_new_filter),
    Mask("GET-16", _view_of_the_future),
    Mask("PUL-12", _negative_patience, parts=True),
    Mask("PUL-12", _reason_of_bad_pulls),
    Mask("PUL-06", _width_of_numbers),
    Mask("RDL-08", _delayed_last_try, parts=True),
    Mask("RDL-12", _end_at_the_wall),
    Mask("RET-13", _interest_after_a_change, parts=True),
    Mask("SEQ-02", _nothing_delivered),
    Mask("SEQ-09", _same_floor),
    Mask("TTL-03", _invalid_life_time, parts=True),
    Mask("UPD-17", _unlimited_consumers, parts=True),
    Mask("UPD-01", _first_sequence_by_update),
)
