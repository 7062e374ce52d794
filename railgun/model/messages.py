"""What callers get back: acks, stored messages, the state of a stream."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, Self, TypeVar

from pydantic import BaseModel

from railgun.errors import EventError
from railgun.model import headers as h
from railgun.model.durations import parse_rfc3339, rfc3339
from railgun.model.source_info import StreamSourceInfo
from railgun.model.stream_config import StreamConfig
from railgun.model.topics.topic_info import TopicSourceInfo

M = TypeVar("M", bound=BaseModel)


@dataclass(slots=True, unsafe_hash=True)  # not frozen: one is made for every message, and freezing costs 1 µs
class PubAck:
    """The message is decided and durable.

    Of a batch: ``batch`` is its id, ``count`` how many messages it stored, ``sequence`` that of the last. A message that
    waits for the commit of its batch has ``sequence`` 0 and no ``count``.
    """

    stream: str
    sequence: int
    duplicate: bool = False
    value: int | None = None
    batch: str | None = None
    count: int | None = None

    def to_api(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"stream": self.stream, "seq": self.sequence}
        if self.duplicate:
            fields["duplicate"] = True
        if self.value is not None:
            fields["val"] = str(self.value)
        if self.count is not None:
            fields |= {"batch": self.batch, "count": self.count}
        return fields


_FRAMED = b"\0"  # the first byte of a registry's frame; no JSON begins with it


class EventReader(Protocol):
    """Reads payloads that a schema registry has framed; :class:`railgun.avro.Events`."""

    def decode(self, payload: bytes, wanted: type[M]) -> M: ...

    def framed(self, payload: bytes, wanted: Any) -> Any: ...


class MessageViews:
    """What can be asked of any message, stored or delivered: its payload, headers and time in other forms."""

    __slots__ = ()

    payload: bytes
    headers: h.Headers
    time_ns: int

    @property
    def time(self) -> datetime:
        """When the owner received it (to the microsecond; ``time_ns`` is exact)."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.time_ns // 1_000)

    @property
    def text(self) -> str:
        return self.payload.decode("utf-8")

    def json(self) -> Any:
        return json.loads(self.payload)

    def as_(self, model: type[M]) -> M:
        """The payload as the given pydantic model: from Avro where a schema registry has framed it, from JSON otherwise.

        Raises pydantic's ValidationError, and EventError for a frame that cannot be read. The first message of each schema asks the
        registry and waits for it.
        """
        if self.payload[:1] == _FRAMED:
            return self._decoder().decode(self.payload, model)
        return model.model_validate_json(self.payload)

    @property
    def _events(self) -> EventReader | None:
        """What reads framed payloads; None where no connection is at hand."""
        return None

    def _decoder(self) -> EventReader:
        found = self._events
        if found is None:
            raise EventError(
                "the payload is in a registry's frame, and no connection is at hand: use rg.events.decode"
            )
        return found

    def header(self, name: str) -> str | None:
        """The first header of exactly this name, as text."""
        value = h.first(self.headers, name)
        return None if value is None else value.decode("utf-8")


@dataclass(slots=True, unsafe_hash=True)  # not frozen, as PubAck
class StoredMessage(MessageViews):
    """A message as the stream holds it."""

    subject: str
    sequence: int
    payload: bytes
    headers: h.Headers
    time_ns: int

    def to_api(self, *, no_headers: bool = False) -> dict[str, Any]:
        """The ``message`` object of a get."""
        fields: dict[str, Any] = {"subject": self.subject, "seq": self.sequence}
        if self.headers and not no_headers:
            fields["hdrs"] = base64.b64encode(_header_block(self.headers)).decode("ascii")
        if self.payload:
            fields["data"] = base64.b64encode(self.payload).decode("ascii")
        fields["time"] = rfc3339(self.time_ns)
        return fields

    @classmethod
    def from_api(cls, fields: dict[str, Any]) -> Self:
        return cls(
            fields["subject"],
            fields["seq"],
            base64.b64decode(fields.get("data", "")),
            _parse_header_block(base64.b64decode(fields.get("hdrs", ""))),
            parse_rfc3339(fields["time"]),
        )


_VERSION_LINE = b"NATS/1.0\r\n"


def _header_block(headers: h.Headers) -> bytes:
    lines = b"".join(name.encode("utf-8") + b": " + value + b"\r\n" for name, value in headers)
    return _VERSION_LINE + lines + b"\r\n"


def _parse_header_block(block: bytes) -> list[tuple[str, bytes]]:
    result = []
    for line in block.removeprefix(_VERSION_LINE).split(b"\r\n"):
        if line:
            name, _, value = line.partition(b":")
            result.append((name.decode("utf-8"), value.removeprefix(b" ")))
    return result


@dataclass(frozen=True, slots=True)
class StreamState:
    """What a stream holds right now."""

    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    first_ts: str
    last_ts: str
    num_deleted: int
    num_subjects: int
    consumer_count: int
    subjects: dict[str, int] | None = None
    deleted: list[int] | None = None
    num_tombstones: int | None = None  # subjects whose newest message says that the key was deleted


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream's configuration and state, as its owner knew them when it answered.

    ``mirror`` and ``sources`` tell how far the copies of other streams have come, ``topics`` those of adopted topics.
    """

    config: StreamConfig
    state: StreamState
    created: str
    raw: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)
    mirror: StreamSourceInfo | None = None
    sources: list[StreamSourceInfo] = field(default_factory=list)
    topics: list[TopicSourceInfo] = field(default_factory=list)

    @classmethod
    def from_api(cls, fields: dict[str, Any]) -> Self:
        state = dict(fields["state"])
        return cls(
            StreamConfig.from_answer(fields["config"]),
            StreamState(
                **{name: state.get(name) for name in StreamState.__dataclass_fields__}  # type: ignore[arg-type]
            ),
            fields["created"],
            fields,
            StreamSourceInfo.from_api(fields["mirror"]) if fields.get("mirror") else None,
            [StreamSourceInfo.from_api(source) for source in fields.get("sources") or ()],
            [TopicSourceInfo.from_api(topic) for topic in fields.get("topics") or ()],
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """One message of a raw answer: headers (a status, or the message's own) and body.

    ``subject`` and ``reply`` are set for messages of a consumer: where the message was published, and where to acknowledge
    it. ``status`` is the number of a status (404, 408, …), None for an ordinary message, whatever its headers say.
    """

    body: bytes
    headers: h.Headers = ()
    subject: str = ""
    reply: str = ""
    status: int | None = None

    @property
    def description(self) -> str | None:
        """What a status says; None for an ordinary message."""
        return None if self.status is None else self.header(h.DESCRIPTION)

    def header(self, name: str) -> str | None:
        value = h.first(self.headers, name)
        return None if value is None else value.decode("utf-8")

    def json(self) -> Any:
        return json.loads(self.body)
