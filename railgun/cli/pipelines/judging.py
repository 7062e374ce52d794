"""``railgun pipeline audit``, ``dead-letters`` and ``ack-latency``: jobs that read, compare and report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from railgun.cli.options.arguments import StreamName
from railgun.cli.options.cluster import Cluster
from railgun.cli.options.completion import known_streams
from railgun.cli.output import print_json
from railgun.cli.pipelines.starting import SparkFlags, job
from railgun.cli.pipelines.writing import Filter
from railgun.cli.reports.report import new_table, print_table
from railgun.cli.running import EXIT_WRONG, command


@command
def audit(stream: StreamName, flags: SparkFlags, cluster: Cluster) -> None:
    """Compare the log of a stream with what its owner answers; exit code 1 if they differ."""
    with _telling("starting Spark") as tell, job("audit", cluster, flags) as ready:
        done = ready.run(ready.module.audit, stream, progress=tell)
    if cluster.as_json:
        print_json(done.as_object())
    else:
        for note in done.notes:
            typer.echo(f"note: {note}", err=True)
        for difference in done.differences:
            typer.echo(str(difference))
        typer.echo(str(done))
    if done.differences:
        raise typer.Exit(EXIT_WRONG)


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
    with _telling("counting letters"), job("dead_letters", cluster, flags) as ready:
        rows = ready.run(ready.module.report, stream, filter=filter)
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
    print_table(table)
    typer.echo(f"{stream}: {sum(row['letters'] for row in rows)} dead letters")


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
    with _telling("reading samples"), job("ack_latency", cluster, flags) as ready:
        rows = ready.run(ready.module.report, stream=stream, consumer=consumer, plot=plot)
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
    print_table(table)
    typer.echo(f"{sum(row['samples'] for row in rows)} samples of {len(rows)} consumers")


@contextmanager
def _telling(first: str) -> Iterator[Callable[[str], None]]:
    """What is being done, on standard error if that is a terminal. Ctrl-C is answered when that line is gone."""
    err = Console(stderr=True)
    try:
        if err.is_terminal:
            with err.status(Text(first)) as status:
                yield lambda what: status.update(Text(what))
        else:
            yield lambda _: None
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        raise
