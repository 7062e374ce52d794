"""``railgun stream …``: make streams, look at them, read and remove their messages."""

from __future__ import annotations

from typing import Annotated

import typer

from railgun.cli.options.arguments import Force, StreamName
from railgun.cli.options.cluster import Cluster, sure
from railgun.cli.options.stream_flags import StreamFlags
from railgun.cli.output import print_json
from railgun.cli.reports.report import (
    message_object,
    print_changes,
    print_info,
    print_message,
    print_raw,
    print_streams,
)
from railgun.cli.running import command
from railgun.errors import ConfigError

app = typer.Typer(help="Make streams, look at them, read and remove their messages.", no_args_is_help=True)

NewName = Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name.")]


@app.command("add")
@command
def add(name: NewName, flags: StreamFlags, cluster: Cluster) -> None:
    """Create a stream. One that exists with the same configuration is left as it is."""
    given = flags.given()
    given.pop("name", None)  # a file may carry another stream's name: the argument decides
    with cluster.act() as rg:
        info = rg.create_stream(name, **given).info()
    if not cluster.as_json:
        typer.echo(f"Stream {name} was created\n")
    cluster.show(info, print_info)


@app.command("edit")
@command
def edit(name: StreamName, flags: StreamFlags, cluster: Cluster) -> None:
    """Change a stream: only what is given changes."""
    given = flags.given()
    given.pop("name", None)
    if not given:
        raise ConfigError("nothing to change: give at least one flag, such as --max-age 7d")
    with cluster.act() as rg:
        before = rg.stream(name).info()
        info = rg.update_stream(name, **given).info()
    if not cluster.as_json:
        print_changes(f"Stream {name}", dict(before.config), dict(info.config))
    cluster.show(info, print_info)


@app.command("info")
@command
def info(
    name: StreamName,
    cluster: Cluster,
    subjects: Annotated[
        str | None,
        typer.Option("--subjects", metavar="FILTER", help="Count the messages of each subject that matches."),
    ] = None,
) -> None:
    """Show the configuration and the state of a stream."""
    with cluster.connect() as rg:
        cluster.show(rg.stream(name).info(subjects=subjects), print_info)


@app.command("ls")
@command
def ls(
    cluster: Cluster,
    subject: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="Only streams whose subjects overlap with this filter."),
    ] = None,
    names: Annotated[bool, typer.Option("--names", "-n", help="Only the names.")] = False,
) -> None:
    """List the streams."""
    with cluster.connect() as rg:
        found = rg.streams(subject=subject)
    if cluster.as_json:
        print_json([one.config.name for one in found] if names else [one.raw for one in found])
    elif names:
        for one in found:
            typer.echo(one.config.name)
    else:
        print_streams(found)


@app.command("get")
@command
def get(
    name: StreamName,
    cluster: Cluster,
    sequence: Annotated[int | None, typer.Argument(metavar="[SEQUENCE]", help="Which message.")] = None,
    last_for: Annotated[
        str | None,
        typer.Option("--last-for", "-S", metavar="SUBJECT", help="The newest message on this subject."),
    ] = None,
    next_for: Annotated[
        str | None,
        typer.Option(
            "--next-for", metavar="SUBJECT", help="The first message on this subject from SEQUENCE on."
        ),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Only the body, as it is.")] = False,
) -> None:
    """Show one message: by its sequence, or the last or next one on a subject."""
    if last_for is not None and (next_for is not None or sequence is not None):
        raise ConfigError("give --last-for alone: it excludes SEQUENCE and --next-for")
    if last_for is None and next_for is None and sequence is None:
        raise ConfigError("say which message: a SEQUENCE, --last-for SUBJECT or --next-for SUBJECT")
    with cluster.connect() as rg:
        stream = rg.stream(name)
        if last_for is not None:
            message = stream.get_last(last_for)
        elif next_for is not None:
            message = stream.get_next(next_for, sequence=sequence)
        else:
            message = stream.get(sequence or 0)
    if cluster.as_json:
        print_json(message_object(name, message))
    elif raw:
        print_raw(message.payload)
    else:
        print_message(name, message)


@app.command("rmm")
@command
def rmm(
    name: StreamName,
    sequence: Annotated[int, typer.Argument(metavar="SEQUENCE", help="Which message.")],
    cluster: Cluster,
    force: Force = False,
) -> None:
    """Remove one message for good."""
    sure(cluster, f"remove message {sequence} of stream {name}", force)
    with cluster.act() as rg:
        rg.stream(name).delete_message(sequence)
    if cluster.as_json:
        print_json({"stream": name, "removed": sequence})
    else:
        typer.echo(f"Removed message {sequence} of stream {name}")


@app.command("purge")
@command
def purge(
    name: StreamName,
    cluster: Cluster,
    subject: Annotated[
        str | None, typer.Option(metavar="FILTER", help="Only messages on these subjects.")
    ] = None,
    seq: Annotated[int | None, typer.Option("--seq", help="Only messages below this sequence.")] = None,
    keep: Annotated[int | None, typer.Option(help="Keep this many of the newest messages.")] = None,
    force: Force = False,
) -> None:
    """Remove messages: all of them, or those that the options choose. The stream itself stays."""
    sure(cluster, f"purge stream {name}", force)
    with cluster.act() as rg:
        purged = rg.stream(name).purge(subject=subject, sequence=seq, keep=keep)
        after = rg.stream(name).info()
    if cluster.as_json:
        print_json({"stream": name, "purged": purged, "messages": after.state.messages})
    else:
        typer.echo(f"Purged {purged:,} messages of stream {name}; {after.state.messages:,} left")


@app.command("rm")
@command
def rm(name: StreamName, cluster: Cluster, force: Force = False) -> None:
    """Remove a stream with all its messages, and its Kafka topic."""
    sure(cluster, f"remove stream {name} and all its messages", force)
    with cluster.act() as rg:
        rg.delete_stream(name)
    if cluster.as_json:
        print_json({"stream": name, "removed": True})
    else:
        typer.echo(f"Removed stream {name}")
