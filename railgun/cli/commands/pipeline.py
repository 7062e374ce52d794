"""``railgun pipeline …``: archives, backfills, audits, reports and totals, on Spark.

The jobs are those of ``topologies``, which a wheel carries as ``railgun._topologies``. Spark is started when one of them runs, not
before, and is here only for the arguments: what a job does and promises is in its own module.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railgun.cli.options.arguments import StreamName
from railgun.cli.options.cluster import Cluster
from railgun.cli.options.completion import known_buckets, known_streams
from railgun.cli.output import console, print_json, progress_to
from railgun.cli.reports.report import new_table
from railgun.cli.running import EXIT_WRONG, command
from railgun.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = typer.Typer(help="Archive, backfill, audit and sum up streams with Spark.", no_args_is_help=True)

Filter = Annotated[
    str | None, typer.Option("--filter", metavar="FILTER", help="Only messages on subjects that match this.")
]
Follow = Annotated[bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C.")]
AtOnce = Annotated[int, typer.Option("--max-per-batch", min=1, help="Records of a batch at most.")]


@dataclass(frozen=True)
class SparkFlags:
    """Where Spark runs."""

    master: Annotated[str, typer.Option(help="Spark's master: local[*], spark://host:7077, yarn …")] = (
        "local[*]"
    )
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; repeatable.")
    ] = None

    def settings(self) -> dict[str, str]:
        """The settings that were given; in one process, with as many shuffle tasks as it has use for."""
        given: dict[str, str] = {}
        if self.master.startswith("local"):
            given["spark.sql.shuffle.partitions"] = "4"  # 200 is for a cluster: here each takes its time
        for text in self.conf or ():
            name, separator, value = text.partition("=")
            if not separator or not name.strip():
                raise ConfigError(f"--conf {text!r} is not KEY=VALUE, such as spark.driver.memory=2g")
            given[name.strip()] = value.strip()
        return given

    @contextmanager
    def session(self) -> Iterator[SparkSession]:
        """A Spark session; one that was there before stays. Raises ConfigError where pyspark is not installed."""
        settings = self.settings()
        try:
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise ConfigError("pipelines need Spark: pip install 'railgun[spark]'") from error
        import railgun.spark

        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # Ctrl-C in the middle of a call is not an error
        there = SparkSession.getActiveSession()
        spark = railgun.spark.session("railgun pipeline", master=self.master, config=settings)
        try:
            yield spark
        finally:
            if there is None:
                spark.stop()


def topology(name: str) -> Any:
    """A module of the topologies: inside an installed package, or of the checkout."""
    for package in ("railgun._topologies", "topologies"):
        try:
            return import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name not in (package, f"{package}.{name}"):
                raise
    raise ConfigError(f"the pipeline {name} is not part of this installation: install railgun as a wheel")


@contextmanager
def _job(name: str, cluster: Cluster, flags: SparkFlags) -> Iterator[tuple[Any, SparkSession, Any]]:
    """The module of a job, Spark, and the cluster in the form that jobs want."""
    settings = cluster.settings()  # memory:// has no log that Spark could read
    with flags.session() as spark:
        place = topology("place").Place(
            settings.bootstrap, cluster.prefix, cluster.kafka_options(), max(cluster.timeout, 30.0)
        )
        yield topology(name), spark, place


@app.command("archive")
@command
def archive(
    stream: StreamName,
    target: Annotated[str, typer.Argument(help="The folder, or a URL that Spark writes to.")],
    flags: SparkFlags,
    cluster: Cluster,
    filter: Filter = None,
    follow: Follow = False,
    max_per_batch: AtOnce = 200_000,
) -> None:
    """Write a stream to Parquet files by date, each message once; run it again for what came since."""
    with _job("archive", cluster, flags) as (job, spark, place), progress_to("archiving") as step:
        try:
            done = job.archive(
                spark,
                place,
                stream,
                target,
                filter=filter,
                follow=follow,
                max_per_batch=max_per_batch,
                progress=step,
            )
        except KeyboardInterrupt:
            typer.echo("stopped: run it again to go on", err=True)
            raise
    if cluster.as_json:
        print_json(done.as_object())
        return
    upto = f", up to sequence {done.last_seq}" if done.messages else ""
    typer.echo(f"{target} holds {done.messages} messages of {stream} in {done.batches} batches{upto}")


@app.command("backfill")
@command
def backfill(
    source: Annotated[
        str, typer.Argument(help="An archive, or a folder of Parquet files with subject and payload.")
    ],
    stream: StreamName,
    flags: SparkFlags,
    cluster: Cluster,
    replace: Annotated[
        str | None,
        typer.Option(metavar="BEGIN=INSTEAD", help="What subjects begin with, and shall begin with instead."),
    ] = None,
    filter: Filter = None,
) -> None:
    """Publish messages from Parquet files to a stream, each once, however often this is run."""
    pair = None
    if replace is not None:
        begin, separator, instead = replace.partition("=")
        if not separator:
            raise ConfigError(f"--replace {replace!r} is not BEGIN=INSTEAD, such as orders.=copy.")
        pair = (begin, instead)
    cluster.announce()
    with _job("backfill", cluster, flags) as (job, spark, place), progress_to("publishing") as step:
        done = job.backfill(spark, place, source, stream, replace=pair, filter=filter, progress=step)
    if cluster.as_json:
        print_json(done.as_object())
    else:
        typer.echo(
            f"{done.messages} messages: {done.stored} stored, {done.held} were there, {done.gone} were there once, "
            f"{done.refused} refused"
        )
        for reason, count in done.reasons.items():
            typer.echo(f"refused {count}: {reason}", err=True)
    if done.refused:
        raise typer.Exit(EXIT_WRONG)


@app.command("audit")
@command
def audit(stream: StreamName, flags: SparkFlags, cluster: Cluster) -> None:
    """Compare the log of a stream with what its owner answers; exit code 1 if they differ."""
    with _job("audit", cluster, flags) as (job, spark, place), console_status() as tell:
        done = job.audit(spark, place, stream, progress=tell)
    if cluster.as_json:
        print_json(done.as_object())
    else:
        for note in done.notes:
            typer.echo(f"note: {note}", err=True)
        for one in done.differences:
            where = ", ".join(
                text
                for text in (one.subject, None if one.sequence is None else f"sequence {one.sequence}")
                if text is not None
            )
            typer.echo(f"{one.kind}: {where + ': ' if where else ''}log: {one.log}; live: {one.live}")
        found = "no differences" if not done.differences else f"{len(done.differences)} differences"
        typer.echo(f"{stream}: {done.messages} messages on {done.subjects} subjects: {found}")
    if done.differences:
        raise typer.Exit(EXIT_WRONG)


@app.command("dead-letters")
@command
def dead_letters(
    stream: Annotated[
        str,
        typer.Argument(metavar="STREAM", help="The stream of dead letters.", autocompletion=known_streams),
    ],
    flags: SparkFlags,
    cluster: Cluster,
    filter: Filter = None,
) -> None:
    """Count dead letters by subject, consumer and reason."""
    with _job("dead_letters", cluster, flags) as (job, spark, place):
        rows = job.report(spark, place, stream, filter=filter)
    if cluster.as_json:
        print_json(rows)
        return
    table = new_table(
        ("Letters", "Subject", "Stream", "Consumer", "Deliveries", "Reason", "Last"),
        {"Letters", "Deliveries"},
    )
    for row in rows:
        table.add_row(
            str(row["letters"]),
            row["subject"],
            row["stream"],
            row["consumer"] or "",
            str(row["most_deliveries"] or ""),
            row["reason"],
            row["last"],
        )
    console().print(table)


@app.command("ack-latency")
@command
def ack_latency(
    flags: SparkFlags,
    cluster: Cluster,
    stream: Annotated[
        str | None, typer.Option(help="Only consumers of this stream.", autocompletion=known_streams)
    ] = None,
    consumer: Annotated[str | None, typer.Option(help="Only this consumer.")] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a picture, such as latency.png.")
    ] = None,
) -> None:
    """Show how long acknowledgements took, from the samples of consumers with --sample."""
    with _job("ack_latency", cluster, flags) as (job, spark, place):
        found = job.samples(spark, place, stream=stream, consumer=consumer)
        rows = job.ack_latency(found)
        if plot is not None:
            job.plot(found, plot)
    if cluster.as_json:
        print_json(rows)
        return
    names = [name for name in (rows[0] if rows else {}) if name.endswith("_ms")]
    titles = [f"{name.removesuffix('_ms')} ms" for name in names]
    table = new_table(("Stream", "Consumer", "Samples", *titles), {"Samples", *titles})
    for row in rows:
        table.add_row(
            row["stream"], row["consumer"], str(row["samples"]), *(f"{row[name]:.3f}" for name in names)
        )
    console().print(table)


@app.command("totals")
@command
def totals(
    stream: StreamName,
    checkpoint: Annotated[str, typer.Option(help="A folder for the state, for this job alone.")],
    flags: SparkFlags,
    cluster: Cluster,
    into: Annotated[
        str | None,
        typer.Option(metavar="STREAM", help="The stream of the totals.", autocompletion=known_streams),
    ] = None,
    subject: Annotated[str | None, typer.Option(help="What the subjects of totals begin with.")] = None,
    bucket: Annotated[
        str | None, typer.Option(help="A bucket instead of a stream.", autocompletion=known_buckets)
    ] = None,
    sum: Annotated[str | None, typer.Option(metavar="FIELD", help="A number in the JSON to add up.")] = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="LENGTH", help="By windows of time, such as '1 minute', not by subject."),
    ] = None,
    job_name: Annotated[str, typer.Option("--job", help="What the ids of totals begin with.")] = "totals",
    filter: Filter = None,
    follow: Follow = False,
    max_per_batch: AtOnce = 200_000,
) -> None:
    """Count messages, and add up a number in them, by subject or window, into a stream or a bucket."""
    cluster.announce()
    with _job("totals", cluster, flags) as (job, spark, place), progress_to("summing up") as step:
        done = job.totals(
            spark,
            place,
            stream,
            job.Target(into, subject, bucket),
            checkpoint,
            field=sum,
            window=window,
            filter=filter,
            follow=follow,
            max_per_batch=max_per_batch,
            job=job_name,
            progress=step,
        )
    if cluster.as_json:
        print_json(done.as_object())
    else:
        typer.echo(f"{done.totals} totals were written in {done.batches} batches")


@contextmanager
def console_status() -> Iterator[Callable[[str], None]]:
    """What is being done, on standard error if that is a terminal."""
    from rich.console import Console

    err = Console(stderr=True)
    if not err.is_terminal:
        yield lambda _: None
        return
    with err.status("starting Spark") as status:
        yield status.update
