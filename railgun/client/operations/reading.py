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
from railgun.client.reading.get_packer import MOST_GETS
from railgun.client.reading.pending_reads import UnansweredRead, WaitingGets, deadline_in
from railgun.client.steps import Blocking, Steps, Until
from railgun.errors import ConfigError, MessageNotFound, api_error
from railgun.model.messages import StoredMessage
from railgun.model.refusals import NO_MESSAGE_FOUND
from railgun.model.subjects import is_valid
from railgun.protocol.columnar.read_records import BY_SEQUENCE, HEADERS, LAST, WHOLE, ReadReply, ReadRequest
from railgun.protocol.commands import READ
from railgun.protocol.replies import Located

K = TypeVar("K", int, str)

_FIRST_PAGE = (1_024, 256 * 1024)  # messages and bytes: what a reader of a few messages waits for
_NEXT_PAGES = (16_384, 2 * 1024 * 1024)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def get(
    connection: Connection, stream: str, form: int, *, sequence: int = 0, subject: str = ""
) -> Steps[StoredMessage]:
    """One message. Raises MessageNotFound, StreamNotFound, RequestTimeout."""
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
    packs = [
        _pack(stream, form, keys[at : at + MOST_GETS], deadline) for at in range(0, len(keys), MOST_GETS)
    ]
    for pack in packs:
        connection.gets.send(partition, pack)
    found: dict[K, StoredMessage | Located] = {}
    for number, pack in enumerate(packs):
        if not pack.done and not (yield Until(pack, timeout, bounded=True)):
            raise pack.overdue(timeout)
        for index, key in enumerate(keys[number * MOST_GETS : (number + 1) * MOST_GETS]):
            one = pack.outcome_or_none(index)
            if one is not None:
                found[key] = one
    places = [one for one in found.values() if isinstance(one, Located)]
    read = iter((yield from _from_log(connection, places, deadline)) if places else ())
    whole = {key: next(read) if isinstance(one, Located) else one for key, one in found.items()}
    return {key: one for key, one in whole.items() if one is not None}


def _pack(stream: str, form: int, keys: Sequence[int | str], deadline: float) -> WaitingGets:
    gets = WaitingGets(stream)
    for key in keys:
        if form == BY_SEQUENCE and isinstance(key, int):
            gets.add(form, key, "", deadline)
        elif form == LAST and isinstance(key, str):
            gets.add(form, 0, key, deadline)
        else:
            raise ConfigError(
                f"{key!r} is not a valid {'sequence' if form == BY_SEQUENCE else 'subject'} to get"
            )
    return gets


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
        if not is_valid(one):
            raise ConfigError(f"{one!r} is not a valid subject to read")
    if limit is not None and limit < 1:
        raise ConfigError(f"{limit!r} is not a valid limit: give a number of messages, or None for all")
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


def _sequence(place: object) -> int:
    if place is None or isinstance(place, datetime):
        return 0
    if not isinstance(place, int) or isinstance(place, bool) or place < 1:
        raise ConfigError(f"{place!r} is not a valid place in a stream: give a sequence or a datetime")
    return place


def _nanos(place: object) -> int | None:
    if not isinstance(place, datetime):
        return None
    if place.tzinfo is None:
        raise ConfigError(f"{place!r} is not a valid place in a stream: the datetime has no time zone")
    return (place - _EPOCH) // timedelta(microseconds=1) * 1_000


class PagedRead:
    """One read: its pages in order, each asked for before the one before it is handed out."""

    def __init__(self, connection: Connection, asked: ReadRequest, limit: int | None = None) -> None:
        self._connection = connection
        self._asked = asked
        self._left = limit
        self._ahead: UnansweredRead | None = None
        self._begun = False
        self._partition = 0

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
        if self._left is not None:
            self._left -= len(reply.sequences)
        if reply.next and (self._left is None or self._left > 0):
            self._asked = self._asked._replace(position=reply.next)
            if not self._asked.last_per_subject:  # which ends where the stream does, by then
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
        connection.send(self._partition, key, READ, asked.encode(), connection.reads.delivered(page))
