"""Waiting for copies, and what a stream holds."""

from __future__ import annotations

from railgun.client.facade.sync.stream import Stream
from tests.support.streams import held
from tests.support.waiting import wait_until


def copied(stream: Stream, count: int) -> None:
    """Wait until the stream holds so many messages, and no more are on their way."""
    wait_until(
        lambda: stream.info().state.messages == count and lag(stream) == 0,
        f"{count} messages in {stream.name}",
    )


def lag(stream: Stream) -> int:
    """Messages that the stream still has to copy."""
    info = stream.info()
    return sum(one.lag for one in [*([info.mirror] if info.mirror else []), *(info.sources or [])])


def payloads(stream: Stream) -> list[str]:
    """The payloads of all messages, in their order."""
    return [stream.get(sequence).text for sequence in held(stream)]


def subjects(stream: Stream) -> list[str]:
    """The subjects of all messages, in their order."""
    return [stream.get(sequence).subject for sequence in held(stream)]
