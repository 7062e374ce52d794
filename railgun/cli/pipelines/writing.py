"""``railgun pipeline archive``, ``backfill`` and ``totals``: jobs that write, and that go on where they were when they are run again."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from railgun.cli.options.arguments import StreamName
from railgun.cli.options.cluster import Cluster
from railgun.cli.options.completion import known_buckets, known_streams
from railgun.cli.output import print_json, progress_to
from railgun.cli.pipelines.starting import SparkFlags, job
from railgun.cli.running import EXIT_WRONG, command
from railgun.errors import ConfigError

AT_ONCE: Final = 200_000
STOPPED: Final = "stopped: run it again to go on"

Filter = Annotated[
    str | None, typer.Option("--filter", metavar="FILTER", help="Only messages on subjects that match this.")
]
Follow = Annotated[bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C.")]
AtOnce = Annotated[int, typer.Option("--max-per-batch", min=1, help="Records of a batch at most.")]


@command
def archive(
    stream: StreamName,
    target: Annotated[str, typer.Argument(help="The folder, or a URL that Spark writes to.")],
    flags: SparkFlags,
    cluster: Cluster,
    filter: Filter = None,
    follow: Follow = False,
    max_per_batch: AtOnce = AT_ONCE,
) -> None:
    """Write a stream to Parquet files by date, each message once; run it again for what came since."""
    with (
        job("archive", cluster, flags, stopped=STOPPED) as ready,
        progress_to("archiving") as step,
    ):
        done = ready.run(
            ready.module.archive,
            stream,
            target,
            filter=filter,
            follow=follow,
            max_per_batch=max_per_batch,
            progress=step,
        )
    if cluster.as_json:
        print_json(done.as_object())
    else:
        typer.echo(str(done))


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
    with (
        job("backfill", cluster, flags, stopped=STOPPED) as ready,
        progress_to("publishing") as step,
    ):
        done = ready.run(ready.module.backfill, source, stream, replace=pair, filter=filter, progress=step)
    if cluster.as_json:
        print_json(done.as_object())
    else:
        typer.echo(str(done))
        for reason, count in done.reasons.items():
            typer.echo(f"refused {count}: {reason}", err=True)
    if done.refused:
        raise typer.Exit(EXIT_WRONG)


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
    max_per_batch: AtOnce = AT_ONCE,
) -> None:
    """Count messages, and add up a number in them, by subject or window, into a stream or a bucket."""
    cluster.announce()
    with (
        job("totals", cluster, flags, stopped=STOPPED) as ready,
        progress_to("summing up") as step,
    ):
        done = ready.run(
            ready.module.totals,
            stream,
            ready.module.Target(into, subject, bucket),
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
        typer.echo(str(done))
