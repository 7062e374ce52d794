"""The cluster of a soak: a broker of its own, two workers that take over from each other every minute, few live data.

Kafka keeps removed records for a day and segments for a week. Here it is minutes, so that half an hour shows what a month
would. That is safe for the workers' stores only because each worker is replaced, with an empty disk, before tombstones go.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from railgun.client.operations.shards import ping
from tests.chaos.cluster import TAKEOVER, TormentedCluster
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS

TAKEOVER_EVERY: Final = 60.0
_TOMBSTONES_MS: Final = 180_000  # longer than a worker lives: twice the time between takeovers
_SEGMENT_MS: Final = 60_000
_WINDOW: Final = 30.0

KEYS: Final = "KEYS"  # a fixed set of keys, updated for ever
JOBS: Final = "JOBS"  # a work queue, with one message that nobody takes
NOTES: Final = "NOTES"  # messages that live for seconds
STREAMS: Final[dict[str, dict[str, Any]]] = {
    KEYS: {"max_msgs_per_subject": 1, "duplicate_window": _WINDOW},
    JOBS: {"retention": "workqueue", "duplicate_window": _WINDOW},
    NOTES: {"allow_msg_ttl": True, "duplicate_window": _WINDOW},
}


class SoakCluster(TormentedCluster):
    """Broker, workers and streams of a soak."""

    def __init__(self, folder: Path) -> None:
        often = {"log.retention.check.interval.ms": "20000", "log.cleaner.backoff.ms": "5000"}
        super().__init__(folder, STREAMS, often)
        self._takeovers = 0

    def start(self) -> None:
        super().start()
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        short = {"segment.ms": _SEGMENT_MS, "file.delete.delay.ms": 1_000}
        settings = {self.names.log(stream): short for stream in STREAMS}
        settings[self.names.changelog] = {**short, "delete.retention.ms": _TOMBSTONES_MS}
        for topic, values in settings.items():
            entries = [
                ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
                for name, value in values.items()
            ]
            resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
            admin.incremental_alter_configs([resource])[resource].result(30)

    def take_over(self) -> str:
        """Replace one worker by another with an empty disk, by turns after ``kill -9`` and in good order. What was done."""
        number, orderly = self._takeovers % 2, self._takeovers // 2 % 2 == 1
        self._takeovers += 1
        worker = self.workers[number]
        if orderly:
            code = worker.stop()
            assert code == 0, f"worker {number} ended with {code} after SIGTERM:\n{worker.last_lines()}"
        else:
            worker.kill()
        worker.log.unlink(missing_ok=True)
        worker.wipe()
        worker.start()
        return f"{'SIGTERM' if orderly else 'kill -9'} of worker {number}"

    def await_answers(self) -> None:
        """Wait until every shard answers."""
        with self.connect(timeout=TAKEOVER) as rg:
            for shard in range(PARTITIONS):
                rg.call(ping(shard), timeout=TAKEOVER)

    def await_members(self) -> None:
        """Wait until both workers are members of the group; one that ended by itself fails the run."""

        def complete() -> bool:
            for number, worker in enumerate(self.workers):
                assert worker.alive, f"worker {number} ended by itself:\n{worker.last_lines()}"
            return rg.connection.transport.workers() == len(self.workers)

        with self.connect() as rg:
            wait_until(complete, "both workers are members of the group", TAKEOVER)
