"""Rules that say otherwise than nats-server does, without a conflict's number: where railgun keeps to the rule.

Each names its rule. Most are small mistakes of nats-server 2.15, or texts that a rule leaves open.
"""

from __future__ import annotations

from typing import Final

from railgun.model.subjects import matches
from tests.differ.comparing import MISSING, Difference
from tests.differ.moments import (
    Mask,
    Moment,
    around,
    at,
    calls,
    consumer_config,
    error_numbers,
    error_of,
    filters_changed,
    last_status,
    requested,
    something_removed,
    stored,
)
from tests.differ.operations import Ack, Call, Publish

# ------------------------------------------------------------ streams and their messages


def _equal_subjects(moment: Moment, difference: Difference) -> bool:
    """CFG-09: equal subjects are duplicates; NATS calls them overlapping."""
    return difference.railgun == "duplicate subjects detected" and "overlaps with" in str(difference.nats)


def _mirror_direct_by_update(moment: Moment, difference: Difference) -> bool:
    """CFG-22: only a mirror has mirror_direct; NATS forgets to ask in an update."""
    text = error_of(moment.railgun).get("description")
    return text == "stream has no mirror but does have mirror direct"


def _nothing_deleted(moment: Moment, difference: Difference) -> bool:
    """CFG-33: a brand-new stream has lost nothing; NATS lists sequence 0 as deleted."""
    lists_zero = around(moment, difference).get("deleted") == [0]
    return difference.field in ("deleted", "num_deleted") and lists_zero


def _first_sequence_by_update(moment: Moment, difference: Difference) -> bool:
    """UPD-01: the first sequence of a stream that has begun is not changed; NATS repeats what the update said."""
    return difference.path[-2:] == ("config", "first_seq")


def _order_of_limits(moment: Moment, difference: Difference) -> bool:
    """UPD-06: of several limits that sink at once, the one of each subject counts first here, and last in NATS."""
    asked = requested(moment.operation)
    several = bool(asked.get("max_msgs_per_subject") and (asked.get("max_msgs") or asked.get("max_bytes")))
    return several and "state" in difference.path


def _unlimited_consumers(moment: Moment, difference: Difference) -> bool:
    """UPD-17: a consumer without a limit is above every limit; NATS compares its -1."""
    return error_numbers(moment) == (None, 10069)


def _missing_sequence(moment: Moment, difference: Difference) -> bool:
    """DEL-03: a message that is not there cannot be deleted; the rule allows either number."""
    verb = moment.operation.verb if isinstance(moment.operation, Call) else ""
    return verb == "STREAM.MSG.DELETE" and error_numbers(moment) == (10057, 10043)


def _pending_without_headers(moment: Moment, difference: Difference) -> bool:
    """GET-11: what is left of a batch is counted alike with and without headers; NATS counts one more without."""
    asked = requested(moment.operation)
    return bool(asked.get("no_hdr") and asked.get("batch")) and "headers" in difference.path


def _view_of_the_future(moment: Moment, difference: Difference) -> bool:
    """GET-16: the view as of a sequence that is still to come is what there is now; NATS finds nothing."""
    return "up_to_seq" in requested(moment.operation) and last_status(moment.nats) == "404 No Results"


def _source_or_id(moment: Moment, difference: Difference) -> bool:
    """PUB-16: a wrong last id is told before a source that is not allowed; NATS tells it after."""
    return error_numbers(moment) == (10227, 10070)


def _invalid_life_time(moment: Moment, difference: Difference) -> bool:
    """TTL-03: a time to live that is none is refused; NATS takes -1 for never, and anything where nobody is interested."""
    if not isinstance(moment.operation, Publish) or "Nats-TTL" not in dict(moment.operation.headers):
        return False
    return error_numbers(moment) == (None, 10165)


# ------------------------------------------------------------ consumers


def _reason_of_sampling(moment: Moment, difference: Difference) -> bool:
    """ADV-08: why a sampling rate cannot be read is told in one's own words."""
    return error_numbers(moment) == (10095, 10095) and difference.field == "description"


def _replicas_of_consumers(moment: Moment, difference: Difference) -> bool:
    """CFG-16: replicas of a consumer are those of the topics; no number is refused."""
    refused, other = error_numbers(moment)
    return refused == 10074 and other in (None, 10059, 10134)


def _equal_consumer(moment: Moment, difference: Difference) -> bool:
    """CON-10: creating a consumer again with the same configuration is right; NATS refuses it for ephemeral ones."""
    durable = consumer_config(moment.operation).get("durable_name")
    again = requested(moment.operation).get("action") == "create"
    return again and not durable and error_numbers(moment) == (10148, None)


def _durable_by_update(moment: Moment, difference: Difference) -> bool:
    """CON-12: an update without a durable name leaves a durable one, and railgun says so."""
    return difference.field == "durable_name" and difference.nats is MISSING


def _unlimited_beside_a_limit(moment: Moment, difference: Difference) -> bool:
    """CON-13: no limit is more than the stream's; NATS compares the -1."""
    asked = consumer_config(moment.operation).get("max_ack_pending", 0)
    return type(asked) is int and asked < 0 and error_numbers(moment) == (None, 10121)


def _silent_after_new_filter(moment: Moment, difference: Difference) -> bool:
    """CON-14: a filter that was changed before the first delivery starts the consumer over; NATS may deliver nothing."""
    told = any("delivery" in frame for frame in moment.nats)
    given = any("delivery" in frame for frame in moment.railgun)
    return not difference.path and given and not told and filters_changed(moment)


def _miscounted(moment: Moment, difference: Difference) -> bool:
    """CON-28: what matches and was not delivered is counted; NATS miscounts after a change of the filter, or a start ahead."""
    if difference.field not in ("num_pending", "pending"):
        return False
    ahead = any(consumer_config(call).get("deliver_policy") == "by_start_sequence" for call in calls(moment))
    return ahead or filters_changed(moment)


def _negative_patience(moment: Moment, difference: Difference) -> bool:
    """PUL-12: a pull that expires before it came, or takes fewer than no bytes, is a bad request; NATS ends it at once."""
    status = last_status(moment.railgun)
    return status.startswith("400 Bad Request - ") and status.endswith(" can not be negative")


def _reason_of_bad_pulls(moment: Moment, difference: Difference) -> bool:
    """PUL-12: why a pull cannot be read is told in one's own words."""
    bad = "400 Bad Request - "
    return last_status(moment.nats).startswith(bad) and last_status(moment.railgun).startswith(bad)


def _batch_of_none(moment: Moment, difference: Difference) -> bool:
    """PUL-01: a pull without a batch is for one message; NATS shows in a status that it was for none."""
    asked = requested(moment.operation).get("batch", 0)
    return "headers" in difference.path and difference.nats == "-1" and type(asked) is int and asked < 1


def _width_of_numbers(moment: Moment, difference: Difference) -> bool:
    """PUL-06: a delivery counts with the room that its numbers may take; NATS counts the digits that they have."""
    if len(difference.path) < 4 or difference.path[1] != "headers":
        return False
    frame, _, header, _ = difference.path
    assert isinstance(frame, int)
    assert isinstance(header, int)
    messages = sum("delivery" in one for one in moment.nats)
    few = abs(int(difference.nats) - int(difference.railgun)) <= 4 * messages
    return moment.nats[frame]["headers"][header][0] == "Nats-Pending-Bytes" and few


def _delayed_last_try(moment: Moment, difference: Difference) -> bool:
    """RDL-08: the last delivery's nak ends the message at once, with or without a delay; NATS waits the delay out."""
    bounded = any(consumer_config(call).get("max_deliver") for call in calls(moment))
    delayed = any(isinstance(one, Ack) and one.body.startswith("-NAK ") for one, _ in moment.before)
    about = {"ack_floor", "num_ack_pending", "state"} & set(difference.path)
    return bounded and delayed and bool(about)


def _end_at_the_wall(moment: Moment, difference: Difference) -> bool:
    """RDL-12: a pull meets the wall of max_ack_pending where there is something behind it; NATS is silent there anyway."""
    ended = {"body": "", "status": "404 No Messages"}
    return not difference.path and moment.railgun == [*moment.nats, ended]


def _interest_after_a_change(moment: Moment, difference: Difference) -> bool:
    """RET-13, RET-14: who is interested is known from the consumers there are; NATS forgets after some changes of them."""
    asked = calls(moment)
    to_interest = [call.verb for call in asked if requested(call).get("retention") == "interest"]
    unacked = any(
        consumer_config(call).get("ack_policy", "none") == "none"
        for call in asked
        if "config" in requested(call)
    )
    forgotten = filters_changed(moment) or ("STREAM.UPDATE" in to_interest and unacked)
    return "state" in difference.path and bool(to_interest) and forgotten


def _nothing_delivered(moment: Moment, difference: Difference) -> bool:
    """SEQ-02: before the first delivery nothing was delivered; NATS shows the sequence before the start."""
    delivered = around(moment, difference)
    return difference.path[-2:] == ("delivered", "stream_seq") and "consumer_seq" not in delivered


def _same_floor(moment: Moment, difference: Difference) -> bool:
    """SEQ-09: numbers that differ by sequences which hold no message of the consumer say the same."""
    about = at(moment.nats, difference.path[:-2])
    if (
        difference.path[-2:] not in (("ack_floor", "stream_seq"), ("delivered", "stream_seq"))
        or "config" not in about
    ):
        return False
    low, high = sorted(0 if value is MISSING else value for value in (difference.nats, difference.railgun))
    config = about["config"]
    filters = (
        [config["filter_subject"]] if "filter_subject" in config else config.get("filter_subjects", [">"])
    )
    return not any(
        low < message["seq"] <= high and any(matches(one, message["subject"]) for one in filters)
        for message in stored(moment, about["stream_name"])
    )


def _floor_after_removal(moment: Moment, difference: Difference) -> bool:
    """SEQ-09: all attempts up to the floor are resolved; NATS counts those of removed messages in one way or another."""
    nats, railgun = (at(answer, difference.path[:-1]) for answer in (moment.nats, moment.railgun))
    same = nats.get("stream_seq") == railgun.get("stream_seq")
    return difference.path[-2:] == ("ack_floor", "consumer_seq") and same and something_removed(moment)


def _silent_after_an_eviction(moment: Moment, difference: Difference) -> bool:
    """STA-06: a start at the last of each subject goes on with what is left; NATS falls silent if a limit removes them."""
    told = any("delivery" in frame for frame in moment.nats)
    given = any("delivery" in frame for frame in moment.railgun)
    started = any(consumer_config(call).get("deliver_policy") == "last_per_subject" for call in calls(moment))
    limited = any(requested(call).get("max_msgs_per_subject") in (1, 2) for call in calls(moment))
    return not difference.path and given and not told and started and limited


RULINGS: Final[tuple[Mask, ...]] = (
    Mask("ADV-08", _reason_of_sampling),
    Mask("CFG-09", _equal_subjects),
    Mask("CFG-16", _replicas_of_consumers, parts=True),
    Mask("CFG-22", _mirror_direct_by_update, parts=True),
    Mask("CFG-33", _nothing_deleted),
    Mask("CON-10", _equal_consumer),
    Mask("CON-12", _durable_by_update),
    Mask("CON-13", _unlimited_beside_a_limit, parts=True),
    Mask("CON-14", _silent_after_new_filter, parts=True),
    Mask("CON-28", _miscounted),
    Mask("DEL-03", _missing_sequence),
    Mask("GET-11", _pending_without_headers),
    Mask("GET-16", _view_of_the_future),
    Mask("PUB-16", _source_or_id),
    Mask("PUL-01", _batch_of_none),
    Mask("PUL-06", _width_of_numbers),
    Mask("PUL-12", _negative_patience, parts=True),
    Mask("PUL-12", _reason_of_bad_pulls),
    Mask("RDL-08", _delayed_last_try, parts=True),
    Mask("RDL-12", _end_at_the_wall),
    Mask("RET-13", _interest_after_a_change, parts=True),
    Mask("SEQ-02", _nothing_delivered),
    Mask("SEQ-09", _same_floor),
    Mask("SEQ-09", _floor_after_removal),
    Mask("STA-06", _silent_after_an_eviction, parts=True),
    Mask("TTL-03", _invalid_life_time, parts=True),
    Mask("UPD-01", _first_sequence_by_update),
    Mask("UPD-06", _order_of_limits, parts=True),
    Mask("UPD-17", _unlimited_consumers, parts=True),
)
