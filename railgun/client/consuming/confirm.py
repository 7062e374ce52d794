"""Answered commands to consumers, as steps that the sync and the async driver run: confirmed acknowledgements and hand-overs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from railgun.client.consuming.ack_box import AckBox
from railgun.client.consuming.handing import LARGEST_TOGETHER, WaitingHandOver
from railgun.client.requests import PendingCall
from railgun.client.steps import Blocking, Steps, Until, waitable
from railgun.errors import RailgunError, RequestTimeout, api_error
from railgun.protocol.commands import AckRun, HandOver, PublishPack
from railgun.protocol.replies import Frame

# Where a hand-over is larger, or where more wait, other acknowledgements leave before it, in a record of their own.
_ACKS_BESIDE: Final = 1_000
_BYTES_BESIDE: Final = 1024 * 1024


def confirm(box: AckBox, run: AckRun, timeout: float | None) -> Steps[None]:
    """Send an acknowledgement, with all that waits beside it, and wait until it is durable (ACK-13)."""
    limit = box.hub.link.timeout if timeout is None else waitable(timeout)
    try:
        yield from _sent(box, run, limit)
    except RequestTimeout as error:
        raise RequestTimeout(
            f"the acknowledgement of message {run.sequence} of {box.stream!r} was not confirmed within {limit:g} s: "
            "ack_sync may be called again, both outcomes are safe"
        ) from error


def hand_over(
    box: AckBox, given: HandOver, packs: list[PublishPack], size: int, timeout: float | None
) -> Steps[None]:
    """Send an acknowledgement together with publishes, behind all acks that wait, and wait until it is decided (EXO-08).

    ``size``: bytes of the publishes.
    """
    limit = box.hub.link.timeout if timeout is None else waitable(timeout)
    under_way = box.under_way
    try:
        if size <= LARGEST_TOGETHER and under_way is not None and not under_way.done:
            yield from _answered(box, limit, lambda: _send_soon(box, given, packs, size, limit))
        else:
            whole = given._replace(packs=[pack.encode() for pack in packs])
            yield from _sent(box, whole, limit)
    except RequestTimeout as error:
        box.under_way = None  # nobody waits for it any more
        raise RequestTimeout(
            f"the transaction of message {given.sequence} of {box.stream!r} was not answered within {limit:g} s and its outcome "
            "is unknown: it was done as a whole or not at all, and if it was not, the message comes again"
        ) from error


def _sent(box: AckBox, what: AckRun | HandOver, limit: float) -> Steps[None]:
    """Send it, and wait for its answer. Raises RequestTimeout, or its refusal."""
    yield from _answered(box, limit, lambda: _send_answered(box, what, limit))


def _answered(box: AckBox, limit: float, send: Callable[[], PendingCall]) -> Steps[None]:
    link = box.hub.link
    shards = (box.partition,)
    if not link.prepared(shards):
        yield Blocking(lambda: link.prepare(shards, limit))
    call = send()
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
    if given is not None:
        box.under_way = call
    return call


def _send_soon(
    box: AckBox, given: HandOver, packs: list[PublishPack], size: int, timeout: float
) -> PendingCall:
    """Have it sent with others, by the thread of the hub."""
    link = box.hub.link
    link.check()
    number = link.requests.numbers.take()
    call = link.requests.add(number, timeout)
    delivered = link.requests.reporting(number, call)
    try:
        box.hub.hand_over(
            box,
            WaitingHandOver(
                *(number, delivered, given.sequence, given.consumer_sequence, given.deliveries, packs, size)
            ),
        )
    except BaseException:
        link.requests.forget(number)
        raise
    box.under_way = call
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
