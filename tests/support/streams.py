"""Making a stream with messages, and what a stream holds."""

from __future__ import annotations

from typing import Any

from railgun.client.facade.railgun import Railgun
from railgun.client.facade.stream import Stream
from tests.support.naming import unique


def filled(rg: Railgun, *tokens: str, **options: Any) -> Stream:
    """A stream with one message on ``<name>.<token>`` for each token; payloads count from 1."""
    name = unique("FILLED")
    stream = rg.create_stream(name, subjects=[f"{name}.>"], **options)
    for number, token in enumerate(tokens, 1):
        rg.publish(f"{name}.{token}", b"%d" % number)
    return stream


def held(stream: Stream) -> list[int]:
    """The sequences of its messages."""
    state = stream.info(deleted=True).state
    if not state.messages:
        return []
    gone = set(state.deleted or [])
    return [number for number in range(state.first_seq, state.last_seq + 1) if number not in gone]
