"""The arguments of a publish, checked and turned into what travels: a payload, an id, headers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypedDict

from pydantic import BaseModel

from railgun.avro.events import CONTENT_TYPE, Events
from railgun.errors import ConfigError
from railgun.model import headers as h
from railgun.model.durations import NANOS, to_nanos
from railgun.model.headers import HeaderList

Payload = bytes | bytearray | memoryview | str
Event = Payload | BaseModel


class MessageOptions(TypedDict, total=False):
    """The keyword arguments of ``publish`` and ``publish_soon`` that travel as headers."""

    headers: h.HeaderInput | None
    expected_stream: str | None
    expected_last_sequence: int | None
    expected_last_subject_sequence: int | None
    expected_last_subject_sequence_subject: str | None
    expected_last_msg_id: str | None
    ttl: timedelta | float | str | None


class PublishOptions(MessageOptions, total=False):
    """The keyword arguments of ``publish`` beside ``ack``."""

    msg_id: str | None
    timeout: float | None


_CONDITIONS = {
    "expected_stream": h.EXPECTED_STREAM,
    "expected_last_sequence": h.EXPECTED_LAST_SEQUENCE,
    "expected_last_subject_sequence": h.EXPECTED_LAST_SUBJECT_SEQUENCE,
    "expected_last_subject_sequence_subject": h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    "expected_last_msg_id": h.EXPECTED_LAST_MSG_ID,
    "ttl": h.TTL,
}  # in the order in which they travel
_NUMBERS = frozenset({"expected_last_sequence", "expected_last_subject_sequence"})


def payload_bytes(payload: Payload) -> bytes:
    """The payload as bytes; text travels as UTF-8. Raises ConfigError for anything else."""
    if isinstance(payload, str):
        return _encoded(payload, "payload")
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    raise ConfigError(f"{type(payload).__name__} is not a valid payload: give bytes, str or a pydantic model")


def outgoing(events: Events, payload: Event, headers: HeaderList | None) -> tuple[bytes, HeaderList | None]:
    """Payload and headers as they travel; a model becomes an event, with a header that says so unless the caller has one.

    Never waits: the frame of the first event of a model is still open (:meth:`Events.finish`). Raises ConfigError, EventError.
    """
    if type(payload) is bytes:
        return payload, headers
    found = events.written(payload)
    if found is not None:  # before isinstance, which pydantic makes slow
        data, own = found
    else:
        if not isinstance(payload, BaseModel):
            return payload_bytes(payload), headers
        data = events.begin(payload)
        stated = events.header(payload)
        if stated is None:
            return data, headers
        own = stated
    if not headers:
        return data, [own]
    return data, headers if h.first(headers, CONTENT_TYPE) is not None else [*headers, own]


def message_headers(options: MessageOptions) -> HeaderList:
    """The caller's headers and the conditions as headers: a list that others may share, so nobody changes it.

    Raises ConfigError for a header that cannot travel, TypeError for an option that does not exist.
    """
    given: Mapping[str, Any] = options
    if len(given) == 1:  # most have one, and most of those are a number or one header
        ((name, value),) = given.items()
        if type(value) is int and name in _NUMBERS:
            return [(_CONDITIONS[name], b"%d" % value)]
        if type(value) is dict and len(value) == 1 and name == "headers":
            return _only_header(value)
    for name in given:
        if name != "headers" and name not in _CONDITIONS:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
    result = header_list(given.get("headers"))
    if len(given) == 1 and "headers" in given:
        return result
    for name, header in _CONDITIONS.items():
        value = given.get(name)
        if value is not None:
            text = ttl_text(value) if name == "ttl" else str(value)
            result.append((header, _encoded(text, name)))
    return result


def _encoded(text: str, what: str) -> bytes:
    """Raises ConfigError for half of a surrogate pair, which cannot travel as text."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigError(f"{text!r:.200} is not a valid {what}: {error}") from error


_known: dict[tuple[Any, str], HeaderList] = {}  # headers of messages that have one: few differ
_MOST_KNOWN = 1_000
_LONGEST_KNOWN = (
    100  # characters of name and value: longer ones do differ, and a process must not keep a thousand of them
)


def _only_header(given: dict[Any, Any]) -> HeaderList:
    """A message's only header. To share it takes a fifth of the time, most of which goes to Python's search for garbage."""
    (only,) = given.items()
    name, value = only
    if type(value) is not str or type(name) is not str or len(name) + len(value) > _LONGEST_KNOWN:
        return header_list(given)
    found = _known.get(only)
    if found is None:
        found = header_list(given)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[only] = found
    return found


def header_list(given: h.HeaderInput | None) -> HeaderList:
    """The caller's headers as they travel. Raises ConfigError for one that cannot."""
    try:
        return h.normalise(given)
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(str(error)) from error


def ttl_text(ttl: timedelta | float | str) -> str:
    """The TTL header: whole seconds as a number, anything finer with its unit; a text (``never``) as it is.

    Raises ConfigError for what is not a time, such as infinity.
    """
    if isinstance(ttl, str):
        return ttl
    try:
        nanos = to_nanos(ttl)
    except (ValueError, OverflowError, TypeError) as error:
        raise ConfigError(f"{ttl!r} is not a valid ttl: give seconds, a timedelta, or a text") from error
    whole, rest = divmod(nanos, NANOS)
    return f"{nanos}ns" if rest else str(whole)
