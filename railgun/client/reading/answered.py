"""Messages out of the columns of an answer; those that the answer only names are read from the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from railgun.model import headers as h
from railgun.model.messages import StoredMessage
from railgun.protocol.columnar.read_records import HERE, ReadReply
from railgun.protocol.replies import Located

ReadLog = Callable[[Sequence[Located]], list[StoredMessage | None]]


def message_at(reply: ReadReply, place: int) -> StoredMessage | Located:
    """The message at this place of the columns, or where it is in the log."""
    sequence = reply.sequences[place]
    if reply.offsets and reply.offsets[place] != HERE:
        return Located("get", reply.topic, reply.offsets[place], sequence, reply.incarnation, False)
    return StoredMessage(
        reply.subjects[place],
        sequence,
        reply.payloads[place] if reply.payloads else b"",
        reply.headers[place] if reply.headers else [],
        reply.times[place],
    )


def places_in(reply: ReadReply) -> list[Located]:
    """The places in the log of the messages that are not in the answer itself."""
    return [
        Located("get", reply.topic, offset, sequence, reply.incarnation, False)
        for offset, sequence in zip(reply.offsets, reply.sequences, strict=False)
        if offset != HERE
    ]


def messages_in(
    reply: ReadReply, read: Sequence[StoredMessage | None], *, headers_only: bool = False
) -> list[StoredMessage]:
    """All messages of a page. ``read``: those of its :func:`places_in`, None for one that was removed meanwhile."""
    count = len(reply.sequences)
    found = list(
        map(
            StoredMessage,
            reply.subjects,
            reply.sequences,
            reply.payloads or [b""] * count,
            reply.headers or [[] for _ in range(count)],
            reply.times,
        )
    )
    if not read:
        return found
    late = iter(read)
    merged = (one if offset == HERE else next(late) for one, offset in zip(found, reply.offsets, strict=True))
    whole = [one for one in merged if one is not None]
    if not headers_only:
        return whole
    there = {
        sequence for sequence, offset in zip(reply.sequences, reply.offsets, strict=True) if offset == HERE
    }
    return [one if one.sequence in there else _without_payload(one) for one in whole]


def _without_payload(message: StoredMessage) -> StoredMessage:
    headers = [*message.headers, (h.MSG_SIZE, b"%d" % len(message.payload))]
    return StoredMessage(message.subject, message.sequence, b"", headers, message.time_ns)
