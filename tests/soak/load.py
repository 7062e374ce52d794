"""The load of a soak: threads that update keys, work on jobs, write notes that expire, and make and delete consumers.

Each tries again, with the same id, whatever does not answer during a takeover; what does not answer for longer is a fault.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar
from zlib import crc32

import railgun
from railgun.errors import ApiError, RailgunError
from railgun.model.messages import PubAck
from tests.soak.cluster import JOBS, KEYS, NOTES
from tests.soak.ledger import Ledger

Answer = TypeVar("Answer")

UNANSWERED_SECONDS: Final = 60.0
_CALL_SECONDS: Final = 5.0
_LIVE_KEYS: Final = 50
_BATCH: Final = 10
_MOST_JOBS: Final = 2_000  # that wait: the publisher of jobs then rests
_LIFE: Final = 5.0  # seconds, of a note
ACK_WAIT: Final = 15.0  # jobs that are left alone come again after this


class Activity(threading.Thread):
    """One thread with its own connection. ``faults`` says what went wrong, ``done`` how much it did."""

    pause = 0.25  # seconds between two rounds

    def __init__(self, bootstrap: str, prefix: str, ledger: Ledger) -> None:
        super().__init__(name=type(self).__name__, daemon=True)
        self.faults: list[str] = []
        self.done = 0
        self.ledger = ledger
        self._address = (bootstrap, prefix)
        self.ending = threading.Event()

    def run(self) -> None:
        bootstrap, prefix = self._address
        try:
            with railgun.connect(bootstrap, prefix=prefix, timeout=_CALL_SECONDS) as rg:
                self.begin(rg)
                while not self.ending.wait(self.pause):
                    self.round(rg)
                self.end(rg)
        except BaseException:  # noqa: BLE001 - a fault of the run, said at its end
            self.faults.append(f"{self.name} ended:\n{traceback.format_exc()}")

    def begin(self, rg: railgun.Railgun) -> None:
        """Before the first round."""

    def round(self, rg: railgun.Railgun) -> None:
        raise NotImplementedError

    def end(self, rg: railgun.Railgun) -> None:
        """After the last round: what must be true now."""

    def insist(self, call: Callable[[], Answer], what: str) -> Answer:
        """Call until there is an answer. A refusal other than "not now" is raised."""
        deadline = time.monotonic() + UNANSWERED_SECONDS
        while True:
            try:
                return call()
            except RailgunError as error:
                if isinstance(error, ApiError) and error.code != 503:
                    raise
                if time.monotonic() > deadline:
                    self.faults.append(
                        f"{what} was not answered within {UNANSWERED_SECONDS:.0f} s: {error!r}"
                    )
                    raise
                time.sleep(0.2)

    def publish_all(
        self, rg: railgun.Railgun, messages: list[tuple[str, str]], **options: float
    ) -> list[PubAck]:
        """Publish (subject, id) pairs with the id as body, together; those without an answer again, one by one."""
        futures = [
            self.insist(partial(rg.publish_soon, subject, one.encode(), msg_id=one, **options), one)
            for subject, one in messages
        ]
        acks = []
        for future, (subject, one) in zip(futures, messages, strict=True):
            try:
                acks.append(future.result(_CALL_SECONDS))
            except RailgunError:
                again = partial(rg.publish, subject, one.encode(), msg_id=one, **options)
                acks.append(self.insist(again, one))
        self.done += len(acks)
        return acks


class Updates(Activity):
    """New values for the same keys, for ever; now and then an id comes twice."""

    def begin(self, rg: railgun.Railgun) -> None:
        self._round = 0
        self._last: dict[str, tuple[int, str]] = {}

    def round(self, rg: railgun.Railgun) -> None:
        self._round += 1
        keys = [f"{KEYS}.{(self._round * _BATCH + step) % _LIVE_KEYS}" for step in range(_BATCH)]
        messages = [(key, f"{key}-{self._round}") for key in keys]
        acks = self.publish_all(rg, messages)
        for (key, value), ack in zip(messages, acks, strict=True):
            if ack.sequence <= self._last.get(key, (0, ""))[0]:
                self.faults.append(f"{value} was acked as {ack.sequence}, below an earlier value")
            self._last[key] = ack.sequence, value
        if self._round % 10 == 0:
            (again,) = self.publish_all(rg, messages[:1])
            if not again.duplicate or again.sequence != acks[0].sequence:
                self.faults.append(
                    f"{messages[0][1]} was stored as {acks[0].sequence} and as {again.sequence}"
                )

    def end(self, rg: railgun.Railgun) -> None:
        stream = rg.stream(KEYS)
        for key, (sequence, value) in self._last.items():
            found = self.insist(partial(stream.get_last, key), f"a get of {key}")
            if (found.sequence, found.payload) != (sequence, value.encode()):
                self.faults.append(
                    f"{key} is {found.payload!r} at {found.sequence}, not {value} at {sequence}"
                )


class JobPublisher(Activity):
    """Jobs for the work queue, and first of all one that nobody takes."""

    pause = 0.2

    def begin(self, rg: railgun.Railgun) -> None:
        self._number = 0
        (self._stuck,) = self.publish_all(rg, [(f"{JOBS}.stuck", "stuck")])

    def round(self, rg: railgun.Railgun) -> None:
        if self.ledger.waiting > _MOST_JOBS:
            return
        names = [f"job-{self._number + step}" for step in range(_BATCH)]
        self._number += _BATCH
        acks = self.publish_all(rg, [(f"{JOBS}.work", name) for name in names])
        for name, ack in zip(names, acks, strict=True):
            self.ledger.published(name, ack.sequence)

    def end(self, rg: railgun.Railgun) -> None:
        found = self.insist(lambda: rg.stream(JOBS).get(self._stuck.sequence), "a get of the stuck job")
        if found.payload != b"stuck":
            self.faults.append(f"the stuck job is {found.payload!r}")


class JobWorker(Activity):
    """Works on jobs: some are refused the first time, some are left alone and come again."""

    pause = 0.0

    def begin(self, rg: railgun.Railgun) -> None:
        self._consumer = self.insist(
            lambda: rg.stream(JOBS).create_consumer(
                "WORK", filter_subject=f"{JOBS}.work", ack_wait=ACK_WAIT, max_ack_pending=_MOST_JOBS
            ),
            "the consumer of jobs",
        )

    def round(self, rg: railgun.Railgun) -> None:
        for message in self.insist(lambda: self._consumer.fetch(20, wait=1.0), "a fetch of jobs"):
            job, chance = message.text, crc32(message.payload) % 100
            self.ledger.delivered(job, message.sequence)
            if message.deliveries == 1 and chance < 10:
                self.insist(partial(message.nak, delay=0.3), f"a nak of {job}")
            elif message.deliveries > 1 or chance > 11:  # the others come again by themselves
                self.insist(message.ack_sync, f"the ack of {job}")
                self.ledger.confirmed(job, message.sequence)
                self.done += 1

    def end(self, rg: railgun.Railgun) -> None:
        deadline = time.monotonic() + UNANSWERED_SECONDS
        while self.ledger.waiting and time.monotonic() < deadline:
            self.round(rg)
        self.ledger.close()


class Notes(Activity):
    """Messages that expire."""

    def begin(self, rg: railgun.Railgun) -> None:
        self._number = 0

    def round(self, rg: railgun.Railgun) -> None:
        names = [f"note-{self._number + step}" for step in range(_BATCH)]
        self._number += _BATCH
        self.publish_all(rg, [(f"{NOTES}.{crc32(name.encode()) % 20}", name) for name in names], ttl=_LIFE)

    def end(self, rg: railgun.Railgun) -> None:
        deadline = time.monotonic() + UNANSWERED_SECONDS
        while True:
            left = self.insist(lambda: rg.stream(NOTES).info(), "the info of the notes").state.messages
            if not left:
                return
            if time.monotonic() > deadline:
                self.faults.append(f"{left} notes are still there, long after their end")
                return
            time.sleep(0.5)


class PassingConsumers(Activity):
    """Consumers that are made, used once and deleted."""

    pause = 1.0

    def round(self, rg: railgun.Railgun) -> None:
        stream = rg.stream(KEYS)
        name = f"passing-{self.done}"
        consumer = self.insist(
            lambda: stream.create_consumer(
                name, deliver_policy="last_per_subject", filter_subject=f"{KEYS}.*"
            ),
            name,
        )
        for message in self.insist(lambda: consumer.fetch(5, wait=1.0), f"a fetch of {name}"):
            message.ack()
        self.insist(lambda: self._remove(stream, name), f"the end of {name}")
        self.done += 1

    @staticmethod
    def _remove(stream: railgun.Stream, name: str) -> None:
        try:
            stream.delete_consumer(name)
        except ApiError as error:
            if error.code != 404:  # an answer that got lost
                raise


def activities(bootstrap: str, prefix: str) -> list[Activity]:
    """Everything that goes on at once; the worker on jobs ends last."""
    ledger = Ledger()
    kinds = (Updates, JobPublisher, Notes, PassingConsumers, JobWorker)
    return [kind(bootstrap, prefix, ledger) for kind in kinds]
