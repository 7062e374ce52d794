"""Gets of single messages, of many at once, and reads of a stream page by page, as steps."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from railgun.api.names import ApiName, Operation, parse
from railgun.client.connection.connection import Connection
from railgun.client.operations.flows import unaddressable
from railgun.client.reading.answered import messages_in, places_in
from railgun.client.reading.pending_reads import Record, UnansweredRead, WaitingGets, deadline_in
from railgun.client.steps import Blocking, Steps, Until
from railgun.errors import ConfigError, MessageNotFound, api_error
from railgun.model.messages import StoredMessage
from railgun.model.refusals import NO_MESSAGE_FOUND, STREAM_NOT_FOUND
from railgun.model.subjects import is_valid
from railgun.protocol.columnar.read_records import BY_SEQUENCE, HEADERS, WHOLE, ReadReply, ReadRequest
from railgun.protocol.commands import READ
from railgun.protocol.replies import Located

K = TypeVar("K", int, str)

_FIRST_PAGE = (1_024, 256 * 1024)  # messages and bytes: what a reader of a few messages waits for
_NEXT_PAGES = (16_384, 2 * 1024 * 1024)
_LAST_SEQUENCE = 2**63 - 1
_LATEST = 2**63 - 1_000_000  # ns
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def get(
    connection: Connection, stream: str, form: int, *, sequence: int = 0, subject: str = ""
) -> Steps[StoredMessage]:
    """One message. Raises MessageNotFound, StreamNotFound, RequestTimeout."""
    _check(form, sequence, subject)
    timeout = connection.timeout
    deadline = deadline_in(timeout)
    partition = yield from _owner_of(connection, stream, timeout)
    gets, index = connection.gets.add(stream, partition, form, sequence, subject, timeout)
    if not gets.done and not (yield Until(gets, timeout, bounded=True)):
        raise gets.overdue(timeout)
    found = gets.outcome(index)
    if isinstance(found, StoredMessage):
        return found
    message = (yield from _from_log(connection, [found], deadline))[0]
    if message is None:  # removed meanwhile
        raise MessageNotFound(*NO_MESSAGE_FOUND, stream=stream)
    return message


def get_many(
    connection: Connection, stream: str, form: int, wanted: Iterable[K]
) -> Steps[dict[K, StoredMessage]]:
    """The messages of these sequences, or the newest ones on these subjects; without those that do not exist."""
    timeout = connection.timeout
    deadline = deadline_in(timeout)
    keys = list(dict.fromkeys(wanted))
    partition = yield from _owner_of(connection, stream, timeout)
    packs = _packs(stream, form, keys, deadline)
    for pack in packs:
        connection.gets.send(partition, pack)
    found: dict[K, StoredMessage | Located] = {}
    asked = iter(keys)
    for pack in packs:
        if not pack.done and not (yield Until(pack, timeout, bounded=True)):
            raise pack.overdue(timeout)
        for index, key in zip(range(len(pack)), asked, strict=False):
            one = pack.outcome_or_none(index)
            if one is not None:
                found[key] = one
    places = [one for one in found.values() if isinstance(one, Located)]
    read = iter((yield from _from_log(connection, places, deadline)) if places else ())
    whole = {key: next(read) if isinstance(one, Located) else one for key, one in found.items()}
    return {key: one for key, one in whole.items() if one is not None}


def _packs(stream: str, form: int, keys: Sequence[int | str], deadline: float) -> list[WaitingGets]:
    """The gets of all keys, in their order, in packs that fit into a record. Raises ConfigError."""
    packs = [WaitingGets(stream)]
    for key in keys:
        sequence, subject = (key, "") if form == BY_SEQUENCE else (0, key)
        _check(form, sequence, subject)
        if not packs[-1].has_room(str(subject)):
            packs.append(WaitingGets(stream))
        packs[-1].add(form, int(sequence), str(subject), deadline)
    return packs if keys else []


def _check(form: int, sequence: object, subject: object) -> None:
    """Raises ConfigError for what cannot be sent: a get travels with others, which must not fail with it."""
    if not isinstance(sequence, int) or abs(sequence) > _LAST_SEQUENCE:
        raise ConfigError(f"{sequence!r} is not a valid sequence to get")
    if form != BY_SEQUENCE and not (isinstance(subject, str) and _is_text(subject)):
        raise ConfigError(f"{subject!r} is not a valid subject to get")


def _is_text(subject: str) -> bool:
    """Whether it can be sent: half of a surrogate pair cannot."""
    try:
        return subject.isascii() or bool(subject.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def _owner_of(connection: Connection, stream: str, timeout: float) -> Steps[int]:
    """The partition of the stream's owner, listened to. Raises StreamNotFound for what cannot be a name, NoWorker."""
    known = connection.stream(stream)
    if known is None:
        name = ApiName(Operation.MSG_GET, stream, "")
        if parse(name.text) != name:
            raise unaddressable(name)
        yield Blocking(lambda: connection.sync_registry(timeout))
        partition, _ = connection.routing.shards_of(name)
    else:
        partition = known.partition
    if not connection.prepared((partition,)):
        yield Blocking(lambda: connection.prepare((partition,), timeout))
    return partition


def _from_log(
    connection: Connection, places: Sequence[Located], deadline: float
) -> Steps[list[StoredMessage | None]]:
    left = max(deadline - time.monotonic(), 0.5)
    found: list[StoredMessage | None] = yield Blocking(lambda: connection.transport.read_log(places, left))
    return found


# -- pages


def asked_for(
    stream: str,
    subject: str | Sequence[str] | None,
    start: int | datetime | None,
    end: int | datetime | None,
    *,
    reverse: bool,
    limit: int | None,
    headers_only: bool,
    last_per_subject: bool,
) -> ReadRequest:
    """The read that a caller wants. Raises ConfigError."""
    filters = [] if subject is None else [subject] if isinstance(subject, str) else list(subject)
    for one in filters:
        _check_filter(one)
    _check_limit(limit)
    return ReadRequest(
        stream,
        subjects=filters,
        start=_sequence(start),
        end=_sequence(end),
        start_time=_nanos(start),
        # message.time is exact to the microsecond: its own is never before it
        end_time=None if (last := _nanos(end)) is None else last + 999,
        reverse=reverse,
        last_per_subject=last_per_subject,
        form=HEADERS if headers_only else WHOLE,
    )


def _check_filter(subject: object) -> None:
    if not isinstance(subject, str) or not is_valid(subject) or not _is_text(subject):
        raise ConfigError(f"{subject!r} is not a valid subject to read")


def _check_limit(limit: object) -> None:
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise ConfigError(f"{limit!r} is not a valid limit: give a number of messages, or None for all")


def _sequence(place: object) -> int:
    if place is None or isinstance(place, datetime):
        return 0
    if not isinstance(place, int) or isinstance(place, bool) or place < 1:
        raise ConfigError(f"{place!r} is not a valid place in a stream: give a sequence or a datetime")
    return min(place, _LAST_SEQUENCE)  # beyond it is nothing


def _nanos(place: object) -> int | None:
    if not isinstance(place, datetime):
        return None
    if place.tzinfo is None:
        raise ConfigError(f"{place!r} is not a valid place in a stream: the datetime has no time zone")
    nanos = (place - _EPOCH) // timedelta(microseconds=1) * 1_000
    return max(-_LATEST, min(nanos, _LATEST))  # no message is older, or younger


class PagedRead:
    """One read: its pages in order, each asked for before the one before it is handed out."""

    def __init__(self, connection: Connection, asked: ReadRequest, limit: int | None = None) -> None:
        self._connection = connection
        self._asked = asked
        self._left = limit
        self._ahead: UnansweredRead | None = None
        self._begun = False
        self._partition = 0
        self._incarnation = 0  # of the stream, by the first page

    def messages(self) -> Steps[list[StoredMessage] | None]:
        """The messages of the next page, maybe none; None if that was all. Raises StreamNotFound, RequestTimeout."""
        reply = yield from self.page()
        if reply is None:
            return None
        places = places_in(reply)
        read: list[StoredMessage | None] = []
        if places:
            read = yield from _from_log(self._connection, places, deadline_in(self._connection.timeout))
        return messages_in(reply, read, headers_only=self._asked.form == HEADERS)

    def page(self) -> Steps[ReadReply | None]:
        """The next page as it came; None if that was all."""
        if not self._begun:
            self._begun = True
            self._partition = yield from _owner_of(
                self._connection, self._asked.stream, self._connection.timeout
            )
            self._ask(*_FIRST_PAGE)
        page, self._ahead = self._ahead, None
        if page is None:
            return None
        if not page.done and not (yield Until(page, self._connection.timeout, bounded=True)):
            raise page.overdue(self._connection.timeout)
        reply = page.get()
        if reply.refusals:
            raise api_error(*reply.refusals[0][1], stream=self._asked.stream)
        if self._incarnation not in (0, reply.incarnation):  # deleted, and made again under its name
            raise api_error(*STREAM_NOT_FOUND, stream=self._asked.stream)
        self._incarnation = reply.incarnation
        if self._left is not None:
            self._left -= len(reply.sequences)
        if reply.next and (self._left is None or self._left > 0):
            self._asked = self._asked._replace(position=reply.next)
            # The newest of each subject end where the stream does by then; on the way down, no newer ones are met.
            if self._asked.reverse or not self._asked.last_per_subject:
                self._asked = self._asked._replace(end=reply.end, end_time=None)
            self._ask(*_NEXT_PAGES)
        return reply

    def _ask(self, messages: int, size: int) -> None:
        connection = self._connection
        limit = messages if self._left is None else min(messages, self._left)
        page = self._ahead = UnansweredRead(deadline_in(connection.timeout))
        page.request = connection.requests.numbers.take()
        asked = self._asked._replace(
            client=connection.client, request=page.request, limit=limit, max_bytes=size
        )
        connection.requests.before_sending()
        connection.reads.add(page)
        key = asked.stream.encode("utf-8")
        connection.reads.send(page, Record(self._partition, key, READ, asked.encode()))
