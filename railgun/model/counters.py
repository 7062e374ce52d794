"""Counters as messages: the increment in a header, the total in the body, and both as a value that users see."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from railgun.model import headers as h
from railgun.model.messages import MessageViews

LEAST, MOST = -(2**63), 2**63 - 1  # an increment, and a total (C-01)
_NUMBER = re.compile(rb"([+-]?)0*([0-9]{1,19})")


def parse_number(text: bytes) -> int | None:
    """The decimal number in the text, with or without a sign; None if it is not one of 64 bits (CTR-06, CTR-07)."""
    found = _NUMBER.fullmatch(text)
    number = MOST + 1 if found is None else int(found[1] + found[2])
    return number if LEAST <= number <= MOST else None


def body_of(total: int) -> bytes:
    """The body of the message that brings a counter to this total (CTR-02, CTR-04)."""
    return b'{"val":"%d"}' % total


def parse_body(body: bytes) -> int | None:
    """The total in the body of a counter's message; None if there is none."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    text = value.get("val") if isinstance(value, dict) else None
    return parse_number(text.encode("utf-8", "replace")) if isinstance(text, str) else None


@dataclass(frozen=True, slots=True)
class Increment:
    """One stored increment of a counter: what it added, and the total with it."""

    sequence: int
    time_ns: int
    increment: int
    total: int

    @property
    def time(self) -> datetime:
        """When the owner received it (to the microsecond; ``time_ns`` is exact)."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.time_ns // 1_000)

    @classmethod
    def of(cls, sequence: int, message: MessageViews) -> Self | None:
        """The increment that the message of that sequence is; None if it is not one."""
        text = h.first(message.headers, h.INCREMENT)
        increment = None if text is None else parse_number(text.lstrip(b" "))
        total = parse_body(message.payload)
        return (
            None if increment is None or total is None else cls(sequence, message.time_ns, increment, total)
        )
