"""A bucket as a stream, and back: which stream a bucket is, and which bucket a stream is (KV-05 … KV-12).

What cannot be seen in the fields of the stream stands in its metadata. The owner knows a bucket by ``_railgun.bucket``, which has its
name.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from railgun.client.buckets.naming import check_bucket
from railgun.errors import BadBucket, ConfigError, KeyHistoryTooLarge
from railgun.model.bucket_config import BucketConfig
from railgun.model.messages import StreamInfo
from railgun.model.stream_config import BUCKET, NO_TIME, StreamConfig
from railgun.model.subjects import is_literal

_PREFIX: Final = "_railgun.bucket.prefix"  # of a replica, which has no subjects of its own
_OF: Final = "_railgun.bucket.of"  # the bucket that a replica copies
_KEYS: Final = "_railgun.bucket.keys"  # "dotted"
_DELETES: Final = "_railgun.bucket.deletes"  # "marker"
_MODE: Final = "_railgun.bucket.mode"  # "nats"
_OURS: Final = (BUCKET, _PREFIX, _OF, _KEYS, _DELETES, _MODE)
_OF_NATS: Final = "$KV"

MOST_HISTORY: Final = 64
_WINDOW: Final = timedelta(minutes=2)
_STAYS: Final = ("bucket", "stream", "subject_prefix", "nats_mode")


def bucket_config(config: BucketConfig | str, fields: dict[str, Any]) -> BucketConfig:
    """The configuration that ``create_bucket`` was given. Raises ConfigError."""
    if isinstance(config, BucketConfig):
        if fields:
            raise ConfigError("give a BucketConfig or a name and fields, not both")
        return config
    return _validated({**fields, "bucket": config})


def name_and_stream(config: BucketConfig | str, fields: dict[str, Any]) -> tuple[str, str | None]:
    """The bucket that ``update_bucket`` was given, and its stream if that has another name."""
    if isinstance(config, BucketConfig):
        return config.bucket, config.stream
    return config, fields.get("stream_name")


def changed_config(there: BucketConfig, config: BucketConfig | str, fields: dict[str, Any]) -> BucketConfig:
    """The configuration that replaces this one, or this one with some fields changed.

    Raises ConfigError for a change of what decides where keys are.
    """
    if isinstance(config, BucketConfig):
        changed = bucket_config(config, fields)
    else:
        changed = _validated({**{name: getattr(there, name) for name in type(there).model_fields}, **fields})
    for name in _STAYS:
        if getattr(changed, name) != getattr(there, name):
            raise ConfigError(
                f"{name} of a bucket cannot be changed: make another bucket, and copy the values"
            )
    if there.dotted_keys and not changed.dotted_keys:
        raise ConfigError(
            "dotted_keys of a bucket cannot be turned off: keys with dots would be out of reach"
        )
    return changed


def _validated(fields: dict[str, Any]) -> BucketConfig:
    try:
        return BucketConfig.model_validate(fields)
    except ValueError as error:
        raise ConfigError(f"this is not a valid bucket configuration: {error}") from error


def stream_of(config: BucketConfig) -> StreamConfig:
    """The stream of a bucket (KV-10). Raises InvalidBucketName, KeyHistoryTooLarge, ConfigError."""
    return _stream_config(stream_fields(config))


def stream_fields(config: BucketConfig) -> dict[str, Any]:
    """The fields of the stream that a bucket decides. Raises InvalidBucketName, KeyHistoryTooLarge, ConfigError."""
    check_bucket(config.bucket)
    if not is_literal(config.subject_prefix):
        raise ConfigError(
            f"{config.subject_prefix!r} is not a valid prefix of subjects: use tokens without wildcards"
        )
    if config.history > MOST_HISTORY:  # KV-07
        raise KeyHistoryTooLarge(config.history, MOST_HISTORY)
    if config.history < 1:
        raise ConfigError(
            f"{config.history} is not a valid history of a bucket: it keeps at least 1 value of a key"
        )
    fields: dict[str, Any] = {
        "name": config.stream,  # KV-05
        "description": config.description,
        "subjects": [] if config.mirror else [_subject(config)],  # KV-06
        "max_msgs_per_subject": config.history,
        "max_age": config.ttl or NO_TIME,  # KV-08, KV-37
        "duplicate_window": min(_WINDOW, config.ttl) if config.ttl else _WINDOW,
        "max_msg_size": config.max_value_size,  # KV-09
        "max_bytes": config.max_bytes,
        "num_replicas": config.replicas,
        "placement": config.placement,
        "storage": config.storage,
        "discard": "new" if config.nats_mode else "old",  # KV-10
        "deny_delete": config.nats_mode,
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        "allow_atomic": True,
        "allow_msg_ttl": config.allow_msg_ttl,
        "subject_delete_marker_ttl": config.limit_marker_ttl,  # KV-39
        "republish": config.republish,
        "mirror": config.mirror,
        "sources": config.sources,
        "metadata": {**(config.metadata or {}), **_own_metadata(config)},
    }
    if config.mirror:  # which takes neither subjects nor publishes, and makes no markers
        for name in ("duplicate_window", "allow_atomic", "subject_delete_marker_ttl"):
            del fields[name]
        # A mirror only stores a roll-up: behind a delete it keeps the older values of a key, as far as its history goes. Where there
        # are any, the delete must outlive them, or they would come back.
        fields["allow_msg_ttl"] = config.allow_msg_ttl and config.history == 1
    return fields


def _stream_config(fields: dict[str, Any]) -> StreamConfig:
    try:
        return StreamConfig.model_validate(fields)
    except ValueError as error:
        raise ConfigError(f"this is not a valid bucket configuration: {error}") from error


def _subject(config: BucketConfig) -> str:
    return f"{config.subject_prefix}.{config.bucket}.{'>' if config.dotted_keys else '*'}"


def _own_metadata(config: BucketConfig) -> dict[str, str]:
    own = {BUCKET: config.bucket}
    if config.mirror:
        own |= {_PREFIX: config.subject_prefix, _OF: config.replica_of or config.bucket}
        if config.dotted_keys:
            own[_KEYS] = "dotted"
    if config.marker_deletes:
        own[_DELETES] = "marker"
    if config.nats_mode:
        own[_MODE] = "nats"
    return own


def bucket_of(stream: StreamConfig, name: str | None = None) -> BucketConfig:
    """The bucket that a stream is, of that name if one is given. Raises BadBucket (KV-12).

    A stream that another client made is a bucket too: its subject says where the keys are.
    """
    metadata = stream.metadata or {}
    bucket = metadata.get(BUCKET) or name or stream.name.removeprefix("KV_")
    place = _place(stream, bucket)
    if stream.max_msgs_per_subject < 1 or place is None or name not in (None, bucket):
        raise BadBucket(name or bucket, stream.name)
    prefix, dotted = place
    foreign = BUCKET not in metadata and prefix == _OF_NATS
    return BucketConfig(
        bucket=bucket,
        description=stream.description,
        history=stream.max_msgs_per_subject,
        ttl=stream.max_age or None,
        max_value_size=stream.max_msg_size,
        max_bytes=stream.max_bytes,
        replicas=stream.num_replicas,
        placement=stream.placement,
        storage=stream.storage,
        stream_name=None if stream.name == f"KV_{bucket}" else stream.name,
        subject_prefix=prefix,
        dotted_keys=dotted,
        marker_deletes=foreign or metadata.get(_DELETES) == "marker",
        nats_mode=foreign or metadata.get(_MODE) == "nats",
        limit_marker_ttl=stream.subject_delete_marker_ttl or None,
        allow_msg_ttl=stream.allow_msg_ttl,
        metadata={key: value for key, value in metadata.items() if not _of_railgun(key)} or None,
        republish=stream.republish,
        mirror=stream.mirror,
        replica_of=metadata.get(_OF),
        sources=stream.sources,
    )


def replica_of(primary: BucketConfig, name: str, fields: dict[str, Any]) -> BucketConfig:
    """The configuration of a replica of a bucket, with the bucket's settings where the fields give no other (KV-47). Raises ConfigError."""
    followed = (
        "history",
        "ttl",
        "max_value_size",
        "storage",
        "subject_prefix",
        "dotted_keys",
        "marker_deletes",
    )
    own = {one: getattr(primary, one) for one in (*followed, "nats_mode", "allow_msg_ttl", "replicas")}
    copies = {"bucket": name, "mirror": primary.stream, "replica_of": primary.replica_of or primary.bucket}
    return _validated({**own, **fields, **copies})


def bucket_among(info: StreamInfo) -> BucketConfig | None:
    """The bucket that a stream is; None if it is none, by its metadata or by its name."""
    if BUCKET not in (info.config.metadata or {}) and not info.config.name.startswith("KV_"):
        return None
    try:
        return bucket_of(info.config)
    except BadBucket:
        return None


def _of_railgun(key: str) -> bool:
    return key in _OURS or key.startswith("_nats.")


def _place(stream: StreamConfig, bucket: str) -> tuple[str, bool] | None:
    """The prefix of the subjects of the keys, and whether keys may have dots; None if there are no such subjects."""
    if stream.mirror is not None:
        metadata = stream.metadata or {}
        return (metadata[_PREFIX], metadata.get(_KEYS) == "dotted") if _PREFIX in metadata else None
    for subject in stream.subjects:
        before, _, last = subject.rpartition(".")
        if last in ("*", ">") and before.endswith(f".{bucket}"):
            return before.removesuffix(f".{bucket}"), last == ">"
    return None
