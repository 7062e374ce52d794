"""A streaming query that hands its batches to a function, one after the other, and can be stopped at any moment.

The checkpoint names the offsets of a batch before the batch is begun. One that was interrupted, by Ctrl-C or ``kill -9``, comes
again with the same number and the same offsets; the function must therefore store a batch that comes twice once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from railgun import Railgun
from railgun.errors import ConfigError, ConnectionLost, RailgunError

Batch = Callable[[DataFrame, int], None]
#: Told how much is done, and of how much: offsets of the log, which are more than its messages.
Progress = Callable[[int, int], None]

_REGISTRY_TIMEOUT: Final = 30.0
_LOOK: Final = 0.1  # seconds between two reports of the progress


def run_batches(
    frame: DataFrame,
    batch: Batch,
    checkpoint: str,
    *,
    follow: bool = False,
    mode: str = "append",
    progress: Progress | None = None,
) -> None:
    """Hand over all batches that are there, or with ``follow`` also those that come, until Ctrl-C.

    Raises what the function raised, or RailgunError with what Spark says.
    """
    failures: list[BaseException] = []

    def guarded(rows: DataFrame, number: int) -> None:
        try:
            batch(rows, number)
        except BaseException as error:  # noqa: BLE001  it is raised below, whole
            failures.append(error)
            # Spark searches the whole text of what comes back to it, and overflows its stack on the traces of Java in it.
            raise RuntimeError(type(error).__name__) from None

    writer = frame.writeStream.foreachBatch(guarded).option("checkpointLocation", checkpoint).outputMode(mode)
    query = (
        writer.trigger(processingTime="500 milliseconds") if follow else writer.trigger(availableNow=True)
    ).start()
    try:
        while not query.awaitTermination(_LOOK):
            _tell(query, progress)
        _tell(query, progress)
    except StreamingQueryException as error:
        if failures:
            raise failures[0] from None
        raise RailgunError(f"Spark cannot go on with {checkpoint}: {first_line(error)}") from error
    finally:
        query.stop()


def first_line(error: BaseException) -> str:
    """What Spark says, without the traces that it says it with."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)


class SameStream:
    """The stream of a name as it was when a job began, and whether it still is that one.

    The registry tells it, which Kafka keeps: so batches go on while no worker runs, as during a restart.
    """

    def __init__(self, rg: Railgun, stream: str) -> None:
        """Raises StreamNotFound."""
        self._rg, self._stream = rg, stream
        self._incarnation = self._registered()
        self.info: Final = rg.stream(stream).info()
        self.check()  # so that both are of one stream

    def check(self) -> None:
        """Raises ConfigError if the stream of this name is another one by now, and StreamNotFound."""
        now = self._registered()
        if now is None:
            self._rg.stream(self._stream).info()
        if now is None or now != self._incarnation:
            raise ConfigError(
                f"the stream {self._stream} was made anew while it was read: name another folder"
            )

    def _registered(self) -> int | None:
        """The number of the stream that has the name now. Raises ConnectionLost where the registry cannot be read to its end."""
        connection = self._rg.connection
        if not connection.transport.sync_registry(_REGISTRY_TIMEOUT):
            raise ConnectionLost(f"the registry could not be read within {_REGISTRY_TIMEOUT:.0f} seconds")
        known = connection.stream(self._stream)
        return None if known is None else known.incarnation


def _tell(query: Any, progress: Progress | None) -> None:
    told = query.lastProgress if progress is not None else None
    if told is None or progress is None:
        return
    source = json.loads(told.json)["sources"][0]
    start, end, latest = (_offset(source.get(name)) for name in ("startOffset", "endOffset", "latestOffset"))
    progress(max(end, start), max(latest, end))


def _offset(told: Any) -> int:
    """The offset of the one partition; 0 where none is told."""
    topics = json.loads(told) if isinstance(told, str) else told
    if not topics:
        return 0
    (partitions,) = topics.values()
    return sum(int(offset) for offset in partitions.values())
