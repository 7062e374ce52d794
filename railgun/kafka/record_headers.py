"""The headers of a record as confluent-kafka brings it, and what those of a record of a log say.

Every reader of a log goes through these functions: :mod:`railgun.protocol.log_record` knows the form, this module the record.
"""

from __future__ import annotations

from typing import Any, Protocol

from railgun.protocol import log_record
from railgun.protocol.log_record import Extras
from railgun.protocol.unreadable import Unreadable

Given = list[tuple[str, bytes | None]]


class Record(Protocol):
    """The part of a record of a log that its readers use, in the form in which confluent-kafka brings it."""

    def headers(self) -> Any: ...  # read through headers_of only
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def offset(self) -> int | None: ...


def headers_of(message: Any) -> Given:
    """The headers of a record; none if a name among them is not UTF-8.

    confluent-kafka (2.16 too) answers those with an exception *and* a list that has null pointers in it: a caller that looks at the
    list ends the process. A plain ``message.headers()`` may be called by the interpreter in a way that overlooks the exception;
    ``map`` never overlooks it. The headers are then taken out of the message, so that no later reader meets them.
    """
    try:
        (given,) = map(type(message).headers, (message,))
    except SystemError:
        message.set_headers([])
        return []
    return given or []


def identity_of(record: Record) -> tuple[int, int]:
    """Incarnation and sequence of a record of a log; a record that is not a message is below all messages."""
    return log_record.identity(headers_of(record))


def extras_of(record: Record) -> Extras:
    """Headers and time of a message of a log."""
    return log_record.extras(headers_of(record))


def fault_of(record: Record) -> Unreadable | None:
    """The defect of a record of a log that is not a message; None for a tombstone."""
    return log_record.fault(headers_of(record), record.value())
