"""How far the owner of a stream is with rows that were sent to it, for whoever waits: a function that is called, or a bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from threading import Event
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from railgun.kafka.trouble import librdkafka
from railgun.spark.cluster import Cluster

#: Told the rows that are decided, and all.
Told = Callable[[int, int], None]

_LOOK: Final = 0.5  # seconds between two looks
_PATIENCE: Final = 2.0  # for one answer of Kafka


@contextmanager
def telling(
    progress: Told | bool | None, cluster: Cluster, partition: int, begin: int, total: int
) -> Iterator[None]:
    """Tell the progress while the block runs, and that all is done when it has ended without an exception.

    ``begin``: the offset among the commands before the first row was sent. ``progress`` is called by a thread of its own; what it raises
    is raised at the end of the block. True: a bar on standard error, if that is a terminal.
    """
    if not progress:
        yield
        return
    with _bar() if progress is True else nullcontext(progress) as told:
        told(0, total)
        over = Event()
        with ThreadPoolExecutor(1, "railgun-progress") as pool:
            watching = pool.submit(
                _watch, over, cluster, partition, lambda end: told(max(0, min(end - begin, total)), total)
            )
            try:
                yield
            finally:
                over.set()
        watching.result()
        told(total, total)


@contextmanager
def _bar() -> Iterator[Told]:
    err = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("publishing", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _watch(over: Event, cluster: Cluster, partition: int, reached: Callable[[int], None]) -> None:
    """Follow the offsets that the owner commits for those who watch."""
    place = TopicPartition(cluster.names.commands, partition)
    # It never joins the group, it only asks.
    consumer = Consumer(cluster.settings.consumer(group_id=cluster.names.group), logger=librdkafka)
    last = -1
    try:
        while not over.wait(_LOOK):
            try:
                (found,) = consumer.committed([place], timeout=_PATIENCE)
            except KafkaException:
                continue  # a bar that stands still is not a reason to fail
            if found.offset > last:
                last = found.offset
                reached(last)
    finally:
        consumer.close()
