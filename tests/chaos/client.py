"""A client as a process of its own: ``python -m tests.chaos.client SETTINGS`` (JSON, see :class:`Settings`).

A thread for each consumer fetches and double-acks, and notes in the journal what it got and what was confirmed. SIGTERM:
finish and leave. SIGUSR1: every TCP connection of the process is cut. As long as it may live it does not give up on a
double ack: no answer in time means unknown, and the ack is sent again (EXO-05).
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import socket
import stat
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import railgun
from railgun.errors import RailgunError
from tests.chaos.journal import ACKING, CONFIRMED, GOT, Journal

BEGUN = "begun"  # said once signals are handled
PAUSE = 0.2  # seconds after trouble


@dataclass(frozen=True)
class Settings:
    """What a client process is told."""

    bootstrap: str
    prefix: str
    consumers: list[tuple[str, str]]  # stream and name
    seed: str
    journal: str = ""
    batch: int = 8
    wait: float = 0.3  # seconds for a batch to fill
    timeout: float = 3.0  # seconds until a call has failed
    refused: float = 0.0  # how many of the first deliveries are refused with a nak
    crashes: float = 0.0  # how likely it kills itself right before a double ack, and right after one
    until_silent: bool = False  # ends once nothing came for a while

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self))


class Client:
    """Works on all its consumers until it is told to end, or kills itself."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._journal = Journal(Path(settings.journal))
        self._ending = threading.Event()

    def run(self) -> int:
        signal.signal(signal.SIGTERM, lambda *_: self._ending.set())
        signal.signal(signal.SIGUSR1, lambda *_: cut_connections())
        print(BEGUN, flush=True)
        with self._connect() as rg:
            threads = [
                threading.Thread(target=self._serve, args=(rg, stream, name), name=f"{stream}/{name}")
                for stream, name in self._settings.consumers
            ]
            for thread in threads:
                thread.start()
            # Signals are handled in this thread, and only while it is awake.
            while any(thread.is_alive() for thread in threads):
                time.sleep(0.02)
        return 0

    def _connect(self) -> railgun.Railgun:
        while True:
            try:
                return railgun.connect(
                    self._settings.bootstrap, prefix=self._settings.prefix, timeout=self._settings.timeout
                )
            except RailgunError as error:  # the broker may be away just now
                print(f"connect: {error!r}", flush=True)
                if self._ending.wait(PAUSE):
                    sys.exit(0)

    def _serve(self, rg: railgun.Railgun, stream: str, name: str) -> None:
        try:
            self._work(rg, stream, name)
        except BaseException:  # noqa: BLE001 - whatever it is, the process must not go on without this thread
            traceback.print_exc()
            os._exit(3)

    def _work(self, rg: railgun.Railgun, stream: str, name: str) -> None:
        settings, tag = self._settings, f"{stream}/{name}"
        dice = random.Random(f"{settings.seed} {tag}")
        consumer = rg.stream(stream).consumer(name)
        while not self._ending.is_set():
            try:
                messages = consumer.fetch(settings.batch, settings.wait)
            except RailgunError as error:
                print(f"{tag}: fetch: {error!r}", flush=True)
                self._ending.wait(PAUSE)
                continue
            if not messages and settings.until_silent:
                return
            for message in messages:
                self._journal.note(GOT, tag, message)
            for message in messages:
                if message.deliveries == 1 and dice.random() < settings.refused:
                    message.nak(delay=0.1)
                    continue
                self._maybe_crash(dice)
                self._journal.note(ACKING, tag, message)
                if not self._confirm(tag, message):
                    return
                self._journal.note(CONFIRMED, tag, message)
                self._maybe_crash(dice)
            if messages:
                self._look(tag, consumer)

    def _confirm(self, tag: str, message: railgun.Message) -> bool:
        """Whether the ack was confirmed; False only if the process is to end, and nobody answers."""
        while True:
            try:
                message.ack_sync()
            except RailgunError as error:
                print(f"{tag}: ack_sync of {message.sequence}: {error!r}", flush=True)
                if self._ending.wait(PAUSE):
                    return False
            else:
                return True

    def _look(self, tag: str, consumer: railgun.Consumer) -> None:
        asked = time.monotonic_ns()
        try:
            info = consumer.info()
        except RailgunError as error:
            print(f"{tag}: info: {error!r}", flush=True)
        else:
            self._journal.looked(asked, tag, info.delivered.consumer_seq)

    def _maybe_crash(self, dice: random.Random) -> None:
        if dice.random() < self._settings.crashes:
            os.kill(os.getpid(), signal.SIGKILL)


def cut_connections() -> None:
    """Shut every TCP connection of this process down, under the feet of whoever uses it."""
    for number in range(3, 1024):
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6):
                    connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue  # no such file, or not connected


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    given["consumers"] = [(stream, name) for stream, name in given["consumers"]]
    sys.exit(Client(Settings(**given)).run())
