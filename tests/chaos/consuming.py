"""The cluster under chaos that is worked on: a work queue, a stream with limits, and three clients that compete."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from railgun.model.consumer_info import ConsumerInfo
from tests.chaos import audit, consumer_audit, journal
from tests.chaos.client import Settings
from tests.chaos.client_process import ClientProcess
from tests.chaos.cluster import PREFIX, SESSION, TAKEOVER, Torment, TormentedCluster
from tests.chaos.rounds import SEED
from tests.support.waiting import wait_until

QUEUE, STREAM = "JOBS", "ORDERS"
ACK_WAIT = 2.0
CONSUMERS: dict[tuple[str, str], dict[str, Any]] = {
    (QUEUE, "WORK"): {},
    (STREAM, "SHARED"): {},
    (STREAM, "TURNS"): {"max_ack_pending_per_subject": 1},
}
CLIENTS = 3


class ConsumingCluster(TormentedCluster):
    """As its base; clients are hurt all the while, whatever else happens."""

    pause = 0.5  # a double ack of each message takes longer than its publish
    silence = (1.0, SESSION + 2.0)  # shorter than a session: the worker goes on as the owner

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {QUEUE: {"retention": "workqueue"}, STREAM: {}})
        self.clients: list[ClientProcess] = []

    def start(self) -> None:
        super().start()
        with self.connect() as rg:
            for (stream, name), fields in CONSUMERS.items():
                rg.stream(stream).create_consumer(name, ack_wait=ACK_WAIT, **fields)
        for number in range(CLIENTS):
            settings = Settings(
                self.broker.bootstrap, PREFIX, list(CONSUMERS), seed=f"{SEED} client {number}", refused=0.03
            )
            self.clients.append(ClientProcess(self.folder / f"client-{number}", settings))

    def stop(self) -> None:
        for client in self.clients:
            client.stop()
        super().stop()

    def last_lines(self) -> str:
        said = [f"--- client {at}\n{client.last_lines()}" for at, client in enumerate(self.clients)]
        return "\n".join([super().last_lines(), *said])

    # ------------------------------------------------------------ one round

    def round(self, number: int, action: Torment, dice: random.Random) -> str:
        """As :meth:`torment`, with clients that are hurt; then all is worked off."""
        self.muster()
        for client in self.clients:
            if not client.alive:
                client.start()
        with self._hurting_clients(random.Random(dice.random())) as hits:
            done = self.torment(number, action, dice)
        done = ", ".join([done, *hits])
        self._await_all_done(done)
        assert all(client.alive for client in self.clients), f"a client ended by itself after: {done}"
        return done

    @contextmanager
    def _hurting_clients(self, dice: random.Random) -> Iterator[list[str]]:
        """What was done to them is in the list afterwards. Which client suffers what is in the dice, not how often."""
        hits: list[str] = []
        failures: list[BaseException] = []
        ending = threading.Event()

        def hurt() -> None:
            try:
                while not ending.wait(dice.uniform(0.3, 1.5)):
                    number = dice.randrange(CLIENTS)
                    client = self.clients[number]
                    torment = dice.choice([client.kill, client.freeze, client.cut, client.leave])
                    torment(dice)
                    hits.append(f"{torment.__name__} of client {number}")
            except BaseException as error:  # noqa: BLE001 - raised again below
                failures.append(error)

        thread = threading.Thread(target=hurt, name="hurting clients")
        thread.start()
        try:
            yield hits
        finally:
            ending.set()
            thread.join()
        for failure in failures:
            raise failure

    def _await_all_done(self, after: str) -> None:
        """Until every message is delivered and confirmed. The last look at each consumer bounds what may follow."""
        with self.connect() as rg:

            def all_done() -> bool:
                infos = [rg.stream(stream).consumer(name).info() for stream, name in CONSUMERS]
                return all(info.num_pending == 0 and info.num_ack_pending == 0 for info in infos)

            wait_until(all_done, f"everything is confirmed after: {after}", TAKEOVER, pause=0.2)

    def spare_workers(self, dice: random.Random) -> str:
        """Only clients are hurt."""
        seconds = dice.uniform(4.0, 7.0)
        time.sleep(seconds)  # the torment goes on beside this
        return f"{seconds:.1f} s without harm to the workers"

    @property
    def torments(self) -> list[Torment]:
        return [*super().torments, self.spare_workers]

    # ------------------------------------------------------------ what came of it

    def audit(self) -> list[str]:
        """Everything that differs between acks, logs, journals and infos."""
        wrong: list[str] = []
        ends = sum(client.ends for client in self.clients)
        with self.connect() as rg:
            for name in self.streams:
                content = audit.read_log(self.broker.bootstrap, self.names.log(name))
                info, found = rg.stream(name).info(), []
                if name != QUEUE:
                    found += audit.info_differences(info, content, max_msgs=-1)
                elif info.state.messages:
                    found.append(f"{info.state.messages} messages are left")
                if (
                    name != QUEUE or content.sequences
                ):  # the log of a queue that is empty may be trimmed to its end
                    found += audit.differences(content, self.acked[name], whole=name != QUEUE)
                wrong += [f"{name}: {one}" for one in found]
            entries = journal.read(client.journal for client in self.clients)
            for (stream, name), fields in CONSUMERS.items():
                tag = f"{stream}/{name}"
                found = consumer_audit.differences(
                    [entry for entry in entries if entry.consumer == tag],
                    self.acked[stream],
                    ends=ends,
                    in_turn="max_ack_pending_per_subject" in fields,
                )
                consumer = rg.stream(stream).consumer(name).info()
                found += consumer_audit.info_differences(consumer, max(self.acked[stream].values()))
                wrong += [f"{tag}: {one}" for one in found]
        return wrong

    def infos(self) -> dict[str, ConsumerInfo]:
        with self.connect() as rg:
            return {f"{stream}/{name}": rg.stream(stream).consumer(name).info() for stream, name in CONSUMERS}
