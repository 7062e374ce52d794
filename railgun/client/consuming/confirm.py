"""Confirmed acknowledgements, as steps that the sync and the async driver run (ACK-13)."""

from __future__ import annotations

import json

from railgun.client.consuming.ack_box import AckBox
from railgun.client.requests import PendingCall
from railgun.client.steps import Blocking, Steps, Until
from railgun.errors import RailgunError, RequestTimeout, api_error
from railgun.protocol.commands import AckRun
from railgun.protocol.replies import Frame


def confirm(box: AckBox, run: AckRun, timeout: float | None) -> Steps[None]:
    """Send an acknowledgement, with all that waits beside it, and wait until it is durable (ACK-13)."""
    link = box.hub.link
    limit = link.timeout if timeout is None else timeout
    shards = (box.partition,)
    if not link.prepared(shards):
        yield Blocking(lambda: link.prepare(shards, limit))
    call = _send_confirmed(box, run, limit)
    try:
        if not call.done and not (yield Until(call, limit)):
            raise call.overdue(limit)
        _accepted(call.get(), box)
    except RequestTimeout as error:
        raise RequestTimeout(
            f"the acknowledgement of message {run.sequence} of {box.stream!r} was not confirmed within {limit:g} s: "
            "ack_sync may be called again, both outcomes are safe"
        ) from error


def _send_confirmed(box: AckBox, run: AckRun, timeout: float) -> PendingCall:
    """Send an acknowledgement behind all that wait; the call ends once they are durable. One that fails is not sent again.

    The box's lock is held: an ack_sync neither overtakes a flush that is under way nor is overtaken by a later one.
    """
    link = box.hub.link
    link.check()
    number = link.requests.numbers.take()
    call = link.requests.add(number, timeout)
    delivered = link.requests.reporting(number, call)
    try:
        with box.sending:
            box.hub.commands.send(
                box.address, box=box, acks=box.take_all(), once=[run], request=number, delivered=delivered
            )
    except BaseException:
        link.requests.forget(number)
        raise
    return call


def _accepted(frames: list[Frame], box: AckBox) -> None:
    """Raises the refusal of a command to a consumer, if it is one."""
    body = frames[0].body if frames else b""
    try:
        refusal = json.loads(body).get("error") if body else None
    except (ValueError, AttributeError, RecursionError) as error:
        raise RailgunError(f"the answer to an acknowledgement cannot be read: {error!r:.500}") from error
    if refusal is not None:
        raise api_error(
            refusal.get("code", 0),
            refusal.get("err_code", 0),
            refusal.get("description", ""),
            stream=box.stream,
        )
