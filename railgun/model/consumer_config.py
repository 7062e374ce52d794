"""Consumer configuration, in JetStream's own field names; what a value may *be* is decided by the rules."""

from __future__ import annotations

from typing import ClassVar, Literal

from railgun.model.stream_config import ConfigModel, Duration, Moment


class ConsumerConfig(ConfigModel):
    """A consumer: which messages of a stream it wants, how it gets them, and how it says that they are done.

    A ``name`` that is also the ``durable_name`` makes it durable. Fields that are None take their default when the
    consumer is created. ``opt_start_time`` is given as an aware datetime or as RFC 3339 text.
    ``direct``, ``pause_until`` and ``priority_…`` are NATS's: what is not their default is refused by name (C-41).
    ``max_ack_pending_per_subject`` and ``dead_letter`` are railgun's own: with the first, messages of one subject come
    strictly in turn; the second names the stream that takes a copy of what ran out of deliveries or was terminated.
    """

    CHOICES: ClassVar[frozenset[str]] = frozenset(
        {"deliver_policy", "ack_policy", "replay_policy", "priority_policy"}
    )

    name: str | None = None
    durable_name: str | None = None
    description: str | None = None
    deliver_policy: str = "all"
    opt_start_seq: int | None = None
    opt_start_time: Moment | None = None
    ack_policy: str = "none"
    ack_wait: Duration | None = None
    max_deliver: int | None = None
    backoff: list[Duration] | None = None
    filter_subject: str | None = None
    filter_subjects: list[str] | None = None
    replay_policy: str = "instant"
    rate_limit_bps: int | None = None
    sample_freq: str | None = None
    max_waiting: int | None = None
    max_ack_pending: int | None = None
    max_ack_pending_per_subject: int | None = None
    dead_letter: str | None = None
    idle_heartbeat: Duration | None = None
    flow_control: bool = False
    headers_only: bool = False
    max_batch: int | None = None
    max_expires: Duration | None = None
    max_bytes: int | None = None
    deliver_subject: str | None = None
    deliver_group: str | None = None
    inactive_threshold: Duration | None = None
    num_replicas: int = 0
    mem_storage: bool = False
    direct: bool | None = None
    pause_until: Moment | None = None
    priority_groups: list[str] | None = None
    priority_policy: Literal["none", "overflow", "pinned_client", "prioritized"] | None = None
    priority_timeout: Duration | None = None
    metadata: dict[str, str] | None = None

    @property
    def is_push(self) -> bool:
        """Whether messages are sent to a deliver subject, or wait to be pulled (CON-01)."""
        return bool(self.deliver_subject)

    @property
    def filters(self) -> list[str]:
        """The subjects it wants; empty: all of the stream."""
        if self.filter_subject:
            return [self.filter_subject]
        return list(self.filter_subjects or ())


DeliverPolicy = Literal["all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"]
AckPolicy = Literal["none", "all", "explicit"]
