"""What a consumer's configuration may be, and how it may change (CON, STA, RET).

The functions return the configuration as it is stored and shown, every default filled in, or the refusal. They know the
stream's configuration and those of its other consumers; a name, where none is given, is the caller's to make.
"""

from __future__ import annotations

from collections.abc import Iterable

from railgun.model import refusals
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.durations import duration_text, to_nanos
from railgun.model.refusals import Refusal
from railgun.model.stream_config import NO_TIME, StreamConfig
from railgun.model.subjects import Patterns
from railgun.semantics.consumers.configuration.consumer_fields import checked

_FIXED = {  # CON-11: field to what the refusal calls it; the others may change, sample_freq among them (ADV-09)
    "deliver_policy": "deliver policy",
    "opt_start_seq": "start sequence",
    "opt_start_time": "start time",
    "mem_storage": "storage type",
    "ack_policy": "ack policy",
    "replay_policy": "replay policy",
    "idle_heartbeat": "heart beats",
    "flow_control": "flow control",
    "max_waiting": "max waiting",
}


def normalise_consumer(
    config: ConsumerConfig, stream: StreamConfig, others: Iterable[ConsumerConfig], *, consumers: int
) -> ConsumerConfig | Refusal:
    """The configuration of a new consumer beside ``others``; or why there can be none. ``consumers``: how many the stream has."""
    stored = completed(config, stream)
    if isinstance(stored, Refusal):
        return stored
    if 0 < stream.max_consumers <= consumers:
        return refusals.TOO_MANY_CONSUMERS  # CFG-28
    return _queue_refused(stored, stream, list(others)) or stored


def kept_by_update(old: ConsumerConfig, new: ConsumerConfig) -> ConsumerConfig:
    """The update with what it leaves out and must not change: without a durable name, a durable stays one (CON-12)."""
    if new.durable_name or not old.durable_name:
        return new
    return new.model_copy(update={"durable_name": old.durable_name})


def check_consumer_update(
    old: ConsumerConfig,
    new: ConsumerConfig,
    stream: StreamConfig,
    others: Iterable[ConsumerConfig],
    *,
    listened: bool,
) -> ConsumerConfig | Refusal:
    """The configuration after the update, or why ``old`` stays. ``listened``: a client is on the old deliver subject."""
    stored = completed(new, stream)
    if isinstance(stored, Refusal):
        return stored
    refused = _change_refused(old, stored, listened) or _queue_refused(stored, stream, list(others))  # RET-08
    return refused or stored


def violated_limits(stream: StreamConfig, consumers: Iterable[ConsumerConfig]) -> Refusal | None:
    """Why the stream can not have these limits for its consumers: some are above them (UPD-17)."""
    above = sorted(config.name or "" for config in consumers if _limits_refused(config, stream))
    return refusals.consumers_violated(above) if above else None


def completed(config: ConsumerConfig, stream: StreamConfig) -> ConsumerConfig | Refusal:
    """The configuration with its defaults, or why no consumer of the stream can have it, new or old."""
    stored = checked(config, stream)
    return stored if isinstance(stored, Refusal) else _limits_refused(stored, stream) or stored


def _limits_refused(config: ConsumerConfig, stream: StreamConfig) -> Refusal | None:  # CON-13
    limits = stream.consumer_limits
    if limits is None:
        return None
    most, asked = limits.max_ack_pending or 0, config.max_ack_pending or 0
    unlimited = asked <= 0 and config.ack_policy != "none"
    if most > 0 and (unlimited or asked > most):
        return refusals.max_ack_pending_exceeded(most)
    longest, threshold = limits.inactive_threshold or NO_TIME, config.inactive_threshold or NO_TIME
    if NO_TIME < longest < threshold:
        return refusals.inactive_threshold_exceeded(duration_text(to_nanos(longest)))
    return None


def _queue_refused(
    config: ConsumerConfig, stream: StreamConfig, others: list[ConsumerConfig]
) -> Refusal | None:
    if stream.retention != "workqueue":
        return None
    if config.ack_policy != "explicit":
        return refusals.QUEUE_NEEDS_EXPLICIT_ACK  # RET-03
    if config.deliver_policy != "all":
        return refusals.QUEUE_NEEDS_DELIVER_ALL  # RET-04
    return queue_conflict(config.filters, others)


def queue_conflict(filters: list[str], others: list[ConsumerConfig]) -> Refusal | None:
    """Why a work queue with these consumers can not have one more with these filters."""
    if others and not filters:
        return refusals.QUEUE_NEEDS_FILTERS  # RET-05
    own = Patterns(filters)
    for other in others:
        if not other.filters or any(own.collide(one) for one in other.filters):
            return refusals.QUEUE_FILTER_TAKEN  # RET-06
    return None  # RET-07: filters that no subject has in common


def _change_refused(old: ConsumerConfig, new: ConsumerConfig, listened: bool) -> Refusal | None:
    if old.is_push != new.is_push:
        change = "push consumer to pull based" if old.is_push else "pull consumer to push based"
        return refusals.consumer_refused(f"can not update {change}")
    for field, called in _FIXED.items():
        if getattr(old, field) != getattr(new, field):
            return refusals.consumer_refused(f"{called} can not be updated")
    if old.deliver_subject != new.deliver_subject and listened:
        return refusals.CONSUMER_NAME_IN_USE  # CON-12
    return None
