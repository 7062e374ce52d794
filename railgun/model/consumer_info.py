"""The state of a consumer, as callers see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from railgun.model.consumer_config import ConsumerConfig


@dataclass(frozen=True, slots=True)
class SequencePair:
    """A place as the consumer counts (its deliveries) and as the stream does (its messages)."""

    consumer_seq: int = 0
    stream_seq: int = 0

    @classmethod
    def from_api(cls, fields: dict[str, Any]) -> Self:
        return cls(fields.get("consumer_seq", 0), fields.get("stream_seq", 0))


@dataclass(frozen=True, slots=True)
class ConsumerInfo:
    """A consumer's configuration and state, as its stream's owner knew them when it answered.

    ``delivered`` is the last delivery, ``ack_floor`` the place below which everything is resolved. ``num_ack_pending``
    counts what is delivered and unresolved, ``num_redelivered`` those of them that were delivered more than once,
    ``num_pending`` what was not delivered yet, ``num_waiting`` the pulls that wait.
    """

    stream_name: str
    name: str
    config: ConsumerConfig
    created: str
    delivered: SequencePair
    ack_floor: SequencePair
    num_ack_pending: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0
    num_pending: int = 0
    push_bound: bool = False
    raw: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def from_api(cls, fields: dict[str, Any]) -> Self:
        return cls(
            fields["stream_name"],
            fields["name"],
            ConsumerConfig.from_answer(fields["config"]),
            fields.get("created", ""),
            SequencePair.from_api(fields.get("delivered") or {}),
            SequencePair.from_api(fields.get("ack_floor") or {}),
            fields.get("num_ack_pending", 0),
            fields.get("num_redelivered", 0),
            fields.get("num_waiting", 0),
            fields.get("num_pending", 0),
            fields.get("push_bound", False),
            fields,
        )
