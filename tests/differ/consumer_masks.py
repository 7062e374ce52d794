"""Masks for consumers and deliveries: how nats-server and railgun may differ, by the conflict's number."""

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
    consumer_configs,
    error_numbers,
    error_of,
    filters_changed,
    last_status,
    place,
    requested,
    selected,
    something_removed,
)
from tests.differ.operations import Call

# ------------------------------------------------------------ configurations


def _replay_of_pulls(moment: Moment, difference: Difference) -> bool:
    """C-17: a pull consumer cannot replay at the original pace; NATS lets it."""
    config = consumer_config(moment.operation)
    original = config.get("replay_policy") == "original" and not config.get("deliver_subject")
    return original and error_numbers(moment) in ((None, 10182), (10012, 10182))  # NATS: made, and changed


def _replicas_of_consumers(moment: Moment, difference: Difference) -> bool:
    """C-45 (CFG-16): replicas of a consumer are those of the topics; no number is refused, and other faults are named."""
    asked = bool(consumer_config(moment.operation).get("num_replicas"))
    return asked and error_of(moment.nats).get("err_code") == 10074


def _reason_of_sampling(moment: Moment, difference: Difference) -> bool:
    """C-56 (ADV-08): why a sampling rate cannot be read is told in one's own words."""
    return error_numbers(moment) == (10095, 10095) and difference.field == "description"


def _equal_consumer(moment: Moment, difference: Difference) -> bool:
    """C-57 (CON-10): creating a consumer again with the same configuration is right; NATS refuses it for ephemeral ones."""
    durable = consumer_config(moment.operation).get("durable_name")
    again = requested(moment.operation).get("action") == "create"
    return again and not durable and error_numbers(moment) == (10148, None)


def _durable_by_update(moment: Moment, difference: Difference) -> bool:
    """C-58 (CON-12): an update without a durable name leaves a durable one, and railgun says so."""
    return difference.field == "durable_name" and difference.nats is MISSING


def _unlimited_beside_a_limit(moment: Moment, difference: Difference) -> bool:
    """C-59 (CON-13): no limit is more than the stream's; NATS compares the -1."""
    asked = consumer_config(moment.operation).get("max_ack_pending", 0)
    return type(asked) is int and asked < 0 and error_numbers(moment) == (None, 10121)


# ------------------------------------------------------------ what is delivered, and what is left


def _silent_after_new_filter(moment: Moment, difference: Difference) -> bool:
    """C-60 (CON-14): a filter that was changed before the first delivery starts the consumer over; NATS may deliver nothing."""
    if not filters_changed(moment, place(moment, difference)):
        return False
    if difference.path[-2:] == ("ack_floor", "stream_seq"):
        return "delivered" not in at(moment.railgun, difference.path[:-2])
    told = any("delivery" in frame for frame in moment.nats)
    given = any("delivery" in frame for frame in moment.railgun)
    return not difference.path and given and not told


def _miscounted(moment: Moment, difference: Difference) -> bool:
    """C-61 (CON-28): what matches and was not delivered is counted; NATS miscounts after a new filter, with a start
    ahead, and with several filters once something was removed.

    What an info says of railgun must be the true number.
    """
    if difference.field not in ("num_pending", "pending"):
        return False
    about = place(moment, difference)
    configs = consumer_configs(moment, about)
    ahead = any(config.get("deliver_policy") == "by_start_sequence" for config in configs)
    lists = [config.get("filter_subjects") for config in configs]
    several = any(isinstance(filters, list) and len(filters) > 1 for filters in lists)
    missed = several and something_removed(moment, about.stream)
    if not ahead and not missed and not filters_changed(moment, about):
        return False
    info = at(moment.railgun, difference.path[:-1])
    config = info.get("config", {})
    if config.get("deliver_policy") not in ("all", "by_start_sequence"):
        return True  # a count of deliveries, or from a start that only the server knows
    begin = max(info.get("delivered", {}).get("stream_seq", 0) + 1, config.get("opt_start_seq", 0))
    left = sum(message["seq"] >= begin for message in selected(moment, about.stream, config))
    return left == (0 if difference.railgun is MISSING else difference.railgun)


def _silent_after_an_eviction(moment: Moment, difference: Difference) -> bool:
    """C-62 (STA-06): a start at the last of each subject goes on with what is left; NATS falls silent if a limit removes them."""
    told = any("delivery" in frame for frame in moment.nats)
    given = any("delivery" in frame for frame in moment.railgun)
    started = any(consumer_config(call).get("deliver_policy") == "last_per_subject" for call in calls(moment))
    limited = any(requested(call).get("max_msgs_per_subject") in (1, 2) for call in calls(moment))
    return not difference.path and given and not told and started and limited


# ------------------------------------------------------------ pulls


def _bytes_of_delivered_headers(moment: Moment, difference: Difference) -> bool:
    """C-18: so what is left of a pull's bytes differs by the headers that it was given; and by the width of numbers (PUL-06)."""
    delivered = [frame for frame in moment.nats if "delivery" in frame]
    extra = sum(10 + len(frame["headers"]) for frame in delivered if "headers" in frame)
    if not extra or "headers" not in difference.path or not str(difference.nats).isdigit():
        return False
    return abs(int(difference.railgun) - int(difference.nats) - extra) <= 4 * len(delivered)


def _batch_of_none(moment: Moment, difference: Difference) -> bool:
    """C-63 (PUL-01): a pull without a batch is for one message; NATS shows in a status that it was for none."""
    asked = requested(moment.operation).get("batch", 0)
    less = (difference.nats, difference.railgun) in (("-1", "0"), ("0", "1"))  # one message less
    return "headers" in difference.path and less and type(asked) is int and asked < 1


def _width_of_numbers(moment: Moment, difference: Difference) -> bool:
    """C-64 (PUL-06): a delivery counts with the room that its numbers may take; NATS counts the digits that they have."""
    if len(difference.path) < 4 or difference.path[1] != "headers":
        return False
    frame, _, header, _ = difference.path
    assert isinstance(frame, int)
    assert isinstance(header, int)
    messages = sum("delivery" in one for one in moment.nats)
    few = abs(int(difference.nats) - int(difference.railgun)) <= 4 * messages
    return moment.nats[frame]["headers"][header][0] == "Nats-Pending-Bytes" and few


def _negative_patience(moment: Moment, difference: Difference) -> bool:
    """C-65 (PUL-12): a pull that expires before it came, or takes fewer than no bytes, is a bad request; NATS ends it at once."""
    status = last_status(moment.railgun)
    return status.startswith("400 Bad Request - ") and status.endswith(" can not be negative")


def _reason_of_bad_pulls(moment: Moment, difference: Difference) -> bool:
    """C-66 (PUL-12): why a pull cannot be read is told in one's own words."""
    bad = "400 Bad Request - "
    return last_status(moment.nats).startswith(bad) and last_status(moment.railgun).startswith(bad)


def _bytes_used_up(moment: Moment, difference: Difference) -> bool:
    """C-73 (PUL-06): a pull whose bytes are used up to the last one is told so; NATS ends it without a word."""
    if difference.path or len(moment.railgun) != len(moment.nats) + 1 or moment.railgun[:-1] != moment.nats:
        return False
    ended = moment.railgun[-1]
    used_up = ["Nats-Pending-Bytes", "0"] in ended.get("headers", [])
    return used_up and ended.get("status") == "409 Message Size Exceeds MaxBytes"


def _end_at_the_wall(moment: Moment, difference: Difference) -> bool:
    """C-68 (RDL-12): a pull meets the wall of max_ack_pending where there is something behind it; NATS waits there anyway."""
    nats = moment.nats[:-1] if last_status(moment.nats) == "408 Request Timeout" else moment.nats
    if moment.railgun != [*nats, {"body": "", "status": "404 No Messages"}]:
        return False
    info = body_of(moment.ask(Call("CONSUMER.INFO." + ".".join(place(moment, difference)))))
    wall = info.get("config", {}).get("max_ack_pending", 0)
    return bool(0 < wall <= info.get("num_ack_pending", 0))


CONSUMER_MASKS: Final[tuple[Mask, ...]] = (
    Mask("C-17", _replay_of_pulls, parts=True),
    Mask("C-18", _bytes_of_delivered_headers),
    Mask("C-45", _replicas_of_consumers, parts=True),
    Mask("C-56", _reason_of_sampling),
    Mask("C-57", _equal_consumer),
    Mask("C-58", _durable_by_update),
    Mask("C-59", _unlimited_beside_a_limit, parts=True),
    Mask("C-60", _silent_after_new_filter, parts=True),
    Mask("C-61", _miscounted),
    Mask("C-62", _silent_after_an_eviction, parts=True),
    Mask("C-63", _batch_of_none),
    Mask("C-64", _width_of_numbers),
    Mask("C-65", _negative_patience, parts=True),
    Mask("C-66", _reason_of_bad_pulls),
    Mask("C-68", _end_at_the_wall),
    Mask("C-73", _bytes_used_up),
)
