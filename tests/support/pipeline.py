"""A consume-publish pipeline as a load: workers that hand messages over to other streams, and give up, drop and repeat at random."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from railgun import Message, Railgun
from railgun.errors import NotPending, RailgunError, RequestTimeout


class Dropped(Exception):
    """A worker that dies in the middle of a transaction, as far as the cluster can see."""


@dataclass
class Worked:
    """What one worker knows of the messages that it had, by their texts."""

    done: list[str] = field(default_factory=list)
    not_pending: int = 0
    unknown: int = 0
    dropped: int = 0
    errors: list[str] = field(default_factory=list)


def work_off(
    rg: Railgun,
    stream: str,
    consumer: str,
    subjects: Sequence[str],
    stop: threading.Event,
    seed: str,
    worked: Worked,
    *,
    dropped: float = 0.05,
    impatient: float = 0.05,
) -> None:
    """Hand every message over to all subjects, until told to stop.

    ``dropped``: the part of the transactions that end in an exception; ``impatient``: of those that do not wait for their answer.
    """
    chance = random.Random(seed)
    worker = rg.stream(stream).consumer(consumer)
    while not stop.is_set():
        try:
            messages = worker.fetch(chance.randint(1, 20), wait=1.0)
        except RailgunError as error:
            worked.errors.append(str(error))
            stop.wait(0.2)
            continue
        for message in messages:
            timeout = 0.000_001 if chance.random() < impatient else None
            try:
                _hand_over(message, subjects, timeout, dies=chance.random() < dropped)
            except Dropped:
                worked.dropped += 1
            except NotPending:
                worked.not_pending += 1
            except RequestTimeout:
                worked.unknown += 1
            except RailgunError as error:
                worked.errors.append(str(error))
            else:
                worked.done.append(message.text)


def _hand_over(message: Message, subjects: Sequence[str], timeout: float | None, *, dies: bool) -> None:
    with message.transaction(timeout=timeout) as t:
        for subject in subjects:
            t.publish(subject, message.payload)
        if dies:
            raise Dropped
