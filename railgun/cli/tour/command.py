"""``railgun tour``, and what ``railgun up --tour`` runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer
from rich.console import Console

from railgun.cli.options.cluster import Cluster
from railgun.cli.output import console
from railgun.cli.running import command
from railgun.cli.tour import archives, buckets, consumers, copies, positions, streams
from railgun.cli.tour.walk import SLACK, TourFailed, Walk
from railgun.errors import RailgunError
from railgun.protocol.topics import DEFAULT_PREFIX, Names

BEFORE_THE_TOPIC = (
    streams.create,
    streams.duplicates,
    streams.window,
    streams.conditions,
    streams.reading,
)
AFTER_IT = (
    streams.life_time,
    streams.limits,
    streams.counter,
    copies.sums,
    buckets.values,
    consumers.counting,
    consumers.work_queue,
    consumers.exactly_once,
    positions.start_positions,
    positions.monitor,
    positions.replay,
    streams.expiry,
)


def run_tour(
    bootstrap: str,
    real_time: bool = False,
    prefix: str = DEFAULT_PREFIX,
    kafka: Mapping[str, Any] | None = None,
    timeout: float = 10.0,
    spark: bool = False,
) -> None:
    """Walk through the cluster at this address; ``spark``: with an archive and an audit at the end.

    Raises TourFailed, or what a step raised; ConfigError, before the first step, if Spark is asked for and cannot be had.
    """
    from railgun.client.facade.railgun import connect

    last: list[Callable[[Walk], None]] = []
    if spark:
        settings = [f"{name}={value}" for name, value in (kafka or {}).items()]
        cluster = Cluster(bootstrap, prefix, settings, timeout=timeout)
        archives.check_spark(cluster)
        last.append(lambda walk: archives.archive_and_audit(walk, cluster))
    out = console()
    out.print(f"[bold]A short tour of railgun[/] at {bootstrap}")
    show_topic = None
    if not bootstrap.startswith("memory://"):
        show_topic = _topic_reader(out, bootstrap, prefix, kafka)
    with connect(bootstrap, prefix=prefix, timeout=timeout, kafka=kafka) as rg:
        _walk(Walk(rg, out, real_time), show_topic, last)


def _walk(
    walk: Walk, show_topic: Callable[[str], None] | None, last: Sequence[Callable[[Walk], None]]
) -> None:
    """All steps; the streams of the tour are gone afterwards, however it ends."""
    walk.remove_own()
    walk.choose_names()
    try:
        for step in BEFORE_THE_TOPIC:
            step(walk)
        if show_topic is not None:
            walk.title("The stream is an ordinary Kafka topic")
            show_topic(walk.stream)
        for step in AFTER_IT:
            step(walk)
        for asked_for in last:
            asked_for(walk)
    finally:
        with suppress(RailgunError):
            walk.remove_own()
    walk.out.print("\n[bold green]That was the tour[/]: its streams are removed again.")


def _topic_reader(
    out: Console, bootstrap: str, prefix: str, kafka: Mapping[str, Any] | None
) -> Callable[[str], None]:
    """Shows the first record of a stream's log as any Kafka consumer sees it."""

    def show(stream: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        from railgun.kafka.settings import KafkaSettings

        topic = Names(prefix).log(stream)
        consumer = Consumer(KafkaSettings(bootstrap, dict(kafka or {})).consumer())
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            record = consumer.poll(SLACK)
        finally:
            consumer.close()
        if record is None or record.error() is not None:
            raise TourFailed(f"the topic {topic} could not be read")
        out.print(f"     topic {topic}, read with a plain consumer:", markup=False)
        out.print(f"       key     {(record.key() or b'').decode()}", markup=False)
        out.print(f"       value   {(record.value() or b'').decode()}", markup=False)
        headers: Any = record.headers() or []
        for name, value in headers:
            out.print(f"       header  {name}: {value.decode()}", markup=False)

    return show


@command
def tour(
    cluster: Cluster,
    real_time: Annotated[bool, typer.Option("--real-time", help="Wait as long as the story says.")] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="End with an archive and an audit, on Spark.")
    ] = False,
) -> None:
    """Show what railgun does, live; the streams that it makes are removed again."""
    cluster.announce()
    run_tour(
        cluster.address,
        real_time=real_time,
        prefix=cluster.prefix,
        kafka=cluster.kafka_options(),
        timeout=cluster.timeout,
        spark=spark,
    )
