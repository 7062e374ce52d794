"""Masks for single messages: how publishing, reading and removing them may differ, by the conflict's number."""

from __future__ import annotations

import re
from typing import Any, Final

from railgun.model.subjects import matches
from tests.differ.comparing import Difference
from tests.differ.moments import (
    Mask,
    Moment,
    accepted,
    at,
    body_of,
    error_numbers,
    error_of,
    last_status,
    members,
    place_of,
    requested,
)
from tests.differ.operations import Call, Publish


def _duplicate_first(moment: Moment, difference: Difference) -> bool:
    """C-26: a repeated id is a duplicate, also where its expectation does not hold any more, or could never hold."""
    if not isinstance(moment.operation, Publish):
        return False
    names = {name for name, value in moment.operation.headers if value}
    return (
        "Nats-Msg-Id" in names
        and any(name.startswith(("Nats-Expected-Last-", "Nats-Stream-Source")) for name in names)
        and error_of(moment.nats).get("err_code") in (10070, 10071, 10193, 10227)
        and body_of(moment.railgun).get("duplicate") is True
    )


def _counts_of_64_bits(moment: Moment, difference: Difference) -> bool:
    """C-01: increments and totals have 64 bits; those of NATS have no end."""
    if error_numbers(moment)[1] != 10171:
        return False
    given = [dict(one.headers) for one in members(moment)]
    said = [one.get("Nats-Incr", "") for one in given]
    numbers = [int(one) for one in said if re.fullmatch(" *[+-]?[0-9]+", one)]
    if any("Nats-Batch-Commit" in one for one in given) or len(given) != 1:
        return any(abs(one) >= 2**62 for one in numbers)  # no ack tells the totals of a batch
    total = body_of(moment.nats).get("val")
    return any(not -(2**63) <= one < 2**63 for one in (*numbers, int(total or 0)))


def _counting_turned_over(moment: Moment, difference: Difference) -> bool:
    """C-02: an update turns counters on and off; NATS refuses both."""
    text = str(error_of(moment.nats).get("description", ""))
    is_update = isinstance(moment.operation, Call) and moment.operation.verb == "STREAM.UPDATE"
    return is_update and error_numbers(moment)[0] == 10052 and "counter setting" in text


def _markers_beside_counters(moment: Moment, difference: Difference) -> bool:
    """C-75 (CFG-26): delete markers are messages with a life time, which a stream that counts does not have; NATS forgets to ask."""
    asked = requested(moment.operation)
    text = error_of(moment.railgun).get("description")
    return text == "counter stream cannot use message TTLs" and bool(asked.get("subject_delete_marker_ttl"))


def _plain_beside_counters(moment: Moment, difference: Difference) -> bool:
    """C-03: a subject without increments takes plain messages; in NATS every message of the stream needs the header."""
    if all(dict(one.headers).get("Nats-Incr") for one in members(moment)):
        return False
    return error_numbers(moment)[0] == 10169 != error_numbers(moment)[1]


def _level_of_counters(moment: Moment, difference: Difference) -> bool:
    """C-06: a stream that counts needs level 1; in NATS 2."""
    config = at(moment.nats, difference.path[:-2])
    levels = (difference.nats, difference.railgun)
    return (
        difference.field == "_nats.req.level"
        and bool(config.get("allow_msg_counter"))
        and levels == ("2", "1")
    )


def _source_or_id(moment: Moment, difference: Difference) -> bool:
    """C-54 (PUB-16): a wrong last id is told before a source that is not allowed; NATS tells it after."""
    return error_numbers(moment) == (10227, 10070)


def _invalid_life_time(moment: Moment, difference: Difference) -> bool:
    """C-55 (TTL-03): a time to live that is not valid is refused; NATS takes -1 for never, and anything without an interested consumer."""
    if not any("Nats-TTL" in dict(one.headers) for one in members(moment)):
        return False
    return error_numbers(moment) in ((None, 10165), (10054, 10165))  # NATS goes on to the size


def _id_in_a_batch(moment: Moment, difference: Difference) -> bool:
    """C-07: batches are not de-duplicated, and an id in one is refused at the commit; NATS looks for duplicates."""
    given = any(dict(one.headers).get("Nats-Msg-Id") for one in members(moment))
    refused = error_of(moment.railgun).get("description") == (
        "atomic publish unsupported header used: Nats-Msg-Id"
    )
    return given and refused and error_numbers(moment)[0] != 10177


def _batch_without_a_name(moment: Moment, difference: Difference) -> bool:
    """C-84 (BAT-18): an empty id of a batch is not a valid one; NATS takes the message for one without a batch."""
    of_batch = [dict(one.headers).get("Nats-Batch-Id") for one in members(moment)]
    return of_batch == [""] and error_numbers(moment)[1] in (10174, 10179)


def _end_before_the_first(moment: Moment, difference: Difference) -> bool:
    """C-88 (BAT-22): an end of batch with the sequence 0 is no large batch; NATS counts one below zero."""
    given = dict(moment.operation.headers) if isinstance(moment.operation, Publish) else {}
    at_zero = (
        given.get("Nats-Batch-Sequence", "").strip("0 ") == "" and given.get("Nats-Batch-Commit") == "eob"
    )
    return at_zero and error_numbers(moment) == (10199, 10176)


def _last_sequence_within_a_batch(moment: Moment, difference: Difference) -> bool:
    """C-87 (BAT-29, BAT-30): a later message of a batch is compared with the stream before the batch; NATS counts those ahead of it."""
    given = [dict(one.headers).get("Nats-Expected-Last-Sequence") for one in members(moment)]
    later = [number for number, expected in enumerate(given) if number and expected]
    if set(error_numbers(moment)) == {10071, 10164}:
        return bool(later)
    nats, railgun = _last_sequence_told(moment.nats), _last_sequence_told(moment.railgun)
    return nats is not None and railgun is not None and nats - railgun in later


def _last_sequence_told(answer: Any) -> int | None:
    """The number in a refusal of a wrong last sequence."""
    found = re.fullmatch("wrong last sequence: ([0-9]+)", str(error_of(answer).get("description")))
    return int(found[1]) if found else None


def _missing_sequence(moment: Moment, difference: Difference) -> bool:
    """C-51 (DEL-03): a message that is not there cannot be deleted; the rule allows either number."""
    verb = moment.operation.verb if isinstance(moment.operation, Call) else ""
    return verb == "STREAM.MSG.DELETE" and error_numbers(moment) == (10057, 10043)


def _pending_without_headers(moment: Moment, difference: Difference) -> bool:
    """C-52 (GET-11): what is left of a batch is counted alike with and without headers; NATS counts one more without."""
    asked = requested(moment.operation)
    return bool(asked.get("no_hdr") and asked.get("batch")) and "headers" in difference.path


def _view_of_the_future(moment: Moment, difference: Difference) -> bool:
    """C-53 (GET-16): the view as of a sequence that is still to come is what there is now; NATS finds nothing."""
    return "up_to_seq" in requested(moment.operation) and last_status(moment.nats) == "404 No Results"


def _subject_given_up(moment: Moment, difference: Difference) -> bool:
    """C-86 (BAT-13): a batch is stored by the stream as it is at the commit, which may have given a subject up; NATS stores it."""
    if last_status(moment.railgun) != "503" or error_of(moment.nats):
        return False
    stream = body_of(moment.nats).get("stream", "")
    updates = [
        one for one in accepted(moment) if one.verb == "STREAM.UPDATE" and place_of(one).stream == stream
    ]
    held = requested(updates[-1]).get("subjects", []) if updates else [">"]
    return any(not any(matches(one, message.subject) for one in held) for message in members(moment))


MESSAGE_MASKS: Final[tuple[Mask, ...]] = (
    Mask("C-01", _counts_of_64_bits, parts=True),
    Mask("C-02", _counting_turned_over, parts=True),
    Mask("C-03", _plain_beside_counters, parts=True),
    Mask("C-06", _level_of_counters),
    Mask("C-07", _id_in_a_batch, parts=True),
    Mask("C-26", _duplicate_first),
    Mask("C-51", _missing_sequence),
    Mask("C-52", _pending_without_headers),
    Mask("C-53", _view_of_the_future),
    Mask("C-54", _source_or_id),
    Mask("C-55", _invalid_life_time, parts=True),
    Mask("C-75", _markers_beside_counters, parts=True),
    Mask("C-84", _batch_without_a_name, parts=True),
    Mask("C-86", _subject_given_up, parts=True),
    Mask("C-87", _last_sequence_within_a_batch),
    Mask("C-88", _end_before_the_first),
)
