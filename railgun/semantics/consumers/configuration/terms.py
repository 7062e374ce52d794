"""The terms of a consumer: its configuration as the rules of delivery need it, worked out once."""

from __future__ import annotations

from railgun.model.consumer_config import ConsumerConfig
from railgun.model.durations import to_nanos
from railgun.model.subjects import Filter

UNLIMITED = 1 << 62


class Terms:
    """What a normalised configuration means: durations in nanoseconds, a compiled filter, no limit as a huge one."""

    __slots__ = (
        "_waits",
        "acks",
        "acks_all",
        "dead_letter",
        "filter",
        "max_ack_pending",
        "max_deliver",
        "per_subject",
        "sampled",
    )

    def __init__(self, config: ConsumerConfig) -> None:
        self.filter = Filter(config.filters)
        self.acks = config.ack_policy != "none"  # else a delivered message is done
        self.acks_all = config.ack_policy == "all"
        self.max_deliver = _limit(config.max_deliver)
        self.max_ack_pending = _limit(config.max_ack_pending)
        self.per_subject = config.max_ack_pending_per_subject or 0  # 0: subjects do not take turns
        self.sampled = min(100, int((config.sample_freq or "0").removesuffix("%")))  # of 100 acks
        self.dead_letter = bool(config.dead_letter)
        backoff = config.backoff or ([config.ack_wait] if config.ack_wait else [])
        self._waits = [to_nanos(wait) for wait in backoff]

    def wait(self, deliveries: int) -> int:
        """How long an acknowledgement is waited for after that many deliveries, ns (RDL-01, RDL-06)."""
        return self._waits[min(deliveries, len(self._waits)) - 1]


def _limit(value: int | None) -> int:
    return value if value is not None and value > 0 else UNLIMITED
