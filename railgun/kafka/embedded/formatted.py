"""A freshly formatted data folder of the pinned Kafka, as its own tool leaves it: to run that tool takes a JVM of its own.

It is the result of ``StorageTool format --standalone`` with the settings of this package. A controller that finds another
port in its record of voters than it listens on corrects the record, as it does at every start on a new port. The folder's
id is part of that record, so every local broker has the same; the cluster's id is each one's own. A test compares all of
it with what the tool writes.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

from railgun.kafka.embedded.server_properties import NODE_ID

DIRECTORY_ID: Final = "0MejNq9rRQqc0lVS7j5QqA"

#: The levels of Kafka's features.
BOOTSTRAP: Final = base64.b64decode(
    """
    AAAAAAAAAAAAAABHAAAAAALmwYxaACAAAAAAAAABoeQHEGoAAAGh5AcQav//////////////////AAAAASoAAAAIAAAAAxYAAAAA
    AAAAAAAAAAAAAAAAAAAAAQAAAPEAAAAAAt2kLzMAAAAAAAUAAAGh5AcRFwAAAaHkBxEX//////////////////8AAAAGOgAAAAEu
    AQwAEW1ldGFkYXRhLnZlcnNpb24AHgAAWgAAAgFOAQwAIWVsaWdpYmxlLmxlYWRlci5yZXBsaWNhcy52ZXJzaW9uAAEAADQAAAQB
    KAEMAA5ncm91cC52ZXJzaW9uAAEAADQAAAYBKAEMAA5zaGFyZS52ZXJzaW9uAAEAADgAAAgBLAEMABBzdHJlYW1zLnZlcnNpb24A
    AQAAQAAACgE0AQwAFHRyYW5zYWN0aW9uLnZlcnNpb24AAgAAAAAAAAAAAAcAAAA/AAAAAALbG3erACAAAAAAAAABoeQHER4AAAGh
    5AcRHv//////////////////AAAAARoAAAAIAAAABAYAAAAA
    """
)

#: The voters of the controllers' quorum: this node alone.
VOTERS: Final = base64.b64decode(
    """
    AAAAAAAAAAAAAACaAAAAAAINLPRtACAAAAACAAABoeQHETcAAAGh5AcRN///////////////////AAAAAyoAAAAIAAAAAxYAAAAA
    AaHkBxEwAAAeAAACCAAAAAUKAAAAAQAAggEAAAQIAAAABm4AAAIAAAAB0MejNq9rRQqc0lVS7j5QqAILQ09OVFJPTExFUgoxMjcu
    MC4wLjGHiwAAAAABAAAAAAAAAAAAAAADAAAAPwAAAAACiKDyEgAgAAAAAAAAAaHkBxFDAAABoeQHEUP//////////////////wAA
    AAEaAAAACAAAAAQGAAAAAA==
    """
)


def write_formatted(folder: Path, cluster_id: str) -> None:
    """Make the folder, which must not exist. Raises OSError."""
    metadata = folder / "__cluster_metadata-0"
    metadata.mkdir(parents=True)
    (folder / "bootstrap.checkpoint").write_bytes(BOOTSTRAP)
    (metadata / "00000000000000000000-0000000000.checkpoint").write_bytes(VOTERS)
    (folder / "meta.properties").write_text(
        f"version=1\nnode.id={NODE_ID}\ncluster.id={cluster_id}\ndirectory.id={DIRECTORY_ID}\n",
        encoding="utf-8",
    )
