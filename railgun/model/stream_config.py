"""Stream configuration as callers write it and as the API carries it.

The models check types and refuse unknown fields; what a value may *be* is decided by the rules (``semantics.configuration``),
so that a raw request and a typed call get the same answer. Callers give durations as ``timedelta`` or seconds; the API
carries nanoseconds: :meth:`StreamConfig.from_api` and :meth:`StreamConfig.to_api` are the only two doors between them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    ValidationInfo,
    model_validator,
)

from railgun.model.durations import from_nanos, rfc3339, to_nanos
from railgun.model.topics.topic_subjects import decode_token, encode_token

BUCKET = "_railgun.bucket"  # in the metadata of a stream that is a key-value bucket


def _duration(value: object, info: ValidationInfo) -> object:
    """A bare number is a number of seconds from a caller, and of whole nanoseconds from the API."""
    try:
        if info.context in (_FROM_API, _FROM_ANSWER):
            if type(value) is not int:
                raise ValueError("a duration is a whole number of nanoseconds")
            return from_nanos(value)
        if isinstance(value, bool):
            raise ValueError("a duration is a timedelta or a number of seconds")
        return from_nanos(to_nanos(value)) if isinstance(value, int | float) else value
    except OverflowError as error:
        raise ValueError("a duration of that length cannot be kept") from error


_FROM_API = "from the API"
_FROM_ANSWER = "from an answer of the API"
Duration = Annotated[timedelta, BeforeValidator(_duration), PlainSerializer(to_nanos, return_type=int)]
NO_TIME = timedelta(0)


def _text_of_moment(value: object) -> object:
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise ValueError("a moment needs a time zone: datetime.now(UTC), not datetime.now()")
    return rfc3339(to_nanos(value - datetime(1970, 1, 1, tzinfo=UTC)))


Moment = Annotated[str, BeforeValidator(_text_of_moment)]  # given as an aware datetime too, kept as RFC 3339


def by_known_names(
    given: Mapping[str, Any], known: Collection[str], choices: Collection[str] = ()
) -> dict[str, Any]:
    """Fields of the API under their known names, in whichever case they were written.

    A null is as good as nothing, but for a field that names one of several ``choices``: there it is none of them (C-41).
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        name = name if name in known or name.lower() not in known else name.lower()
        if value is not None or name not in known:
            found[name] = value
        elif name in choices:
            found[name] = "null"
    return found


class ConfigModel(BaseModel):
    """Frozen, strict about names: a misspelt field is an error, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    CHOICES: ClassVar[frozenset[str]] = frozenset()  # fields that name one of several things

    @model_validator(mode="before")
    @classmethod
    def _as_the_api_reads(cls, fields: Any, info: ValidationInfo) -> Any:
        if info.context not in (_FROM_API, _FROM_ANSWER) or not isinstance(fields, dict):
            return fields
        named = by_known_names(fields, cls.model_fields, cls.CHOICES)
        if info.context == _FROM_ANSWER:
            return {name: value for name, value in named.items() if name in cls.model_fields}
        return named

    @classmethod
    def from_api(cls, fields: dict[str, Any]) -> Self:
        """The configuration of an API request, whose durations are nanoseconds. Raises ValidationError.

        Types are strict, names of fields are not: their case does not matter (C-41).
        """
        return cls.model_validate(fields, context=_FROM_API, strict=True)

    @classmethod
    def from_answer(cls, fields: dict[str, Any]) -> Self:
        """The configuration as an owner tells it; fields that only a later version knows are left out. Raises ValidationError."""
        return cls.model_validate(fields, context=_FROM_ANSWER, strict=True)

    def to_api(self) -> dict[str, Any]:
        """The configuration as the API writes it; fields that are None are left out."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_json(self) -> str:
        """One text for one configuration: what tables and the registry hold."""
        return json.dumps(self.to_api(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.from_api(json.loads(text))


def _in_any_case(value: object, info: ValidationInfo) -> object:
    """NATS reads this one choice without regard to case."""
    return value.lower() if isinstance(value, str) and info.context == _FROM_API else value


def _unless_none(value: str | None) -> str | None:
    """``none`` is how NATS says nothing: it is not written, so that versions which do not know the field read the rest."""
    return None if value == "none" else value


class SubjectTransform(ConfigModel):
    """Rewrites the subjects that match ``src`` to ``dest``; they stay as they are where ``dest`` is empty."""

    src: str = ""
    dest: str = ""


class Republish(ConfigModel):
    """Re-emits stored messages on another subject."""

    src: str = ""
    dest: str
    headers_only: bool = False


class ConsumerLimits(ConfigModel):
    """Defaults and ceilings for the consumers of a stream (CFG-27)."""

    inactive_threshold: Duration | None = None
    max_ack_pending: int | None = None


class StreamSource(ConfigModel):
    """Another stream to copy from: a mirror's origin or one of several sources.

    ``opt_start_seq`` and ``opt_start_time`` say where copying begins, ``filter_subject`` or the sources of
    ``subject_transforms`` what is copied; of both starts the sequence counts.
    """

    name: str = ""
    opt_start_seq: int | None = None
    opt_start_time: Moment | None = None
    filter_subject: str | None = None
    subject_transforms: list[SubjectTransform] | None = None


class TopicSource(ConfigModel):
    """An existing Kafka topic to copy from, with all its partitions (TOP).

    ``subject`` is a template for the subjects of the copies, ``<topic>.{key}`` unless given; ``message_id`` one for their ids. ``start``
    or ``opt_start_time`` say where copying begins; of both the time counts.
    """

    CHOICES: ClassVar[frozenset[str]] = frozenset({"start"})

    topic: str = ""
    subject: str = ""
    message_id: str | None = None
    start: Literal["beginning", "end"] = "beginning"
    opt_start_time: Moment | None = None

    @staticmethod
    def token(value: bytes | str | None) -> str:
        """The token that stands for this key or header in a subject; None: the record has none."""
        return encode_token(value.encode("utf-8") if isinstance(value, str) else value)

    @staticmethod
    def value(token: str) -> bytes | None:
        """The key or header that this token of a subject stands for; None: the record has none."""
        return decode_token(token)


def by_name(value: object, info: ValidationInfo, field: str = "name") -> object:
    """Callers may give a stream to copy by its name alone; the API has objects (C-41)."""
    if info.context in (_FROM_API, _FROM_ANSWER):
        return value
    if isinstance(value, list | tuple):
        return [by_name(one, info, field) for one in value]
    return {field: value} if isinstance(value, str) else value


def _by_topic(value: object, info: ValidationInfo) -> object:
    return by_name([value] if isinstance(value, str | TopicSource) else value, info, "topic")


class Placement(ConfigModel):
    """Where NATS is to keep a stream. Kafka decides that for railgun: only an empty one is taken."""

    cluster: str = ""
    tags: list[str] = []
    preferred: str = ""


class StreamConfig(ConfigModel):
    """A stream, in JetStream's own field names. Zero or a negative limit means none. The defaults of the
    policies are those of CFG-15.

    ``compression``, ``placement`` and ``allow_batched`` are there so that configurations exported from NATS can be used:
    what is not their default is refused by name (C-41).
    """

    CHOICES: ClassVar[frozenset[str]] = frozenset(
        {"retention", "discard", "storage", "persist_mode", "compression"}
    )

    name: str = ""
    description: str | None = None
    subjects: list[str] = []
    retention: Literal["limits", "interest", "workqueue"] = "limits"
    discard: Annotated[Literal["old", "new"], BeforeValidator(_in_any_case)] = "old"
    storage: Literal["file", "memory"] = "file"
    num_replicas: int = 1
    max_consumers: int = -1
    max_msgs: int = -1
    max_bytes: int = -1
    max_age: Duration = NO_TIME
    max_msgs_per_subject: int = -1
    max_msg_size: int = -1
    discard_new_per_subject: bool = False
    duplicate_window: Duration | None = None
    no_ack: bool = False
    sealed: bool = False
    deny_delete: bool = False
    deny_purge: bool = False
    allow_rollup_hdrs: bool = False
    allow_direct: bool = False
    mirror_direct: bool = False
    allow_msg_ttl: bool = False
    subject_delete_marker_ttl: Duration | None = None
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    allow_batched: bool | None = None
    persist_mode: Literal["", "default", "async"] | None = None
    compression: Annotated[Literal["none", "s2"] | None, AfterValidator(_unless_none)] = None
    placement: Placement | None = None
    first_seq: int | None = None
    subject_transform: SubjectTransform | None = None
    republish: Republish | None = None
    consumer_limits: ConsumerLimits | None = None
    mirror: Annotated[StreamSource | None, BeforeValidator(by_name)] = None
    sources: Annotated[list[StreamSource] | None, BeforeValidator(by_name)] = None
    topics: Annotated[list[TopicSource] | None, BeforeValidator(_by_topic)] = None
    metadata: dict[str, str] | None = None
