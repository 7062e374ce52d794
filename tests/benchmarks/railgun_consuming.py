"""railgun's side of the consumer rows, through the sync facade."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from itertools import islice

import railgun
from tests.benchmarks.consuming import FETCH, IN_FLIGHT, PACE, PATIENCE, SILENCE, Wanted
from tests.support.waiting import wait_until


class RailgunConsumers:
    """See :class:`tests.benchmarks.consuming.Consumers`."""

    def __init__(self, connection: railgun.Railgun) -> None:
        self._railgun = connection

    def create(self, stream: str, name: str, wanted: Wanted = Wanted()) -> None:  # noqa: B008 - a value
        self._railgun.stream(stream).create_consumer(
            name,
            max_ack_pending=IN_FLIGHT,
            filter_subject=wanted.filter_subject,
            deliver_policy="new" if wanted.new_only else "all",
            deliver_subject=f"deliver.{name}" if wanted.push else None,
        )

    def delete(self, stream: str, name: str) -> None:
        self._railgun.stream(stream).delete_consumer(name)

    def fetch_and_ack(self, stream: str, name: str, count: int, batch: int = FETCH) -> None:
        consumer, taken = self._consumer(stream, name), 0
        while taken < count:
            messages = consumer.fetch(min(batch, count - taken), wait=PATIENCE)
            if not messages:
                raise RuntimeError(f"{taken} of {count} messages came")
            for message in messages:
                message.ack()
            taken += len(messages)
        _await_acked(consumer)

    def iterate_and_ack(self, stream: str, name: str, count: int) -> None:
        """``for message in consumer.messages()``: look at the payload, and ack."""
        consumer, size = self._consumer(stream, name), 0
        with closing(consumer.messages()) as messages:
            for message in islice(messages, count):
                size += len(message.payload)
                message.ack()
        _await_acked(consumer)

    def hold_and_ack(self, stream: str, name: str, count: int) -> None:
        consumer = self._consumer(stream, name)
        held: list[railgun.Message] = []
        while len(held) < count:
            messages = consumer.fetch(min(FETCH, count - len(held)), wait=PATIENCE)
            if not messages:
                raise RuntimeError(f"{len(held)} of {count} messages came")
            held += messages
        for message in held:
            message.ack()
        _await_acked(consumer)

    def handle(self, stream: str, name: str, count: int) -> None:
        consumer, taken, done = self._consumer(stream, name), 0, threading.Event()

        def handler(message: railgun.Message) -> None:
            nonlocal taken
            message.ack()
            taken += 1
            if taken == count:
                done.set()

        with consumer.subscribe(handler):
            if not done.wait(PATIENCE + count / 1_000):
                raise RuntimeError(f"{taken} of {count} messages came")
            _await_acked(consumer)

    def handled_one_by_one(
        self, stream: str, name: str, subject: str, payload: bytes, count: int
    ) -> list[float]:
        handled: list[float] = []
        called = threading.Event()

        def handler(message: railgun.Message) -> None:
            handled.append(time.perf_counter())
            called.set()
            message.ack()

        taken = []
        with self._consumer(stream, name).subscribe(handler):
            for _ in range(count):
                called.clear()
                begin = time.perf_counter()
                self._railgun.publish(subject, payload)
                if not called.wait(PATIENCE):
                    raise RuntimeError("the handler was not called")
                taken.append(handled[-1] - begin)
                time.sleep(PACE)
        return taken

    def take_until_silence(self, stream: str, name: str) -> tuple[int, float]:
        consumer, taken, last = self._consumer(stream, name), 0, time.monotonic()
        while messages := consumer.fetch(FETCH, wait=SILENCE):
            for message in messages:
                message.ack()
            taken, last = taken + len(messages), time.monotonic()
        return taken, last

    def _consumer(self, stream: str, name: str) -> railgun.Consumer:
        return self._railgun.stream(stream).consumer(name)


def _await_acked(consumer: railgun.Consumer) -> None:
    wait_until(lambda: consumer.info().num_ack_pending == 0, "every ack has arrived", pause=0.002)
