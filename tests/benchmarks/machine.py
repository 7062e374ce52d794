"""Where a run took place: machine and versions. No host name, no user, no path."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import confluent_kafka
import psutil

from tests.benchmarks.nats_server import binary

_PACKAGES = ("railgun", "confluent-kafka", "faust-streaming", "aiokafka", "rocksdict", "fastavro", "nats-py")


def machine() -> dict[str, str]:
    """Processor, cores, memory, system."""
    return {
        "processor": _processor(),
        "cores": f"{psutil.cpu_count()} cores",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    """Of everything that was measured."""
    from railgun.kafka.embedded.pinned import KAFKA_VERSION

    found = {"Python": platform.python_version(), "Kafka": KAFKA_VERSION}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # a checkout that is not installed
            continue
    found["librdkafka"] = confluent_kafka.libversion()[0]
    said = subprocess.run(
        [str(binary()), "--version"], capture_output=True, text=True, check=True, timeout=10
    )
    found["nats-server"] = said.stdout.split()[-1].removeprefix("v")
    return found


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
