"""A cluster that is tormented: an own broker and two workers, publishers that never give up, and the torments of all."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import railgun
from railgun.kafka.embedded import EmbeddedBroker
from railgun.protocol.topics import Names
from tests.chaos.publisher import BATCH, Publisher
from tests.support.waiting import wait_until
from tests.support.worker_process import WorkerProcess

PREFIX = "chaos"
SESSION = 6.0  # seconds after which the group gives a silent worker up
WINDOW = 1_200.0  # longer than any publisher goes on with one id
TAKEOVER = 150.0  # a bound, not an expectation: the machine may be busy

Torment = Callable[[random.Random], str]
"""Does something bad; returns what."""


class TormentedCluster:
    """Broker, workers, streams, and the acks of everything that was ever published to them."""

    pause = 0.0  # seconds between two batches of a publisher
    silence = (SESSION + 1.0, SESSION + 6.0)  # how many seconds a frozen worker says nothing

    def __init__(
        self,
        folder: Path,
        streams: Mapping[str, Mapping[str, Any]],
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """``streams``: the configuration of each, by name; ``properties``: settings of the broker."""
        self.broker = EmbeddedBroker(folder / "broker", properties=properties)
        self.folder = folder
        self.streams = streams
        self.workers: list[WorkerProcess] = []
        self.acked: dict[str, dict[str, int]] = {name: {} for name in streams}
        self.broken = ""  # why no further round makes sense
        self.names = Names(PREFIX)

    def start(self) -> None:
        self.broker.start()
        for number in range(2):
            worker = WorkerProcess(self.folder / f"worker-{number}", self.broker.bootstrap, prefix=PREFIX)
            self.workers.append(worker.start())
        self.workers[0].await_ready(90.0)
        with self.connect() as rg:
            for name, fields in self.streams.items():
                usual = {"subjects": [f"{name}.*"], "duplicate_window": WINDOW}
                rg.create_stream(name, **{**usual, **fields})

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()
        self.broker.stop()

    def connect(self, timeout: float = 20.0) -> railgun.Railgun:
        return railgun.connect(self.broker.bootstrap, prefix=PREFIX, timeout=timeout)

    @contextmanager
    def attempt(self, where: str) -> Iterator[None]:
        """What fails in here says where it was and what the workers said last, and ends all further rounds."""
        print(f"chaos: {where}")
        self.broken = where
        try:
            yield
        except BaseException as error:
            error.add_note(f"chaos: {where}\n{self.last_lines()}")
            raise
        self.broken = ""

    def last_lines(self) -> str:
        return "\n".join(f"--- worker {at}\n{worker.last_lines()}" for at, worker in enumerate(self.workers))

    # ------------------------------------------------------------ one round

    def torment(self, number: int, action: Torment, dice: random.Random) -> str:
        """Publish, torment, publish on until every stream answers again, then stop publishing. What was done."""
        publishers = self.publishers(number)
        for publisher in publishers:
            publisher.start()
        try:
            _progress(publishers, 1, "the publishers began")
            done = action(dice)
            _progress(publishers, 3, f"every stream answers again after: {done}")
        finally:
            for publisher in publishers:
                publisher.end()
        for publisher in publishers:
            publisher.finish(TAKEOVER + 60)
            self.finished(publisher)
        return done

    def finished(self, publisher: Publisher) -> None:
        """Keep what it knows."""
        self.acked[publisher.stream] |= publisher.acked

    def publishers(self, number: int) -> Sequence[Publisher]:
        """Those of a round: one for each stream."""
        return [
            Publisher(self.broker.bootstrap, PREFIX, name, f"r{number}", pause=self.pause)
            for name in self.streams
        ]

    def muster(self) -> None:
        """Both workers are members. One that ended for want of a broker is started again, as a supervisor would."""

        def complete() -> bool:
            for worker in self.workers:
                if not worker.alive:
                    worker.start()
            return rg.connection.transport.workers() == len(self.workers)

        with self.connect() as rg:
            wait_until(complete, "both workers are members of the group", TAKEOVER)

    def restore_from_nothing(self) -> None:
        """Both workers lose their disks."""
        for worker in self.workers:
            worker.stop()
        for worker in self.workers:
            worker.wipe()
            worker.start()
        self.workers[0].await_ready(90.0)

    # ------------------------------------------------------------ torments

    def kill_worker(self, dice: random.Random) -> str:
        number = dice.randrange(2)
        self.workers[number].kill()
        self._wait_a_while(dice, 2.0)
        self.workers[number].start()
        return f"kill -9 of worker {number}"

    def freeze_worker(self, dice: random.Random) -> str:
        number, seconds = dice.randrange(2), dice.uniform(*self.silence)
        self.workers[number].signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)  # the torment itself
        finally:
            self.workers[number].signal(signal.SIGCONT)
        return f"SIGSTOP of worker {number} for {seconds:.1f} s"

    def stop_worker(self, dice: random.Random) -> str:
        number = dice.randrange(2)
        code = self.workers[number].stop()
        assert code == 0, (
            f"worker {number} ended with {code} after SIGTERM:\n{self.workers[number].last_lines()}"
        )
        self.workers[number].start()
        return f"SIGTERM of worker {number}"

    def lose_disk(self, dice: random.Random) -> str:
        number = dice.randrange(2)
        self.workers[number].kill()
        self.workers[number].wipe()
        self.workers[number].start()
        return f"kill -9 of worker {number} and the loss of its state folder"

    def restart_broker(self, dice: random.Random) -> str:
        if dice.random() < 0.5:
            self.broker.restart()
            return "restart of the broker"
        self.broker.kill()
        self.broker.start()
        return "kill -9 and start of the broker"

    @staticmethod
    def _wait_a_while(dice: random.Random, at_most: float) -> None:
        time.sleep(dice.uniform(0.0, at_most))  # part of the torment: how long the worker is away

    @property
    def torments(self) -> list[Torment]:
        return [self.kill_worker, self.freeze_worker, self.stop_worker, self.lose_disk, self.restart_broker]


def _progress(publishers: Sequence[Publisher], batches: int, what: str) -> None:
    """Wait until each publisher has got some more batches through."""
    wanted = {publisher: len(publisher.acked) + batches * BATCH for publisher in publishers}

    def reached() -> bool:
        for publisher in publishers:
            if publisher.failure is not None:
                raise publisher.failure
        return all(len(publisher.acked) >= count for publisher, count in wanted.items())

    wait_until(reached, what, TAKEOVER)
