"""A key-value bucket as callers configure it, and as it stands (docs/rules, KV).

The model checks types and fills what follows from the mode; what a value may *be* is checked when the bucket is made
(``client.buckets.layout``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, model_validator

from railgun.model.messages import StreamInfo
from railgun.model.stream_config import (
    ConfigModel,
    Duration,
    Placement,
    Republish,
    StreamSource,
    by_name,
)


class BucketConfig(ConfigModel):
    """A bucket: string keys, values of bytes, and the newest ``history`` values of each key.

    ``ttl`` is the age at which any value goes, ``limit_marker_ttl`` turns on markers that tell watchers of it. ``dotted_keys``
    allows ``.`` and ``=`` in keys, and wildcards in watches (KV-03). ``marker_deletes``: deletes leave a marker and keep the
    history (KV-21). ``nats_mode`` names and keeps everything as NATS's own clients do. ``replica_of``: the bucket that this one
    copies; it follows from ``mirror``, the stream that is copied, and that from it.
    """

    bucket: str
    description: str | None = None
    history: int = 1
    ttl: Duration | None = None
    max_value_size: int = -1
    max_bytes: int = -1
    replicas: int = 1
    placement: Placement | None = None
    storage: Literal["file", "memory"] = "file"
    stream_name: str | None = None
    subject_prefix: str = "kv"
    dotted_keys: bool = False
    marker_deletes: bool = False
    nats_mode: bool = False
    limit_marker_ttl: Duration | None = None
    allow_msg_ttl: bool = True
    metadata: dict[str, str] | None = None
    republish: Republish | None = None
    mirror: Annotated[StreamSource | None, BeforeValidator(by_name)] = None
    replica_of: str | None = None
    sources: Annotated[list[StreamSource] | None, BeforeValidator(by_name)] = None

    @model_validator(mode="before")
    @classmethod
    def _as_a_replica(cls, fields: Any) -> Any:
        """Bucket and stream that a replica copies have the same name, unless both are given (KV-47)."""
        if not isinstance(fields, dict):
            return fields
        mirror, copied = fields.get("mirror"), fields.get("replica_of")
        if copied is not None and mirror is None:
            return {**fields, "mirror": f"KV_{copied}"}
        if mirror is not None and copied is None:
            stream = mirror.get("name") if isinstance(mirror, dict) else getattr(mirror, "name", mirror)
            return {**fields, "replica_of": str(stream).removeprefix("KV_")}
        return fields

    @model_validator(mode="before")
    @classmethod
    def _as_its_mode_says(cls, fields: Any) -> Any:
        """What is not given follows from the mode (KV-06, KV-10)."""
        if not isinstance(fields, dict) or not fields.get("nats_mode"):
            return fields
        of_nats = {
            "subject_prefix": "$KV",
            "dotted_keys": True,
            "marker_deletes": True,
            "allow_msg_ttl": fields.get("limit_marker_ttl") is not None,
        }
        return of_nats | fields

    @property
    def stream(self) -> str:
        """The name of its stream (KV-05)."""
        return f"KV_{self.bucket}" if self.stream_name is None else self.stream_name


@dataclass(frozen=True, slots=True)
class BucketStatus:
    """What a bucket is and holds, as its owner knew it when it answered (KV-45).

    ``values`` counts what is stored of all keys, history included, without deletes. ``lag`` and ``active`` are those of a
    replica, which may be behind its bucket; None for any other.
    """

    bucket: str
    values: int
    history: int
    ttl: timedelta | None
    limit_marker_ttl: timedelta | None
    bytes: int
    replicas: int
    config: BucketConfig
    backing_store: str = "railgun"
    lag: int | None = None
    active: timedelta | None = None
    stream: StreamInfo = field(repr=False, compare=False, kw_only=True)

    @property
    def is_replica(self) -> bool:
        """Whether reads may be stale: it copies another bucket (KV-48)."""
        return self.stream.mirror is not None
