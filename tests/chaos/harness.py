"""The cluster that is tormented: an own broker, two workers, publishers; and the torments."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient

import railgun
from railgun.errors import ApiError, RailgunError, RequestTimeout
from railgun.kafka.embedded import EmbeddedBroker
from railgun.model.names import Names
from tests.chaos.audit import differences, info_differences, read_log
from tests.chaos.publisher import Publisher
from tests.support.waiting import wait_until
from tests.support.worker_process import WorkerProcess

PREFIX = "chaos"
SESSION = 6.0  # seconds after which the group gives a silent worker up
STREAMS = {"ORDERS": -1, "PAYMENTS": -1, "EVENTS": -1, "NEWEST": 50}  # name to max_msgs
WINDOW = 1_200.0  # longer than any publisher goes on with one id
TAKEOVER = 150.0  # a bound, not an expectation: the machine may be busy


class ChaosCluster:
    """Broker, workers and the acks of everything that was ever published."""

    def __init__(self, folder: Path) -> None:
        self.broker = EmbeddedBroker(folder / "broker")
        self._folder = folder
        self.workers: list[WorkerProcess] = []
        self.acked: dict[str, dict[str, int]] = {name: {} for name in STREAMS}
        self.broken = ""  # why no further round makes sense
        self.names = Names(PREFIX)

    def start(self) -> None:
        self.broker.start()
        for number in range(2):
            worker = WorkerProcess(self._folder / f"worker-{number}", self.broker.bootstrap, prefix=PREFIX)
            self.workers.append(worker.start())
        self.workers[0].await_ready(90.0)
        with self.connect() as rg:
            for name, max_msgs in STREAMS.items():
                rg.create_stream(name, subjects=[f"{name}.*"], max_msgs=max_msgs, duplicate_window=WINDOW)

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()
        self.broker.stop()

    def connect(self, timeout: float = 20.0) -> railgun.Railgun:
        return railgun.connect(self.broker.bootstrap, prefix=PREFIX, timeout=timeout)

    # ------------------------------------------------------------ one round

    def round(self, number: int, action: Callable[[random.Random], str], dice: random.Random) -> str:
        """Publish, torment, publish on until every stream answers again, then stop publishing. What was done."""
        self._muster()
        publishers = [Publisher(self.broker.bootstrap, PREFIX, name, f"r{number}") for name in STREAMS]
        for publisher in publishers:
            publisher.start()
        try:
            _progress(publishers, 1, "the publishers began")
            done = action(dice)
            _progress(publishers, 3, f"every stream answers again after: {done}")
        finally:
            for publisher in publishers:
                publisher._ending.set()
        for publisher in publishers:
            publisher.finish(TAKEOVER + 60)
            self.acked[publisher.stream] |= publisher.acked
        return done

    def _muster(self) -> None:
        """Both workers are members. One that ended for want of a broker is started again, as a supervisor would."""

        def complete() -> bool:
            for worker in self.workers:
                if not worker.alive:
                    worker.start()
            return rg.connection.transport.workers() == len(self.workers)

        with self.connect() as rg:
            wait_until(complete, "both workers are members of the group", TAKEOVER)

    def audit(self) -> list[str]:
        """Everything that differs between acks, logs and infos."""
        wrong: list[str] = []
        with self.connect() as rg:
            for name, max_msgs in STREAMS.items():
                content = read_log(self.broker.bootstrap, self.names.log(name))
                found = differences(content, self.acked[name], whole=max_msgs < 0)
                found += info_differences(rg.stream(name).info(), content, max_msgs)
                wrong += [f"{name}: {one}" for one in found]
        return wrong

    def infos(self) -> dict[str, object]:
        with self.connect() as rg:
            return {name: rg.stream(name).info(subjects=">", deleted=True) for name in STREAMS}

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
        number, seconds = dice.randrange(2), SESSION + dice.uniform(1.0, 6.0)
        self.workers[number].signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)  # the torment itself: silence beyond the session timeout
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

    def delete_log(self, dice: random.Random) -> str:
        """A stream loses its log: it alone may fail, and it can be deleted and made again."""
        name = f"VICTIM{dice.randrange(1_000_000)}"
        with self.connect() as rg:
            rg.create_stream(name, subjects=[f"{name}.*"])
            rg.publish(f"{name}.a", b"before")
            admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
            admin.delete_topics([self.names.log(name)])[self.names.log(name)].result(30)
            wait_until(lambda: _is_refused(rg, name), f"publishes to {name} are refused", TAKEOVER)
            rg.delete_stream(name)
            rg.create_stream(name, subjects=[f"{name}.*"])
            ack = rg.publish(f"{name}.a", b"after")
            assert ack.sequence == 1, f"the new {name} begins with {ack.sequence}"
            rg.delete_stream(name)
        return f"deletion of the log of {name}"

    @staticmethod
    def _wait_a_while(dice: random.Random, at_most: float) -> None:
        time.sleep(dice.uniform(0.0, at_most))  # part of the torment: how long the worker is away

    @property
    def torments(self) -> list[Callable[[random.Random], str]]:
        return [
            self.kill_worker,
            self.freeze_worker,
            self.stop_worker,
            self.lose_disk,
            self.restart_broker,
            self.delete_log,
        ]


def _progress(publishers: list[Publisher], batches: int, what: str) -> None:
    """Wait until each publisher has got some more batches through."""
    wanted = {publisher: len(publisher.acked) + batches * 20 for publisher in publishers}

    def reached() -> bool:
        for publisher in publishers:
            if publisher.failure is not None:
                raise publisher.failure
        return all(len(publisher.acked) >= count for publisher, count in wanted.items())

    wait_until(reached, what, TAKEOVER)


def _is_refused(rg: railgun.Railgun, name: str) -> bool:
    try:
        rg.publish(f"{name}.a", b"lost", timeout=5.0)
    except RequestTimeout:
        return False
    except ApiError as error:
        return error.code == 503
    except RailgunError:
        return False
    return False
