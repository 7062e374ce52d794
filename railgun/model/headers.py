"""Message headers: their names, their form, their size.

A :data:`HeaderList` has the form that Kafka clients use: order and repeats are kept, names are matched exactly as written
(PUB-06, DUP-15).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Headers = Sequence[tuple[str, bytes]]
HeaderList = list[tuple[str, bytes]]
HeaderInput = Mapping[str, str | bytes | Sequence[str | bytes]] | Iterable[tuple[str, str | bytes]]

MSG_ID = "Nats-Msg-Id"
EXPECTED_STREAM = "Nats-Expected-Stream"
EXPECTED_LAST_SEQUENCE = "Nats-Expected-Last-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
EXPECTED_LAST_MSG_ID = "Nats-Expected-Last-Msg-Id"
ROLLUP = "Nats-Rollup"
TTL = "Nats-TTL"
MARKER_REASON = "Nats-Marker-Reason"
STREAM_SOURCE = "Nats-Stream-Source"
REQUIRED_API_LEVEL = "Nats-Required-Api-Level"
INCREMENT = "Nats-Incr"
COUNTER_SOURCES = "Nats-Counter-Sources"
BATCH_ID = "Nats-Batch-Id"
BATCH_SEQUENCE = "Nats-Batch-Sequence"
BATCH_COMMIT = "Nats-Batch-Commit"
KV_ORIGIN_SERVER = "KV-Origin-Server"
KV_ORIGIN_CLUSTER = "KV-Origin-Cluster"
KV_OPERATION = "KV-Operation"

# on direct-get and other replies
STREAM = "Nats-Stream"
SUBJECT = "Nats-Subject"
SEQUENCE = "Nats-Sequence"
TIME_STAMP = "Nats-Time-Stamp"
NUM_PENDING = "Nats-Num-Pending"
LAST_SEQUENCE = "Nats-Last-Sequence"
UP_TO_SEQUENCE = "Nats-UpTo-Sequence"
MSG_SIZE = "Nats-Msg-Size"
STATUS = "Status"
DESCRIPTION = "Description"

# on the statuses that a consumer sends
LAST_CONSUMER = "Nats-Last-Consumer"
LAST_STREAM = "Nats-Last-Stream"
PENDING_MESSAGES = "Nats-Pending-Messages"
PENDING_BYTES = "Nats-Pending-Bytes"
CONSUMER_STALLED = "Nats-Consumer-Stalled"  # it waits until its flow control request is answered

# railgun's own: on stored log records, and on plain records in ``commands``
LOG_SEQUENCE = "Railgun-Sequence"
LOG_TIME = "Railgun-Time"
LOG_INCARNATION = "Railgun-Incarnation"
COMMAND_KIND = "Railgun-Kind"
PLAIN_SUBJECT = "Railgun-Subject"
RESERVED_PREFIX = "Railgun-"

# The header of each place in a batch, by its number; messages share it. A message of a larger batch has one of its own.
BATCH_PLACES = tuple((BATCH_SEQUENCE, b"%d" % number) for number in range(1_001))

# railgun's own, on records in ``rejected``
REJECTED_REASON = "Railgun-Reason"
REJECTED_SOURCE = "Railgun-Source"

# railgun's own, on copies of records of an adopted topic
TOPIC_SOURCE = "Railgun-Topic-Source"
TOPIC_KEY = "Railgun-Topic-Key"
TOPIC_NULL = "Railgun-Topic-Null"

# railgun's own, on dead letters
ORIGIN = "Railgun-Origin-"
ORIGIN_STREAM = ORIGIN + "Stream"
ORIGIN_SEQUENCE = ORIGIN + "Sequence"
ORIGIN_CONSUMER = ORIGIN + "Consumer"
ORIGIN_DELIVERIES = ORIGIN + "Deliveries"
ORIGIN_REASON = ORIGIN + "Reason"
ORIGIN_TIME = ORIGIN + "Time"
ORIGIN_MSG_ID = ORIGIN + "Msg-Id"
ORIGIN_TTL = ORIGIN + "TTL"
ORIGIN_ROLLUP = ORIGIN + "Rollup"
ORIGIN_INCREMENT = ORIGIN + "Incr"

MAX_HEADER_BYTES = 65_535


def first(headers: Headers, name: str) -> bytes | None:
    """The value of the first header of exactly this name, or None."""
    for key, value in headers:
        if key == name:
            return value
    return None


def is_tombstone(headers: Headers) -> bool:
    """Whether a message with these headers only says that its key was deleted: by a client, or because it expired."""
    return any(
        name == MARKER_REASON or (name == KV_OPERATION and value in (b"DEL", b"PURGE"))
        for name, value in headers
    )


def tombstones_among(columns: Sequence[Headers], start: int = 0) -> list[int]:
    """The places, counted from ``start``, of the messages that are tombstones."""
    return [place for place, headers in enumerate(columns, start) if headers and is_tombstone(headers)]


def block_size(headers: Headers) -> int:
    """Bytes that the headers count for: name, colon, value, CRLF each, CRLF at the end; 0 without headers (STO-04)."""
    if not headers:
        return 0
    size = 2
    for name, value in headers:
        size += (len(name) if name.isascii() else len(name.encode("utf-8"))) + 3 + len(value)
    return size


def normalise(headers: HeaderInput | None) -> list[tuple[str, bytes]]:
    """What a caller gave, as a header list. Raises ValueError on a name or value that cannot travel, TypeError on what holds no headers."""
    if headers is None:
        return []
    pairs: Iterable[tuple[str, str | bytes | Sequence[str | bytes]]]
    # First what nearly every caller gives: to ask an abstract class takes three times as long.
    pairs = headers.items() if type(headers) is dict or isinstance(headers, Mapping) else headers
    result: list[tuple[str, bytes]] = []
    for name, given in pairs:
        if name not in _known_names:
            _check_name(name)
        if isinstance(given, str):
            result.append((name, given.encode("utf-8")))
        elif isinstance(given, bytes):
            result.append((name, given))
        elif isinstance(given, bytearray | memoryview):
            result.append((name, bytes(given)))
        elif isinstance(given, Iterable):
            result += [(name, _value(name, value)) for value in given]
        else:
            raise _not_a_value(name, given)
    return result


def _value(name: str, given: object) -> bytes:
    """One of several values of a header."""
    if isinstance(given, str):
        return given.encode("utf-8")
    if not isinstance(given, bytes | bytearray | memoryview):
        raise _not_a_value(name, given)
    return bytes(given)


def _not_a_value(name: str, given: object) -> ValueError:
    return ValueError(
        f"{given!r} is not a valid value of the header {name!r}: give str or bytes, or several of them"
    )


_known_names: set[str] = set()  # that were checked before: few differ
_MOST_NAMES = 10_000


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise ValueError(f"{name!r} cannot name a header: give a text")
    if not name or any(char in ":\r\n" for char in name):
        raise ValueError(f"{name!r} cannot name a header: it is empty or holds a colon or a line break")
    name.encode("utf-8")  # half of a surrogate pair cannot travel
    if name.startswith(RESERVED_PREFIX):
        raise ValueError(
            f"the header {name!r} is railgun's own: names that begin with {RESERVED_PREFIX!r} are reserved"
        )
    if len(_known_names) < _MOST_NAMES:
        _known_names.add(name)
