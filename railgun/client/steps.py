"""One logic for the sync and the async facade: an operation is a generator of steps, and two small drivers run it.

A step is something that blocks (:class:`Blocking`: the async driver runs it in a thread), something to wait for
(:class:`Until`), or leaves others their turn (:class:`Turn`). The generator gets the step's result back; a RailgunError of a step is raised in it, any
other exception ends the operation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from railgun.client.settlements import Settlement
from railgun.errors import ConfigError, RailgunError
from railgun.model.durations import LONGEST, NANOS

T = TypeVar("T")

LONGEST_WAIT = LONGEST / NANOS  # seconds; no thread can wait much longer, and no command can say so


def waitable(timeout: object) -> float:
    """The time to wait for an answer, in seconds. Raises ConfigError for what nobody can wait, before anything is sent."""
    if not isinstance(timeout, int | float) or not 0 <= timeout <= LONGEST_WAIT:
        raise ConfigError(f"{timeout!r:.100} is not a valid timeout: give seconds, at most {LONGEST_WAIT:g}")
    return timeout


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


class Turn(NamedTuple):
    """Tasks of the same loop that are ready as well go first; nothing to a thread."""


Step = Blocking | Until | Turn
Steps = Generator[Step, Any, T]


def run(steps: Steps[T]) -> T:
    """Run the operation in the caller's thread."""
    try:
        step = next(steps)
        while True:
            try:
                result = _run(step)
            except RailgunError as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        steps.close()  # what interrupted it may be kept, and the operation with it


def _run(step: Step) -> Any:
    if isinstance(step, Until):
        return step.settlement.wait(step.timeout)
    return step.call() if isinstance(step, Blocking) else None


async def run_async(steps: Steps[T]) -> T:
    """Run the operation in the running event loop, without ever holding it up."""
    try:
        step, result = next(steps), None
        while True:
            try:
                if isinstance(step, Until):
                    result = await _until(step)
                elif isinstance(step, Blocking):
                    result = await asyncio.to_thread(step.call)
                else:
                    await asyncio.sleep(0)
                    result = None
            except RailgunError as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        # A task that is cancelled ends here and now: its frames, and the operation in them, live as long as somebody keeps the error.
        steps.close()


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
