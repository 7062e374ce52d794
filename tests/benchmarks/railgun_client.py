"""railgun's facade with the few verbs that rows need; the same verbs as :class:`~tests.benchmarks.nats_server.NatsClient`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import railgun
from tests.benchmarks.nats_server import always_so_many, in_waves
from tests.benchmarks.railgun_consuming import RailgunConsumers
from tests.benchmarks.scale import AT_ONCE

T = TypeVar("T")
_FLUSH_SECONDS = 300.0


class RailgunClient:
    """One connection: publishes through the sync facade, many gets at once through the async one."""

    def __init__(self, connection: railgun.Railgun) -> None:
        self.sync = connection
        self.consumers = RailgunConsumers(connection)
        self.aio = railgun.AsyncRailgun(connection.connection)
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self._runner.close()
        self.sync.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to its end, on the client's own loop."""
        return self._runner.run(work)

    def create_stream(
        self, name: str, subjects: Sequence[str], *, duplicate_window: float = 120.0, **allowed: bool
    ) -> None:
        config = railgun.StreamConfig(
            name=name, subjects=list(subjects), duplicate_window=duplicate_window, **allowed
        )
        self.sync.create_stream(config)

    def publish_all(self, subjects: Sequence[str], payload: bytes, ids: Sequence[str] | None = None) -> None:
        """Pipelined; returns when every ack was received and looked at."""
        send = self.sync.publish_soon
        if ids is None:
            futures = [send(subject, payload) for subject in subjects]
        else:
            futures = [
                send(subject, payload, msg_id=msg_id) for subject, msg_id in zip(subjects, ids, strict=True)
            ]
        self._acked(futures)

    def publish_with_headers(
        self, subjects: Sequence[str], payload: bytes, headers: Sequence[dict[str, str]]
    ) -> None:
        send = self.sync.publish_soon
        self._acked(
            [send(subject, payload, headers=given) for subject, given in zip(subjects, headers, strict=True)]
        )

    def publish_expecting(
        self, subjects: Sequence[str], payload: bytes, last_sequences: Sequence[int]
    ) -> None:
        send = self.sync.publish_soon
        self._acked(
            [
                send(subject, payload, expected_last_subject_sequence=last)
                for subject, last in zip(subjects, last_sequences, strict=True)
            ]
        )

    def _acked(self, futures: Sequence[railgun.PublishFuture]) -> None:
        self.sync.flush(_FLUSH_SECONDS)
        for future in futures:
            future.result()

    def publish_batches(self, subject: str, payload: bytes, size: int, batches: int, at_once: int) -> None:
        async def one(_: int) -> None:
            async with self.aio.batch() as batch:
                for _ in range(size):
                    batch.add(subject, payload)

        self.run(always_so_many(one, range(batches), at_once))

    def publish(self, subject: str, payload: bytes) -> None:
        self.sync.publish(subject, payload)

    def publish_one_by_one(self, subject: str, payload: bytes, count: int) -> list[float]:
        """Seconds of each publish."""
        taken = []
        for _ in range(count):
            begin = time.perf_counter()
            self.sync.publish(subject, payload)
            taken.append(time.perf_counter() - begin)
        return taken

    def get(self, stream: str, sequences: Sequence[int], *, at_once: int = AT_ONCE) -> None:
        self.run(in_waves(self.aio.stream(stream).get, sequences, at_once))

    def read(self, stream: str, subject: str, count: int) -> None:
        """So many messages of the subject, from the first on."""
        found = sum(1 for _ in self.sync.stream(stream).read(subject, limit=count))
        if found != count:
            raise RuntimeError(f"{found} of {count} messages were read")

    def get_last(self, stream: str, subjects: Sequence[str], *, at_once: int = AT_ONCE) -> None:
        self.run(in_waves(self.aio.stream(stream).get_last, subjects, at_once))
