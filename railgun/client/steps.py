"""One logic for the sync and the async facade: an operation is a generator of steps, and two small drivers run it.

A step is either something that blocks (:class:`Blocking`: the async driver runs it in a thread) or something to wait for
(:class:`Until`). The generator gets the step's result back; a RailgunError of a step is raised in it, any
other exception ends the operation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from railgun.client.settlements import Settlement
from railgun.errors import RailgunError
from railgun.model.durations import LONGEST, NANOS

T = TypeVar("T")

LONGEST_WAIT = LONGEST / NANOS  # seconds; no thread can wait much longer, and no command can say so


class Blocking(NamedTuple):
    """A call that may take a while: reading to the end of a topic, asking who is alive."""

    call: Callable[[], Any]


class Until(NamedTuple):
    """Wait for a settlement; the step's result is whether it ended in time.

    ``bounded``: the settlement ends by itself about then, so that no timer is needed.
    """

    settlement: Settlement[Any]
    timeout: float
    bounded: bool = False


Steps = Generator[Blocking | Until, Any, T]


def run(steps: Steps[T]) -> T:
    """Run the operation in the caller's thread."""
    try:
        step = next(steps)
        while True:
            try:
                result = step.call() if isinstance(step, Blocking) else step.settlement.wait(step.timeout)
            except RailgunError as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        value: T = end.value
        return value


async def run_async(steps: Steps[T]) -> T:
    """Run the operation in the running event loop, without ever holding it up."""
    try:
        step = next(steps)
        while True:
            try:
                result = await (asyncio.to_thread(step.call) if isinstance(step, Blocking) else _until(step))
            except RailgunError as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        value: T = end.value
        return value


async def _until(step: Until) -> bool:
    waiter = step.settlement.waiter()
    if waiter is None:
        return True
    if step.bounded:
        await waiter
        return True
    try:
        async with asyncio.timeout(step.timeout):
            await waiter
    except TimeoutError:
        return step.settlement.done
    finally:
        if not step.settlement.done:
            step.settlement.forget(waiter)
    return True
