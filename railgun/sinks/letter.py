"""A dead letter of a sink as a message: its payload, where it came from, and why it is here."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from confluent_kafka import Message

from railgun.kafka.record_headers import headers_of
from railgun.model import headers as h
from railgun.protocol.log_record import subject_of
from railgun.sinks.avro_converter import AVRO_CONVERTER, meaning_of

#: What Connect notes of an error, in headers of this beginning.
ERRORS: Final = "__connect.errors."
REASON: Final = "Sink-Reason"
NAME: Final = "Sink-Name"
SUBJECT: Final = "Sink-Subject"
LEFT_OUT: Final = "Sink-Headers-Left-Out"  # how many; the record in the log has them
_ROOM: Final = h.MAX_HEADER_BYTES - 1024  # for what a publish adds
_NOTED: Final = {
    h.LOG_SEQUENCE: "Sink-Sequence",
    h.LOG_TIME: "Sink-Time",
    h.LOG_INCARNATION: "Sink-Incarnation",
    h.MSG_ID: "Sink-Msg-Id",
}
_SPENT: Final = (
    h.RESERVED_PREFIX,
    "Nats-",
)  # they meant something to the first publish, and must not to this one
_LONGEST: Final = (
    8 * 1024
)  # of one of Connect's headers: a stack trace may be longer than all headers of a message may be


class Letter(NamedTuple):
    """A message to publish."""

    payload: bytes
    headers: list[tuple[str, str | bytes]]
    msg_id: str
    origin: str  # topic/partition/offset of the record in the log
    reason: str


def letter_of(sink: str, record: Message) -> Letter:
    """The letter in a record that Connect wrote. One that somebody else put there is a letter too, without a reason."""
    given = [(name, value or b"") for name, value in headers_of(record)]
    errors = {name.removeprefix(ERRORS): _text(value) for name, value in given if name.startswith(ERRORS)}
    origin = "/".join(errors.get(part, "") for part in ("topic", "partition", "offset"))
    if "topic" not in errors:
        origin = f"{record.topic()}/{record.partition()}/{record.offset()}"
    reason = _reason(errors)
    headers: list[tuple[str, str | bytes]] = [(NAME, sink), (REASON, _line(reason))]
    key = record.key()
    subject = subject_of(key) if isinstance(key, bytes) else None
    if subject is not None and len(subject) <= _LONGEST:
        headers.append((SUBJECT, subject))
    headers += [(_NOTED[name], value) for name, value in given if name in _NOTED]
    headers += [(name, value[:_LONGEST]) for name, value in given if name.startswith(ERRORS)]
    own = [one for one in given if not one[0].startswith((*_SPENT, ERRORS)) and one[0] not in _NOTED]
    headers = _with_own(headers, own)
    value = record.value()
    payload = value if isinstance(value, bytes) else b""
    return Letter(payload, headers, _id(sink, origin, record), origin, reason)


def _id(sink: str, origin: str, record: Message) -> str:
    """An id that is the same for each copy of a letter, and another for a record at the same place of a log that was made anew."""
    _, made = record.timestamp()  # Connect keeps that of the record in the log
    digest = hashlib.sha256(f"{sink}\0{origin}\0{made}".encode()).hexdigest()[:32]
    return f"dead-letter-{digest}"


def _with_own(headers: list[tuple[str, str | bytes]], own: h.HeaderList) -> list[tuple[str, str | bytes]]:
    """The headers with those of the message, as far as a publish takes them: one letter must not hold up all others.

    Records of topics that streams adopt may have names that no publish takes, and a message may have all the headers that fit into one.
    """
    room = _ROOM - h.block_size(h.normalise(headers))
    kept: list[tuple[str, str | bytes]] = []
    for name, value in own:
        size = h.block_size([(name, value)])
        if size <= room and _can_be_published(name):
            kept.append((name, value))
            room -= size
    left_out = len(own) - len(kept)
    return [*headers, *kept, *([(LEFT_OUT, str(left_out))] if left_out else [])]


def _can_be_published(name: str) -> bool:
    try:
        h.normalise([(name, b"")])
    except ValueError:
        return False
    return True


def _reason(errors: dict[str, str]) -> str:
    """What Connect says, and in words where that is not enough."""
    exception, message = (errors.get(f"exception.{part}", "") for part in ("class.name", "message"))
    told = ": ".join(part for part in (exception, message) if part)
    meaning = meaning_of(exception, message) if errors.get("class.name") == AVRO_CONVERTER else None
    return told if meaning is None else f"{meaning} ({told})"


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]
