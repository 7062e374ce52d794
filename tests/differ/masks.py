"""The agreed conflicts with NATS as masks: each says which difference it explains, by its number in docs/rules/conflicts.md."""

from __future__ import annotations

from typing import Final

from tests.differ.comparing import MISSING, Difference
from tests.differ.moments import (
    Mask,
    Moment,
    at,
    body_of,
    calls,
    consumer_config,
    error_numbers,
    error_of,
    requested,
    something_removed,
    stored,
)
from tests.differ.operations import Publish
from tests.differ.rulings import RULINGS

# ------------------------------------------------------------ C-17, C-41: configurations


def _replay_of_pulls(moment: Moment, difference: Difference) -> bool:
    """C-17: a pull consumer cannot replay at the original pace; NATS lets it."""
    config = consumer_config(moment.operation)
    original = config.get("replay_policy") == "original" and not config.get("deliver_subject")
    return original and error_numbers(moment) == (None, 10182)


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
    """C-41: a transform or a republish without a destination is refused; NATS takes it and does nothing."""
    text = error_of(moment.railgun).get("description", "")
    return not error_of(moment.nats) and text.endswith('.dest": field required')


# ------------------------------------------------------------ C-18: bytes of headers


def _bytes_of_headers(moment: Moment, difference: Difference) -> bool:
    """C-18: NATS counts the line ``NATS/1.0`` and a space in each header, for all messages that are stored."""
    if difference.path[-2:] != ("state", "bytes") or MISSING in (difference.nats, difference.railgun):
        return False
    stream = at(moment.nats, difference.path[:-2])["config"]["name"]
    extra = sum(10 + len(message["hdrs"]) for message in stored(moment, stream) if "hdrs" in message)
    return bool(difference.nats == difference.railgun + extra)


def _bytes_of_delivered_headers(moment: Moment, difference: Difference) -> bool:
    """C-18: so what is left of a pull's bytes differs by the headers that it was given; and by the width of numbers (PUL-06)."""
    delivered = [frame for frame in moment.nats if "delivery" in frame]
    extra = sum(10 + len(frame["headers"]) for frame in delivered if "headers" in frame)
    if not extra or "headers" not in difference.path or not str(difference.nats).isdigit():
        return False
    return abs(int(difference.railgun) - int(difference.nats) - extra) <= 4 * len(delivered)


# ------------------------------------------------------------ C-26: duplicates before expectations


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


# ------------------------------------------------------------ C-43: removal under ack all

_OF_PENDING: Final = {"ack_floor", "num_ack_pending", "num_redelivered", "delivery"}


def _removal_under_ack_all(moment: Moment, difference: Difference) -> bool:
    """C-43: NATS takes the removal of a pending message for an ack of all below it; railgun delivers those again."""
    acks_all = any(consumer_config(call).get("ack_policy") == "all" for call in calls(moment))
    by_acks = any(requested(call).get("retention") in ("interest", "workqueue") for call in calls(moment))
    of_pending = not difference.path or bool(_OF_PENDING & set(difference.path))
    of_pending |= by_acks and "state" in difference.path
    return acks_all and of_pending and something_removed(moment)


CONFLICTS: Final[tuple[Mask, ...]] = (
    Mask("C-17", _replay_of_pulls, parts=True),
    Mask("C-18", _bytes_of_headers),
    Mask("C-18", _bytes_of_delivered_headers),
    Mask("C-26", _duplicate_first),
    Mask("C-41", _texts_of_json_errors),
    Mask("C-41", _fields_not_needed, parts=True),
    Mask("C-41", _nothing_to_rewrite_to, parts=True),
)
# What could hide more than itself comes last.
MASKS: Final = (*CONFLICTS, *RULINGS, Mask("C-43", _removal_under_ack_all, parts=True))
