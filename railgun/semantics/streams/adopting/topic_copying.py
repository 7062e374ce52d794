"""Copying from a topic: its records are stored in the stream that adopts it (TOP).

A record is taken as a publish of it would be, under the subject that its template makes. Only orders that a publisher gives for
one moment of a stream (expectations, batches) are taken off. A stream that is full makes the topic wait (TOP-10).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.headers import HeaderList, Headers
from railgun.model.refusals import Refusal
from railgun.model.stream_config import TopicSource
from railgun.model.topics.topic_subjects import RecordParts, template
from railgun.semantics.streams.adopting.topic_records import TopicRecord
from railgun.semantics.streams.publishing.outcomes import NewMessage
from railgun.semantics.streams.publishing.publish import Examined, examine, keep
from railgun.semantics.streams.sourcing.copied_columns import OBEYED, append_columns, sizes_that_fit
from railgun.semantics.streams.sourcing.copying import STRIPPED, WAITED_FOR, Target, largest_copy

_LEFT_OUT: Final = STRIPPED | {h.STREAM_SOURCE}
_CLOSELY: Final = OBEYED | {h.STREAM_SOURCE}


class TopicMapping:
    """The subject, id and headers of the copies of one partition's records."""

    def __init__(self, source: TopicSource, partition: int) -> None:
        self._topic, self._partition = source.topic, partition
        self._subject = template(source.subject)
        self._id = template(source.message_id) if source.message_id else None
        self._stated = f"{source.topic} {partition} ".encode()

    @property
    def gives_ids(self) -> bool:
        return self._id is not None

    def subject(self, record: TopicRecord) -> str:
        return self._subject.subject(self._parts(record))

    def headers(self, record: TopicRecord) -> HeaderList:
        """The record's own headers, then its place, its key, and whether it had no value (TOP-05, TOP-07)."""
        own = [
            (name, value or b"")
            for name, value in record.headers
            if name not in _LEFT_OUT and not name.startswith(h.RESERVED_PREFIX)
        ]
        found = self._id.text(self._parts(record)) if self._id is not None else None
        if found:
            own = [one for one in own if one[0] != h.MSG_ID]
            own.append((h.MSG_ID, found.encode("utf-8")))
        own.append((h.TOPIC_SOURCE, self._stated + b"%d %d" % (record.offset, record.time)))
        if record.key is not None:
            own.append((h.TOPIC_KEY, record.key))
        if record.value is None:
            own.append((h.TOPIC_NULL, b"1"))
        return own

    def _parts(self, record: TopicRecord) -> RecordParts:
        return RecordParts(self._topic, self._partition, record.offset, record.key, record.headers)


def copy_record(target: Target, mapping: TopicMapping, record: TopicRecord) -> Refusal | None:
    """Store a copy; None if it is done with: stored, or known already by its id. After a refusal nothing has changed."""
    state = target.state
    before = state.bytes
    message = NewMessage(
        _renamed(target, mapping.subject(record)), mapping.headers(record), record.value or b""
    )
    largest = largest_copy(state.config)
    found = examine(state, message, target.platform, target.room, target.log, target.read, largest=largest)
    if isinstance(found, Refusal):
        return refusals.MESSAGE_TOO_LARGE if comes_later(found) and _never_fits(target, message) else found
    if isinstance(found, Examined):
        keep(state, found, target.time, target.log)
        target.room -= state.bytes - before
    return None


def comes_later(refusal: Refusal) -> bool:
    """Whether the record may be stored later: the stream is full or sealed (TOP-10)."""
    return refusal.err_code in WAITED_FOR


def _never_fits(target: Target, message: NewMessage) -> bool:
    """Whether the record is larger than the stream may ever be: it would hold up all others for good (TOP-09)."""
    config, platform = target.state.config, target.platform
    of_stream = config.max_bytes if config.max_bytes > 0 else platform.max_stream_bytes
    size = target.state.measure.of(message.subject, h.block_size(message.headers), message.payload)
    return any(0 < most < size for most in (of_stream, platform.max_store_bytes))


def copy_all(target: Target, mapping: TopicMapping, records: Sequence[TopicRecord]) -> bool:
    """Store copies of all records at once; False if any of them needs a closer look, and then nothing has changed."""
    config = target.state.config
    if (
        config.sealed
        or config.discard == "new"
        or config.allow_msg_counter
        or target.state.origin
        or mapping.gives_ids
        or any(name in _CLOSELY for record in records for name, _ in record.headers)
    ):
        return False
    subjects = [_renamed(target, mapping.subject(record)) for record in records]
    headers: list[Headers] = [mapping.headers(record) for record in records]
    payloads = [record.value or b"" for record in records]
    sizes = sizes_that_fit(target, subjects, headers, payloads)
    if sizes is None:
        return False
    append_columns(target, subjects, sizes, headers, payloads)
    return True


def _renamed(target: Target, subject: str) -> str:
    transform = target.state.transform
    return (None if transform is None else transform.apply(subject)) or subject
