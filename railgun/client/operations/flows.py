"""Publishes and calls, written once: as steps that the sync and the async driver run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from railgun.api.names import PREFIX, ApiName, Operation, parse
from railgun.client.connection.connection import Connection
from railgun.client.operations import raw_pulls
from railgun.client.operations.call import NO_RESPONDERS, Call, as_reply, json_body
from railgun.client.operations.streams import list_body, merge_accounts, merge_lists
from railgun.client.publishing.arguments import header_list, payload_bytes
from railgun.client.publishing.packs import Lane, PublishFuture
from railgun.client.requests import PendingCall
from railgun.client.steps import Blocking, Steps, Until
from railgun.errors import ApiError, NoStreamResponse, api_error
from railgun.model import headers as h
from railgun.model.headers import HeaderList
from railgun.model.messages import PubAck, Reply, StoredMessage
from railgun.model.refusals import BAD_STREAM_NAME, CONSUMER_NOT_FOUND, STREAM_NOT_FOUND
from railgun.protocol.replies import Frame, fill
from railgun.protocol.statuses import not_found

T = TypeVar("T")

HandOver = Callable[[Lane, str, bytes, str, HeaderList | None, float], PublishFuture]


def publish(
    connection: Connection,
    hand_over: HandOver,
    subject: str,
    payload: bytes,
    msg_id: str,
    headers: HeaderList | None,
    timeout: float,
) -> Steps[PubAck]:
    """One publish and its ack. Raises its refusal, NoStreamResponse, NoWorker, RequestTimeout."""
    lane = connection.routing.routes.get(subject)
    if lane is None:
        lane = yield Blocking(lambda: connection.routing.route(subject, timeout))
    elif connection.routing.stale:
        yield Blocking(connection.routing.require_worker)
    assert lane is not None
    future = hand_over(lane, subject, payload, msg_id, headers, timeout)
    settlement = future.settlement
    bounded = timeout >= connection.timeout and not connection.packer.is_full
    if not settlement.done and not (yield Until(settlement, timeout, bounded)):
        raise settlement.overdue(timeout)
    return future.result()


def call(connection: Connection, what: Call[T], timeout: float) -> Steps[T]:
    """A typed operation: its request, its answer, its value. Raises at once what no shard could be asked."""
    if parse(what.name.text) != what.name:
        raise unaddressable(what.name)
    if what.name.operation is Operation.STREAM_LIST:
        replies = yield from _list(connection, what.body, what.headers, timeout, paged=False)
    else:
        replies = yield from _ask(connection, what, timeout)
    return what.value(replies)


def unaddressable(name: ApiName) -> ApiError:
    """The error for a name that cannot be part of a request: no stream or consumer has it (CFG-01, CON-07)."""
    refusal = STREAM_NOT_FOUND
    if name.operation in (Operation.STREAM_CREATE, Operation.STREAM_UPDATE):
        refusal = BAD_STREAM_NAME
    elif name.stream and "." not in name.stream:
        refusal = CONSUMER_NOT_FOUND
    return api_error(*refusal, stream=name.stream)


def request(
    connection: Connection,
    hand_over: HandOver,
    name: str,
    body: bytes | str,
    headers: h.HeaderInput | None,
    timeout: float,
) -> Steps[list[Reply]]:
    """A raw request: a call of the API by name, or a publish to a captured subject that asks for its ack.

    A name that no service answers gives one reply with status 503 (PUB-05). Raises ConfigError for a header or a body that cannot travel.
    """
    given = header_list(headers)
    data = payload_bytes(body)
    api = parse(name)
    if api is None and name.startswith(PREFIX):
        return [NO_RESPONDERS]
    if api is None:
        return (yield from _raw_publish(connection, hand_over, name, data, given, timeout))
    if api.operation is Operation.STREAM_LIST:
        return (yield from _list(connection, data, given, timeout, paged=True))
    if api.operation is Operation.INFO:
        return (yield from _account(connection, api, data, given, timeout))
    if raw_pulls.is_pull(api, data):
        return (yield from raw_pulls.pull(connection, api, data, given, timeout))
    changes = api.operation in (Operation.STREAM_CREATE, Operation.STREAM_UPDATE, Operation.STREAM_DELETE)
    what: Call[list[Reply]] = Call(api, _as_they_are, data, given, changes_registry=changes)
    return (yield from _ask(connection, what, timeout))


def _as_they_are(replies: list[Reply]) -> list[Reply]:
    return replies


def _raw_publish(
    connection: Connection,
    hand_over: HandOver,
    subject: str,
    payload: bytes,
    headers: HeaderList,
    timeout: float,
) -> Steps[list[Reply]]:
    try:
        ack = yield from publish(connection, hand_over, subject, payload, "", headers, timeout)
    except NoStreamResponse:
        return [NO_RESPONDERS]
    except ApiError as error:
        return [_ack_refusal(error)]
    if ack.batch is not None and ack.count is None:
        return [Reply(b"")]  # BAT-02, BAT-03
    return [Reply(json_body(ack.to_api()))]  # PUB-01


def _ack_refusal(error: ApiError) -> Reply:
    """The reply to a raw publish that was refused."""
    refusal = {"code": error.code, "err_code": error.err_code, "description": error.description}
    return Reply(json.dumps({"error": refusal, "stream": error.stream or "", "seq": 0}).encode("utf-8"))


def _ask(connection: Connection, what: Call[T], timeout: float) -> Steps[list[Reply]]:
    deadline = time.monotonic() + timeout
    if what.partition is not None:
        target, listened = what.partition, [what.partition]
    else:
        if connection.routing.unsure_of(what.name):
            yield Blocking(lambda: connection.sync_registry(timeout))
        target, listened = connection.routing.shards_of(what.name)
    if not connection.prepared(listened):
        yield Blocking(lambda: connection.prepare(listened, timeout))
    pending = connection.requests.begin(target, what.name, what.body, what.headers, timeout)
    replies = yield from _answer(connection, pending, deadline, timeout)
    if what.changes_registry:
        yield Blocking(lambda: connection.sync_registry(connection.timeout))
    return replies


def _answer(
    connection: Connection, pending: PendingCall, deadline: float, timeout: float
) -> Steps[list[Reply]]:
    """The replies of one request, with the messages that its frames only point to."""
    if not pending.done and not (yield Until(pending, max(deadline - time.monotonic(), 0.0))):
        raise pending.overdue(timeout)
    frames = pending.get()
    places = [frame.located for frame in frames if frame.located is not None]
    if not places:
        return [as_reply(frame) for frame in frames]
    left = max(deadline - time.monotonic(), 0.5)
    found = yield Blocking(lambda: connection.transport.read_log(places, left))
    messages = iter(found)
    return [as_reply(_filled(frame, messages)) for frame in frames]


def _filled(frame: Frame, messages: Iterator[StoredMessage | None]) -> Frame:
    """The frame with the next message in it, where it names one."""
    if frame.located is None:
        return frame
    message = next(messages)
    return not_found(frame.located) if message is None else fill(frame, frame.located, message)


def _account(
    connection: Connection, name: ApiName, body: bytes, headers: HeaderList | None, timeout: float
) -> Steps[list[Reply]]:
    """INFO: every shard is asked for its own streams and consumers, and the answers are merged."""
    deadline = time.monotonic() + timeout
    shards = yield from _every_shard(connection, timeout)
    begun = [connection.requests.begin(shard, name, body, headers, timeout) for shard in shards]
    answers: list[Reply] = []
    for pending in begun:
        answers += yield from _answer(connection, pending, deadline, timeout)
    return [merge_accounts(answers)]


def _every_shard(connection: Connection, timeout: float) -> Steps[range]:
    """All partitions, listened to. Raises NoWorker, ConnectionLost."""
    shards = range(connection.partitions)
    if not connection.prepared(shards):
        yield Blocking(lambda: connection.prepare(shards, timeout))
    return shards


def _list(
    connection: Connection, body: bytes, headers: HeaderList | None, timeout: float, *, paged: bool
) -> Steps[list[Reply]]:
    """STREAM.LIST: every shard is asked for all of its own streams, page by page, and the answers are merged."""
    deadline = time.monotonic() + timeout
    name = parse(Operation.STREAM_LIST.value)
    assert name is not None
    shards = yield from _every_shard(connection, timeout)
    asked = [(shard, 0) for shard in shards]
    answers: list[Reply] = []
    while asked:
        begun = [
            (shard, offset, connection.requests.begin(shard, name, list_body(body, offset), headers, timeout))
            for shard, offset in asked
        ]
        asked = []
        for shard, offset, pending in begun:
            replies = yield from _answer(connection, pending, deadline, timeout)
            answers.append(replies[0])
            part = replies[0].json()
            got = offset + len(part.get("streams") or [])
            if part.get("streams") and got < part.get("total", 0):
                asked.append((shard, got))
    return [merge_lists(body, answers, paged=paged)]
