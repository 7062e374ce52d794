"""Raw requests that are answered with messages of a consumer: ``CONSUMER.MSG.NEXT.…``, and ``+NXT`` to an ack address."""

from __future__ import annotations

import time
from functools import partial

from railgun.api.deliveries import NEXT
from railgun.api.names import ApiName, Operation
from railgun.client.connection.connection import Connection
from railgun.client.consuming.ack_box import Address
from railgun.client.consuming.delivery import Delivery
from railgun.client.consuming.fetch import WaitingPull
from railgun.client.operations.call import as_reply
from railgun.client.requests import PendingCall
from railgun.client.steps import Blocking, Steps, Until
from railgun.errors import RequestTimeout
from railgun.model import headers as h
from railgun.model.headers import HeaderList
from railgun.model.messages import Reply
from railgun.protocol.commands import Pull
from railgun.protocol.leases import Lease


def is_pull(name: ApiName, body: bytes) -> bool:
    """Whether the answer is leases."""
    if name.operation is Operation.ACK:
        return body.startswith(NEXT)
    return name.operation is Operation.CONSUMER_MSG_NEXT


def pull(
    connection: Connection, name: ApiName, body: bytes, headers: HeaderList, timeout: float
) -> Steps[list[Reply]]:
    """Messages and statuses, in order, once the pull is over; at the timeout what came by then.

    Raises RequestTimeout if nothing came. A pull that is given up is cancelled at the shard, where it would wait for ever (PUL-02).
    """
    deadline = time.monotonic() + timeout
    if connection.routing.unsure_of(name):
        yield Blocking(lambda: connection.sync_registry(timeout))
    target, listened = connection.routing.shards_of(name)
    if not connection.prepared(listened):
        yield Blocking(lambda: connection.prepare(listened, timeout))
    hub = connection.consuming
    address = Address(name.stream, 0, name.consumer, 0, target)
    left = max(deadline - time.monotonic(), 0.0)
    waiting = WaitingPull(hub, Delivery, address, Pull(connection.requests.numbers.take()), left)
    hub.start()
    try:
        call = _send(connection, target, name, body, headers, waiting, left)
        if not waiting.done:
            yield Until(waiting, left)
        found = _replies(waiting)
        if call.done and call.error is None:  # refused before it reached a consumer
            found += [as_reply(frame) for frame in call.get()]
        if not found:
            error = waiting.error or waiting.reading_error() or waiting.overdue(timeout)
            raise error.with_traceback(None)
        return found
    finally:
        waiting.give_up()
        connection.requests.forget(waiting.pull.id)


def _send(
    connection: Connection,
    partition: int,
    name: ApiName,
    body: bytes,
    headers: HeaderList,
    waiting: WaitingPull,
    timeout: float,
) -> PendingCall:
    """Send a raw request that is answered with leases; an ordinary answer to it ends it as well."""
    connection.check()
    connection.packer.push()
    number = waiting.pull.id
    call = connection.requests.add(number, timeout)
    call.when_done(lambda: waiting.failed(call.error or RequestTimeout("answered without messages")))
    send = partial(connection.requests.send, partition, number, name, body, headers, waiting.sent)
    waiting.pull.again = send
    connection.consuming.pulls.add(waiting.pull)
    send()
    return call


def _replies(waiting: WaitingPull) -> list[Reply]:
    with waiting.lock:
        parts = list(waiting.parts)
        found = []
        for part in parts:
            if isinstance(part, Lease):
                found.append(status_reply(part))
            else:
                found += [Reply(one.payload, one.headers, one.subject, one.reply) for one in part.messages]
                part.messages = []
    return found


def status_reply(lease: Lease) -> Reply:
    """The status of a lease as a message without a payload."""
    own: HeaderList = [(h.STATUS, str(lease.status).encode("ascii"))]
    if lease.description:
        own.append((h.DESCRIPTION, lease.description.encode("utf-8")))
    return Reply(b"", [*own, *lease.status_headers], lease.subject, lease.reply, lease.status)
