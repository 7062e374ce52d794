"""Answered commands to consumers, as steps that the sync and the async driver run: confirmed acknowledgements and hand-overs."""

from __future__ import annotations

import json
from typing import Final

from railgun.client.consuming.ack_box import AckBox
from railgun.client.requests import PendingCall
from railgun.client.steps import Blocking, Steps, Until
from railgun.errors import RailgunError, RequestTimeout, api_error
from railgun.protocol.commands import AckRun, HandOver
from railgun.protocol.replies import Frame

# Where a hand-over is larger, or where more wait, other acknowledgements leave before it, in a record of their own.
_ACKS_BESIDE: Final = 1_000
_BYTES_BESIDE: Final = 1024 * 1024


def confirm(box: AckBox, run: AckRun, timeout: float | None) -> Steps[None]:
    """Send an acknowledgement, with all that waits beside it, and wait until it is durable (ACK-13)."""
    limit = box.hub.link.timeout if timeout is None else timeout
    try:
        yield from _sent(box, run, limit)
    except RequestTimeout as error:
        raise RequestTimeout(
            f"the acknowledgement of message {run.sequence} of {box.stream!r} was not confirmed within {limit:g} s: "
            "ack_sync may be called again, both outcomes are safe"
        ) from error


def hand_over(box: AckBox, given: HandOver, timeout: float | None) -> Steps[None]:
    """Send an acknowledgement together with publishes, behind all acks that wait, and wait until it is decided (EXO-08)."""
    limit = box.hub.link.timeout if timeout is None else timeout
    try:
        yield from _sent(box, given, limit)
    except RequestTimeout as error:
        raise RequestTimeout(
            f"the transaction of message {given.sequence} of {box.stream!r} was not answered within {limit:g} s and its outcome "
            "is unknown: it was done as a whole or not at all, and if it was not, the message comes again"
        ) from error


def _sent(box: AckBox, what: AckRun | HandOver, limit: float) -> Steps[None]:
    """Send it, and wait for its answer. Raises RequestTimeout, or its refusal."""
    link = box.hub.link
    shards = (box.partition,)
    if not link.prepared(shards):
        yield Blocking(lambda: link.prepare(shards, limit))
    call = _send_answered(box, what, limit)
    if not call.done and not (yield Until(call, limit)):
        raise call.overdue(limit)
    _accepted(call.get(), box)


def _send_answered(box: AckBox, what: AckRun | HandOver, timeout: float) -> PendingCall:
    """Send it behind all acknowledgements that wait; the call ends once all are durable. What fails is not sent again.

    The box's lock is held: it neither overtakes a flush that is under way nor is overtaken by a later one.
    """
    link = box.hub.link
    link.check()
    number = link.requests.numbers.take()
    call = link.requests.add(number, timeout)
    delivered = link.requests.reporting(number, call)
    run, given = ([what], None) if isinstance(what, AckRun) else ([], what)
    try:
        with box.sending:
            if given is not None and (
                box.waiting > _ACKS_BESIDE or sum(map(len, given.packs)) > _BYTES_BESIDE
            ):
                box.hub.flush(box)
            box.hub.commands.send(
                box.address,
                box=box,
                acks=box.take_all(),
                once=run,
                hand_over=given,
                request=number,
                delivered=delivered,
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
