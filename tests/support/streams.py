"""Making a stream with messages, and what a stream holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from railgun.client.facade.railgun import Railgun
from railgun.client.facade.sync.stream import Stream
from tests.support.naming import unique

Make = Callable[..., Stream]  # the fixture ``make``: a new stream with these fields
Unique = Callable[[str], str]  # the fixture ``unique``: a name that no other test has


def put(rg: Railgun, stream: Stream, count: int, payload: bytes = b"x") -> None:
    """Publish so many messages of this payload on ``<stream>.a``."""
    for _ in range(count):
        rg.publish_soon(f"{stream.name}.a", payload)
    rg.flush()


def put_numbers(rg: Railgun, stream: Stream, count: int, *, size: int = 0) -> None:
    """Publish so many messages on ``<stream>.a``; payloads count from 1, and have at least that size."""
    for number in range(1, count + 1):
        rg.publish_soon(f"{stream.name}.a", (b"%d" % number).ljust(size))
    rg.flush()


def put_on(rg: Railgun, stream: Stream, *tokens: str) -> None:
    """Publish one message on ``<stream>.<token>`` for each token; payloads count from 1."""
    for number, token in enumerate(tokens, 1):
        rg.publish(f"{stream.name}.{token}", b"%d" % number)


def filled(rg: Railgun, *tokens: str, **options: Any) -> Stream:
    """A stream with one message on ``<name>.<token>`` for each token; payloads count from 1."""
    name = unique("FILLED")
    stream = rg.create_stream(name, subjects=[f"{name}.>"], **options)
    put_on(rg, stream, *tokens)
    return stream


def held(stream: Stream) -> list[int]:
    """The sequences of its messages."""
    state = stream.info(deleted=True).state
    if not state.messages:
        return []
    gone = set(state.deleted or [])
    return [number for number in range(state.first_seq, state.last_seq + 1) if number not in gone]
