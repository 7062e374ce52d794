"""Dead letters of Connect as messages."""

from __future__ import annotations

from typing import Any

from railgun.model import headers as h
from railgun.sinks.avro_converter import AVRO_CONVERTER
from railgun.sinks.letter import letter_of


class Record:
    """A record as confluent-kafka brings it."""

    def __init__(
        self, headers: Any, key: bytes | None = b"ORDERS.new", value: bytes | None = b"x", time: int = 5
    ) -> None:
        self._headers, self._key, self._value, self._time = headers, key, value, time

    def headers(self) -> Any:
        return self._headers

    def set_headers(self, headers: Any) -> None:
        self._headers = headers

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return 1, self._time

    def topic(self) -> str:
        return "railgun.sink.orders.connect-dlq"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 3


ERRORS = [
    ("__connect.errors.topic", b"railgun.log.ORDERS"),
    ("__connect.errors.partition", b"0"),
    ("__connect.errors.offset", b"41"),
    ("__connect.errors.exception.class.name", b"a.DataException"),
    ("__connect.errors.exception.message", b"not\na number"),
    ("__connect.errors.exception.stacktrace", b"x" * 100_000),
]
OWN = [
    ("Trace", b"7"),
    ("Nats-Msg-Id", b"id-1"),
    ("Nats-Expected-Last-Sequence", b"4"),
    ("Nats-Rollup", b"all"),
    ("Railgun-Sequence", b"12"),
    ("Railgun-Time", b"34"),
    ("Railgun-Incarnation", b"2"),
]


def letter(*args: Any, **named: Any) -> Any:
    record: Any = Record(*args, **named)
    return letter_of("orders", record)


def test_a_letter_says_where_it_came_from_and_why() -> None:
    found = letter([*OWN, *ERRORS])
    headers = dict(found.headers)
    assert headers["Sink-Name"] == "orders"
    assert headers["Sink-Reason"] == "a.DataException: not a number"
    assert headers["Sink-Subject"] == "ORDERS.new"
    assert headers["Sink-Sequence"] == b"12"
    assert headers["Sink-Msg-Id"] == b"id-1"
    assert headers["Trace"] == b"7"
    assert headers["__connect.errors.offset"] == b"41"
    assert found.origin == "railgun.log.ORDERS/0/41"


def test_what_meant_something_to_the_first_publish_means_nothing_to_this_one() -> None:
    names = [name for name, _ in letter([*OWN, *ERRORS]).headers]
    assert not [name for name in names if name.startswith(("Nats-", "Railgun-"))]


def test_the_headers_fit_into_a_message_whatever_the_trace() -> None:
    size = sum(len(name) + len(value) for name, value in letter([*OWN, *ERRORS]).headers)
    assert size < 20_000


def test_the_id_is_that_of_the_record_in_the_log() -> None:
    first = letter([*OWN, *ERRORS])
    assert letter([*OWN, *ERRORS]).msg_id == first.msg_id
    moved = [(name, b"42" if name.endswith(".offset") else value) for name, value in ERRORS]
    assert letter([*OWN, *moved]).msg_id != first.msg_id
    assert letter([*OWN, *ERRORS], time=6).msg_id != first.msg_id, (
        "the same place of a log that was made anew"
    )


def test_a_record_of_somebody_else_is_a_letter_too() -> None:
    found = letter(None, key=b"\xff", value=None)
    assert found.payload == b""
    assert found.origin == "railgun.sink.orders.connect-dlq/0/3"
    assert dict(found.headers) == {"Sink-Name": "orders", "Sink-Reason": ""}


def test_one_letter_never_holds_up_the_others_by_its_headers() -> None:
    """A message may have all headers that fit into one, and a copy of a Kafka record names that no publish takes."""
    own = [("", b"1"), ("a:b", b"2"), ("c\r\nd", b"3"), ("large", b"x" * 60_000), ("small", b"4")]
    headers = letter([*own, *OWN, *ERRORS], key=b"s" * 100_000).headers
    assert h.block_size(h.normalise(headers)) < h.MAX_HEADER_BYTES
    found = dict(headers)
    assert (found["small"], found["Sink-Headers-Left-Out"]) == (b"4", "4")
    assert "Sink-Subject" not in found


def test_a_reason_of_the_avro_converter_is_told_in_words_and_others_as_they_are() -> None:
    def reason(exception: bytes, message: bytes, stage: bytes) -> str:
        told = [
            ("__connect.errors.class.name", stage),
            ("__connect.errors.exception.class.name", exception),
            ("__connect.errors.exception.message", message),
        ]
        return letter_of("orders", Record(told)).reason  # type: ignore[arg-type]

    avro, state = AVRO_CONVERTER.encode(), b"java.lang.IllegalStateException"
    unframed = reason(state, b"artifact reference cannot be null", avro)
    assert unframed == (
        "the payload is not a framed event (java.lang.IllegalStateException: artifact reference cannot be null)"
    )
    assert reason(state, b"closed", avro) == "java.lang.IllegalStateException: closed"
    assert reason(b"java.nio.BufferUnderflowException", b"", b"a.B") == "java.nio.BufferUnderflowException"
