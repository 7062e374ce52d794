"""Masks for streams and what they hold: how nats-server and railgun may differ, by the conflict's number."""

from __future__ import annotations

from typing import Final

from tests.differ.comparing import MISSING, Difference
from tests.differ.moments import (
    Mask,
    Moment,
    Place,
    accepted,
    around,
    at,
    body_of,
    consumer_config,
    consumer_configs,
    error_numbers,
    error_of,
    filters_changed,
    place,
    place_of,
    requested,
    stored,
    stream_configs,
)
from tests.differ.operations import Call

# ------------------------------------------------------------ configurations


def _texts_of_json_errors(moment: Moment, difference: Difference) -> bool:
    """C-41: JSON that does not fit is refused with the same number, and a text of one's own."""
    return error_numbers(moment) == (10025, 10025) and difference.field == "description"


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
    text = error_of(moment.railgun).get("description", "")
    given = requested(moment.operation) | consumer_config(moment.operation)
    return any(given.get(field) and field in text for field in _NOT_NEEDED)


def _nothing_to_rewrite_to(moment: Moment, difference: Difference) -> bool:
    """C-41: a transform or a republish without a destination is refused before all else; NATS takes it and does nothing."""
    text = str(error_of(moment.railgun).get("description", ""))
    return text.endswith('.dest": field required')


def _equal_subjects(moment: Moment, difference: Difference) -> bool:
    """C-44 (CFG-09): equal subjects are duplicates; NATS calls them overlapping."""
    return difference.railgun == "duplicate subjects detected" and "overlaps with" in str(difference.nats)


def _mirror_direct_by_update(moment: Moment, difference: Difference) -> bool:
    """C-46 (CFG-22): only a mirror has mirror_direct; NATS forgets to ask in an update."""
    text = error_of(moment.railgun).get("description")
    return text == "stream has no mirror but does have mirror direct"


# ------------------------------------------------------------ updates


def _first_sequence_by_update(moment: Moment, difference: Difference) -> bool:
    """C-48 (UPD-01): the first sequence of a stream that has begun is not changed; NATS repeats what the update said."""
    if difference.path[-2:] != ("config", "first_seq"):
        return False
    stream = at(moment.nats, difference.path[:-1]).get("name")
    updates = [
        one for one in accepted(moment) if one.verb == "STREAM.UPDATE" and place_of(one).stream == stream
    ]
    return bool(updates) and (requested(updates[-1]).get("first_seq") or MISSING) == difference.nats


def _order_of_limits(moment: Moment, difference: Difference) -> bool:
    """C-49 (UPD-06): of several limits that sink at once, the one of each subject counts first here, and last in NATS.

    So what is left here is never less than there.
    """
    if not isinstance(moment.operation, Call) or moment.operation.verb != "STREAM.UPDATE":
        return False
    asked = requested(moment.operation)
    several = bool(asked.get("max_msgs_per_subject") and (asked.get("max_msgs") or asked.get("max_bytes")))
    return several and "state" in difference.path and _left_more(moment)


def _removal_by_sealing(moment: Moment, difference: Difference) -> bool:
    """C-74 (UPD-08): an update that seals a stream removes nothing; NATS applies the limit of each subject first."""
    asked = requested(moment.operation)
    seals = asked.get("sealed") is True and bool(asked.get("max_msgs_per_subject"))
    return seals and "state" in difference.path and _left_more(moment)


def _left_more(moment: Moment) -> bool:
    """Whether railgun's answer has as many messages as the one of nats-server, or more."""
    nats, railgun = (
        body_of(one).get("state", {}).get("messages", 0) for one in (moment.nats, moment.railgun)
    )
    return bool(nats <= railgun)


def _unlimited_consumers(moment: Moment, difference: Difference) -> bool:
    """C-50 (UPD-17): a consumer without a limit is above every limit; NATS compares its -1."""
    return error_numbers(moment) == (None, 10069)


# ------------------------------------------------------------ what is stored


def _bytes_of_headers(moment: Moment, difference: Difference) -> bool:
    """C-18: NATS counts the line ``NATS/1.0`` and a space in each header, for all messages that are stored."""
    if difference.path[-2:] != ("state", "bytes") or MISSING in (difference.nats, difference.railgun):
        return False
    stream = at(moment.nats, difference.path[:-2])["config"]["name"]
    extra = sum(10 + len(message["hdrs"]) for message in stored(moment, stream) if "hdrs" in message)
    return bool(difference.nats == difference.railgun + extra)


def _nothing_deleted(moment: Moment, difference: Difference) -> bool:
    """C-47 (CFG-33): a brand-new stream has lost nothing; NATS lists sequence 0 as deleted."""
    lists_zero = around(moment, difference).get("deleted") == [0]
    return difference.field in ("deleted", "num_deleted") and lists_zero


def _interest_after_a_change(moment: Moment, difference: Difference) -> bool:
    """C-69 (RET-13, RET-14): who is interested is known from the consumers there are; NATS forgets after some changes."""
    about = Place(place(moment, difference).stream)
    of_state = "state" in difference.path
    if difference.field in ("total", "limit"):  # of the subjects that the state lists
        listed = (0, "body", "state", "subjects")
        of_state = at(moment.nats, listed) != at(moment.railgun, listed)
    if not of_state or not any(
        config.get("retention") == "interest" for config in stream_configs(moment, about.stream)
    ):
        return False
    to_interest = any(
        call.verb == "STREAM.UPDATE" and requested(call).get("retention") == "interest"
        for call in accepted(moment)
        if place_of(call).stream == about.stream
    )
    unacked = any(config.get("ack_policy", "none") == "none" for config in consumer_configs(moment, about))
    return filters_changed(moment, about) or (to_interest and unacked)


def _interest_in_all_subjects(moment: Moment, difference: Difference) -> bool:
    """C-85 (RET-13): a consumer is interested in what its filters match, also in a stream that renames its subjects.

    NATS takes one whose filters are the stream's own subjects for one without any, and keeps messages for it.
    """
    about = Place(place(moment, difference).stream)
    renaming = [
        {*config["subjects"]}
        for config in stream_configs(moment, about.stream)
        if config.get("subject_transform") and config.get("retention") == "interest" and "subjects" in config
    ]
    wanted = [
        {*config.get("filter_subjects", ()), config.get("filter_subject")} - {None, ""}
        for config in consumer_configs(moment, about)
    ]
    nats, railgun = (
        at(one, difference.path[:-1]).get("messages", 0) for one in (moment.nats, moment.railgun)
    )
    kept = difference.path[-2:-1] == ("state",) and railgun < nats
    return kept and any(filters in renaming for filters in wanted)


STREAM_MASKS: Final[tuple[Mask, ...]] = (
    Mask("C-18", _bytes_of_headers),
    Mask("C-41", _texts_of_json_errors),
    Mask("C-41", _fields_not_needed, parts=True),
    Mask("C-41", _nothing_to_rewrite_to, parts=True),
    Mask("C-44", _equal_subjects),
    Mask("C-46", _mirror_direct_by_update, parts=True),
    Mask("C-47", _nothing_deleted),
    Mask("C-48", _first_sequence_by_update),
    Mask("C-49", _order_of_limits, parts=True),
    Mask("C-50", _unlimited_consumers, parts=True),
    Mask("C-69", _interest_after_a_change, parts=True),
    Mask("C-74", _removal_by_sealing, parts=True),
    Mask("C-85", _interest_in_all_subjects, parts=True),
)
