"""Masks for what a consumer waits for: pending messages, redeliveries and floors, by the conflict's number."""

from __future__ import annotations

from typing import Final

from tests.differ.comparing import MISSING, Difference
from tests.differ.moments import (
    Mask,
    Moment,
    Place,
    accepted,
    acknowledged,
    around,
    at,
    consumer_config,
    consumer_configs,
    deliveries,
    filters_changed,
    place,
    place_of,
    selected,
    something_removed,
    stream_configs,
)
from tests.differ.operations import Call, pulled

_OF_PENDING: Final = {"ack_floor", "num_ack_pending", "num_redelivered", "delivery"}


def _removal_under_ack_all(moment: Moment, difference: Difference) -> bool:
    """C-43: NATS takes the removal of a pending message for an ack of all below it; railgun delivers those again.

    So consumers with that policy differ, and streams that keep what their consumers have not acknowledged.
    """
    about = place(moment, difference)
    if not any(config.get("ack_policy") == "all" for config in consumer_configs(moment, about)):
        return False
    if "state" in difference.path:
        retentions = {config.get("retention") for config in stream_configs(moment, about.stream)}
        of_pending = bool(retentions & {"interest", "workqueue"})
    else:
        of_pending = not difference.path or bool(_OF_PENDING & set(difference.path))
    return of_pending and something_removed(moment, about.stream)


def _nak_of_the_last_try(moment: Moment, difference: Difference) -> bool:
    """C-67 (RDL-08): the last delivery's nak ends the message at once, and the floor passes it.

    NATS waits a delay out, and its floor may stay behind.
    """
    about = place(moment, difference)
    of_floor = "ack_floor" in difference.path
    if not of_floor and not {"num_ack_pending", "state"} & set(difference.path):
        return False
    for ack, delivery in acknowledged(moment):
        found = Place(delivery["stream"], delivery["consumer"])
        if ack.body.startswith("-NAK" if of_floor else "-NAK ") and about in (found, Place(found.stream)):
            asked = [config.get("max_deliver") for config in consumer_configs(moment, found)]
            if any(type(most) is int and 0 < most <= delivery["deliveries"] for most in asked):
                return True
    return False


def _nothing_delivered(moment: Moment, difference: Difference) -> bool:
    """C-70 (SEQ-02): before the first delivery nothing was delivered; NATS shows the sequence before the start."""
    delivered = around(moment, difference)
    return difference.path[-2:] == ("delivered", "stream_seq") and "consumer_seq" not in delivered


def _same_floor(moment: Moment, difference: Difference) -> bool:
    """C-71 (SEQ-09): numbers that differ by sequences which hold no message of the consumer say the same.

    Which are its messages is said by the filters that it has, or had when the number was set.
    """
    info = at(moment.nats, difference.path[:-2])
    of_floor = difference.path[-2:] in (("ack_floor", "stream_seq"), ("delivered", "stream_seq"))
    if not of_floor or "config" not in info:
        return False
    about = Place(info["stream_name"], info["name"])
    had = [consumer_config(one) for one in accepted(moment) if place_of(one) == about]
    low, high = sorted(0 if value is MISSING else value for value in (difference.nats, difference.railgun))
    return any(
        not any(low < message["seq"] <= high for message in selected(moment, about.stream, config))
        for config in (info["config"], *filter(None, had))
    )


def _floor_after_removal(moment: Moment, difference: Difference) -> bool:
    """C-72 (SEQ-09): all attempts up to the floor are resolved; NATS counts those of removed messages in one way or another."""
    if difference.path[-2:] != ("ack_floor", "consumer_seq"):
        return False
    nats, railgun = (at(answer, difference.path[:-1]) for answer in (moment.nats, moment.railgun))
    same = nats.get("stream_seq") == railgun.get("stream_seq")
    return same and something_removed(moment, place(moment, difference).stream)


def _due_before_a_purge(moment: Moment, difference: Difference) -> bool:
    """C-83 (RDL-01, DEL-14): what was due again before a purge, and is left by it, is delivered again at once.

    NATS forgets that it was due, and waits until its ack wait is over once more.
    """
    about = place(moment, difference)
    purges = [
        number
        for number, (operation, _) in enumerate(moment.before)
        if isinstance(operation, Call)
        and operation.verb == "STREAM.PURGE"
        and place_of(operation).stream == about.stream
    ]
    if pulled(moment.operation) is None or not purges:
        return False
    earlier = {
        one["sequence"]
        for _, answer in moment.before[: purges[-1]]
        for one in deliveries(answer)
        if (one["stream"], one["consumer"]) == about
    }
    told = {one["sequence"] for one in deliveries(moment.nats)}
    due = {one["sequence"] for one in deliveries(moment.railgun) if one["deliveries"] > 1}
    return bool(due - told) and due - told <= earlier


def _removal_behind_a_filter(moment: Moment, difference: Difference) -> bool:
    """C-89 (RDL-14): a pending message that is removed is not pending any more; NATS keeps one that a new filter does not match."""
    about = place(moment, difference)
    if not {"ack_floor", "num_ack_pending"} & set(difference.path) or not filters_changed(moment, about):
        return False
    end = next(n for n, part in enumerate(difference.path) if part in ("ack_floor", "num_ack_pending"))
    nats, railgun = (
        at(answer, difference.path[:end]).get("num_ack_pending", 0)
        for answer in (moment.nats, moment.railgun)
    )
    return railgun < nats and something_removed(moment, about.stream)


PENDING_MASKS: Final[tuple[Mask, ...]] = (
    Mask("C-67", _nak_of_the_last_try, parts=True),
    Mask("C-70", _nothing_delivered),
    Mask("C-71", _same_floor),
    Mask("C-72", _floor_after_removal),
    Mask("C-83", _due_before_a_purge, parts=True),
    Mask("C-89", _removal_behind_a_filter, parts=True),
    Mask("C-43", _removal_under_ack_all, parts=True),
)
