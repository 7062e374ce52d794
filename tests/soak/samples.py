"""What a cluster costs at a moment: table entries, changelog, logs, memory, and how long a restore takes."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from pathlib import Path

from railgun.kafka.records import PartitionReader
from railgun.kafka.settings import KafkaSettings
from railgun.state.restore import restore
from railgun.state.table import Changes, MemoryTable, Reached
from tests.chaos.audit import read_log
from tests.soak.cluster import STREAMS, SoakCluster
from tests.support.worker_process import PARTITIONS

Sample = dict[str, float]  # by the name of what was measured; "seconds" since the beginning
_MB = 1024 * 1024


class _Table(MemoryTable):
    """A table that follows a changelog, as a worker with an empty disk does."""

    position = 0

    def apply(self, changes: Changes, *_: object, reached: Reached | None = None) -> None:  # type: ignore[override]
        super().apply(changes)

    def __len__(self) -> int:
        return len(self._entries)


def take(cluster: SoakCluster, seconds: float) -> Sample:
    """Measure everything once."""
    sample: Sample = {"seconds": seconds}
    entries, records, began = 0, 0, time.monotonic()
    kafka = KafkaSettings(cluster.broker.bootstrap)
    for shard in range(PARTITIONS):
        table = _Table()
        with PartitionReader(kafka, cluster.names.changelog, shard) as reader:
            records += restore(table, reader.batches(0, lambda: False), end=0)
        sample[f"table entries of shard {shard}"] = len(table)
        entries += len(table)
    sample["restore, s"] = time.monotonic() - began
    sample["table entries"] = entries
    sample["changelog records"] = records
    sample["changelog on disk, MB"] = _on_disk(cluster, cluster.names.changelog, PARTITIONS) / _MB
    sample |= _logs(cluster)
    alive = [worker.pid for worker in cluster.workers if worker.alive]
    sample["memory of a worker, MB"] = max((_memory(pid) for pid in alive), default=0.0)
    return sample


def _logs(cluster: SoakCluster) -> Sample:
    """How many messages each log still holds for a reader of the topic, live or not, and its size on disk."""
    sample: Sample = {}
    for stream in STREAMS:
        topic = cluster.names.log(stream)
        sample[f"log of {stream}, records"] = len(read_log(cluster.broker.bootstrap, topic).sequences)
        sample[f"log of {stream}, MB"] = _on_disk(cluster, topic, 1) / _MB
    return sample


def _on_disk(cluster: SoakCluster, topic: str, partitions: int) -> int:
    folders = [cluster.broker.data_dir / "kafka" / f"{topic}-{number}" for number in range(partitions)]
    size = 0
    for folder in folders:
        for file in folder.glob("*.log"):
            try:
                size += file.stat().st_size
            except FileNotFoundError:  # cleaned just now
                continue
    return size


def _memory(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except FileNotFoundError:  # it ended just now
        return 0.0
    return float(status.partition("VmRSS:")[2].split()[0]) / 1024


def write(samples: Sequence[Sample], file: Path) -> None:
    """All samples as CSV."""
    with file.open("w", newline="", encoding="utf-8") as out:
        table = csv.DictWriter(out, fieldnames=list(samples[0]))
        table.writeheader()
        table.writerows(samples)
