"""How far a stream has come in a topic that it adopted, as callers see it (TOP-15)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Self

from railgun.model.durations import from_nanos, to_nanos
from railgun.model.refusals import Refusal

_NEVER = -1  # how the API says that nothing was heard


@dataclass(frozen=True, slots=True)
class TopicPartitionInfo:
    """One partition of an adopted topic.

    ``position`` is the next offset to copy, ``end`` the end of the partition when it was last looked at, and ``lag`` what lies between;
    offsets of transaction markers and aborted records are counted until they are passed. ``passed`` counts records that could not be
    stored and are in ``rejected``, ``lost`` offsets that Kafka had removed before they were copied, and ``note`` tells of the last of these.
    """

    partition: int
    position: int
    end: int = 0
    lag: int = 0
    passed: int = 0
    lost: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class TopicSourceInfo:
    """A Kafka topic that a stream copies.

    ``lag`` is that of all partitions together. ``active`` is how long ago the topic was last read or looked at, None for never;
    ``error`` says why nothing is copied now, or else what was last passed over or lost; None if nothing is wrong.
    """

    topic: str
    subject: str = ""
    lag: int = 0
    active: timedelta | None = None
    error: Refusal | None = None
    partitions: tuple[TopicPartitionInfo, ...] = ()

    def to_api(self) -> dict[str, Any]:
        """The object of STREAM.INFO."""
        fields: dict[str, Any] = {
            "topic": self.topic,
            "subject": self.subject,
            "lag": self.lag,
            "active": _NEVER if self.active is None else to_nanos(self.active),
            "partitions": [asdict(one) for one in self.partitions],
        }
        return fields if self.error is None else fields | {"error": self.error.as_json()}

    @classmethod
    def from_api(cls, fields: dict[str, Any]) -> Self:
        active, error = fields.get("active", _NEVER), fields.get("error")
        known = TopicPartitionInfo.__dataclass_fields__
        return cls(
            fields.get("topic", ""),
            fields.get("subject", ""),
            fields.get("lag", 0),
            None if active < 0 else from_nanos(active),
            error and Refusal(error.get("code", 0), error.get("err_code", 0), error.get("description", "")),
            tuple(
                TopicPartitionInfo(**{name: value for name, value in one.items() if name in known})
                for one in fields.get("partitions") or ()
            ),
        )
