"""What a stream's configuration may be, and how it may change (CFG-*, UPD-*).

:func:`normalise` and :func:`check_update` return the configuration as it is stored and shown, every default filled in, or
the refusal. They know nothing of other streams: the registrar does, which knows the subjects of all. What the rules
allow but railgun cannot do yet is refused by name (``_NOT_YET``), after every rule had its say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from railgun.model.cluster_limits import ClusterLimits
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.refusals import MIRROR_FIXED, REPLICAS_UNSUPPORTED, Refusal, invalid_config
from railgun.model.stream_config import NO_TIME, StreamConfig
from railgun.semantics.consumers.configuration.consumer_configuration import violated_limits
from railgun.semantics.streams.configuration.source_fields import promoted
from railgun.semantics.streams.configuration.stream_fields import checked
from railgun.semantics.streams.configuration.topic_fields import topics_out_of_reach

# Later work removes its line, and nothing else here.
_NOT_YET: tuple[tuple[str, Callable[[StreamConfig], object]], ...] = (
    ("allow_msg_schedules", lambda config: config.allow_msg_schedules),
    ("persist_mode async", lambda config: config.persist_mode == "async"),
    ("compression", lambda config: config.compression is not None),
    ("placement", lambda config: config.placement is not None),
    ("allow_batched", lambda config: config.allow_batched),
)


def normalise(
    config: StreamConfig, limits: ClusterLimits, *, pedantic: bool = False
) -> StreamConfig | Refusal:
    """The configuration of a new stream as it will be stored, or why there can be no such stream."""
    if config.sealed:
        return invalid_config("stream configuration for create can not be sealed")  # CFG-21
    stored = checked(config, limits, pedantic=pedantic)
    if isinstance(stored, Refusal):
        return stored
    return _beyond_reach(stored, limits) or stored


def check_update(
    old: StreamConfig,
    new: StreamConfig,
    limits: ClusterLimits,
    *,
    pedantic: bool = False,
    consumers: Iterable[ConsumerConfig] = (),
) -> StreamConfig | Refusal:
    """The configuration of a stream with these consumers after the update, or why ``old`` stays as it is (UPD-18)."""
    stored = checked(promoted(old, new), limits, pedantic=pedantic)
    if isinstance(stored, Refusal):
        return stored
    # UPD-01 does not name first_seq: the stream has begun, and keeps the number it began with
    stored = stored.model_copy(update={"first_seq": old.first_seq})
    return (
        _change_refused(old, stored)
        or _beyond_reach(stored, limits)
        or violated_limits(stored, consumers)
        or (_sealed(stored) if stored.sealed else stored)
    )


def _sealed(config: StreamConfig) -> StreamConfig:  # UPD-08
    return config.model_copy(
        update={
            "max_age": NO_TIME,
            "discard": "new",
            "deny_delete": True,
            "deny_purge": True,
            "allow_rollup_hdrs": False,
        }
    )


def _change_refused(old: StreamConfig, new: StreamConfig) -> Refusal | None:
    cannot = "stream configuration update can not"
    if new.name != old.name:  # UPD-02
        return invalid_config("stream configuration name must match original")
    if new.storage != old.storage:  # UPD-03
        return invalid_config(f"{cannot} change storage type")
    if new.retention != old.retention and "workqueue" in (old.retention, new.retention):  # UPD-04
        return invalid_config(f"{cannot} change retention policy to/from workqueue")
    if old.sealed and not new.sealed:  # UPD-07
        return invalid_config(f"{cannot} unseal a sealed stream")
    if old.deny_delete and not new.deny_delete:
        return invalid_config(f"{cannot} cancel deny message deletes")
    if old.deny_purge and not new.deny_purge:
        return invalid_config(f"{cannot} cancel deny purge")
    if new.mirror is not None and new.mirror != old.mirror:  # UPD-09: it may only be removed
        return MIRROR_FIXED
    # UPD-10: sources may be added, removed and changed
    if old.allow_msg_ttl and not new.allow_msg_ttl:  # UPD-13
        return invalid_config("message TTL status can not be disabled")
    # UPD-14, UPD-15: allow_msg_counter and allow_atomic may be switched on and off
    if (old.persist_mode or "default") != (new.persist_mode or "default"):  # UPD-16
        return invalid_config(f"{cannot} change persist mode")
    return None


def _beyond_reach(config: StreamConfig, limits: ClusterLimits) -> Refusal | None:
    """What the rules allow but this cluster, or railgun as it is, cannot hold."""
    if config.num_replicas > max(1, limits.replicas):  # CFG-16
        return REPLICAS_UNSUPPORTED
    for feature, asked_for in _NOT_YET:
        if asked_for(config):
            return invalid_config(f"{feature} is not supported yet")
    return topics_out_of_reach(config, limits)
