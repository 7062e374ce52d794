"""The cluster under chaos that holds a bucket: clients write and read the same keys, others watch, one reads through a cache."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import railgun
from tests.chaos.buckets.key_user import CacheUser, KeyUser
from tests.chaos.buckets.linearizability import Call, explain
from tests.chaos.cluster import PREFIX, TAKEOVER, Torment, TormentedCluster
from tests.chaos.publisher import Publisher
from tests.chaos.rounds import SEED
from tests.support.waiting import wait_until

BUCKET = "KEYS"
HISTORY = 64  # more than a watcher may be behind, so that it must be given every write
USERS, KEYS, WATCHERS = 4, 3, 2


class Watcher(threading.Thread):
    """A watch of the whole bucket that is never opened again. ``seen``: every entry, in the order in which it came."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="watcher", daemon=True)
        self.seen: list[railgun.Entry] = []
        self.failure: BaseException | None = None
        self._address = bootstrap
        self._watch: railgun.Watch | None = None
        self._open = threading.Event()

    def begin(self) -> None:
        self.start()
        assert self._open.wait(TAKEOVER), f"no watch within {TAKEOVER:.0f} s: {self.failure!r}"

    def finish(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self.join(TAKEOVER)
        if self.failure is not None:
            raise self.failure
        assert not self.is_alive(), f"a watcher did not end within {TAKEOVER:.0f} s"

    def run(self) -> None:
        try:
            with (
                railgun.connect(self._address, prefix=PREFIX, timeout=20.0) as rg,
                rg.bucket(BUCKET).watch_all() as watch,
            ):
                self._watch = watch
                self._open.set()
                self.seen.extend(entry for entry in watch if entry is not None)
        except BaseException as error:  # noqa: BLE001 - raised again by finish
            self.failure = error


class BucketCluster(TormentedCluster):
    """As its base, with one bucket. Every round has keys of its own."""

    pause = 0.05

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {})
        self.calls: dict[str, list[Call]] = {}  # of the last round, by key
        self.stale: list[str] = []
        self.from_cache = 0
        self._watchers: list[Watcher] = []

    def start(self) -> None:
        super().start()
        with self.connect() as rg:
            rg.create_bucket(BUCKET, history=HISTORY)
        self._watchers = [Watcher(self.broker.bootstrap) for _ in range(WATCHERS)]
        for watcher in self._watchers:
            watcher.begin()

    def stop(self) -> None:
        try:
            for watcher in self._watchers:
                watcher.finish()
        finally:
            super().stop()

    # ------------------------------------------------------------ one round

    def publishers(self, number: int) -> Sequence[Publisher]:
        address = self.broker.bootstrap, PREFIX, BUCKET
        keys = [f"r{number}-k{key}" for key in range(KEYS)]
        users = [
            KeyUser(*address, keys, f"r{number}u{user}", f"{SEED} user {number} {user}", pause=self.pause)
            for user in range(USERS)
        ]
        return [*users, CacheUser(*address, f"r{number}", pause=self.pause)]

    def finished(self, publisher: Publisher) -> None:
        if isinstance(publisher, CacheUser):
            self.stale += publisher.stale
            self.from_cache += publisher.from_cache
        elif isinstance(publisher, KeyUser):
            for key, calls in publisher.calls.items():
                self.calls.setdefault(key, []).extend(calls)

    def round(self, number: int, action: Torment, dice: random.Random) -> str:
        self.muster()
        self.calls = {}
        return self.torment(number, action, dice)

    # ------------------------------------------------------------ what came of it

    def audit(self) -> list[str]:
        """Everything that a bucket must not do."""
        wrong = [f"{key}: {line}" for key, calls in self.calls.items() for line in explain(calls)]
        assert self.from_cache, "the cache never answered"
        return [*wrong, *self.stale, *self._missed()]

    def _missed(self) -> list[str]:
        """What the watchers did not see, or saw in another order."""
        with self.connect() as rg:
            bucket = rg.bucket(BUCKET)
            stored = {
                (key, entry.revision, entry.operation) for key in self.calls for entry in bucket.history(key)
            }
        for watcher in self._watchers:
            self._await_all(watcher, stored)
        return [line for watcher in self._watchers for line in _disorder(watcher.seen)]

    def _await_all(self, watcher: Watcher, stored: set[tuple[str, int, str]]) -> None:
        def complete() -> bool:
            if watcher.failure is not None:
                raise watcher.failure
            return stored <= {(entry.key, entry.revision, entry.operation) for entry in watcher.seen}

        wait_until(complete, "a watcher has seen everything that is stored", TAKEOVER, pause=0.3)

    def infos(self) -> dict[str, object]:
        """What the owner says of the bucket, and every value of it."""
        with self.connect() as rg:
            bucket = rg.bucket(BUCKET)
            values = {
                key: [(one.revision, one.value) for one in bucket.history(key)]
                for key in sorted(bucket.keys())
            }
            state = replace(rg.stream(f"KV_{BUCKET}").info().state, consumer_count=0)  # watches come and go
            return {"state": state, "values": values}


def _disorder(seen: Sequence[railgun.Entry]) -> list[str]:
    return [
        f"{later.key}: revision {later.revision} was seen after {earlier.revision}"
        for earlier, later in pairwise(seen)
        if later.revision <= earlier.revision
    ]
