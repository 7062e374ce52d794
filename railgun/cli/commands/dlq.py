"""``railgun dlq …``: look at dead letters, send them back, drop them."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Annotated

import typer

from railgun.cli.commands.dead_letters import Choice, DeadLetters, Outcome, dead_letter_streams
from railgun.cli.options.cluster import Cluster, sure
from railgun.cli.options.completion import known_streams
from railgun.cli.options.units import counted
from railgun.cli.output import print_json, progress
from railgun.cli.reports.report import (
    content_object,
    new_table,
    print_headers,
    print_lines,
    print_raw,
    print_table,
)
from railgun.cli.running import EXIT_WRONG, command
from railgun.errors import ConfigError, StreamNotFound

app = typer.Typer(help="Dead letters: look at them, send them back, drop them.", no_args_is_help=True)

StreamName = Annotated[
    str,
    typer.Argument(metavar="STREAM", help="The stream of dead letters.", autocompletion=known_streams),
]
Sequences = Annotated[
    list[int] | None,
    typer.Argument(metavar="[SEQUENCE]...", help="Which letters; without any, all that match."),
]
Origin = Annotated[
    str | None, typer.Option(metavar="STREAM", help="Only letters that came from this stream.")
]
ConsumerName = Annotated[str | None, typer.Option(metavar="NAME", help="Only letters of this consumer.")]
Subject = Annotated[str | None, typer.Option(metavar="FILTER", help="Only letters on these subjects.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command("ls")
@command
def ls(
    cluster: Cluster,
    stream: Annotated[
        str | None,
        typer.Argument(
            metavar="[STREAM]",
            help="The stream of dead letters; without one, such streams are listed.",
            autocompletion=known_streams,
        ),
    ] = None,
    origin: Origin = None,
    consumer: ConsumerName = None,
    subject: Subject = None,
    limit: Annotated[int, typer.Option(min=0, help="How many at most; 0: all.")] = 100,
) -> None:
    """List dead letters, oldest first; without a stream, the streams that consumers send theirs to."""
    if stream is None:
        _list_streams(cluster)
        return
    choice = Choice(origin=origin, consumer=consumer, subject=subject)
    with cluster.connect() as rg:
        letters = DeadLetters(rg, stream)
        found = list(islice(letters.find(choice), min(limit, sys.maxsize) or None))
    if cluster.as_json:
        print_json([letter.as_object() for letter in found])
        return
    if not found:
        typer.echo(f"Stream {stream} has no such dead letters.", err=True)
        return
    titles = ("Sequence", "Subject", "Origin", "Consumer", "Deliveries", "Reason")
    table = new_table(titles, numbers=("Sequence", "Deliveries"))
    for letter in found:
        table.add_row(
            str(letter.sequence),
            letter.message.subject,
            f"{letter.stream}#{letter.origin('Sequence')}",
            letter.consumer,
            letter.origin("Deliveries"),
            letter.origin("Reason"),
        )
    print_table(table)
    if limit and len(found) == limit:
        typer.echo(f"The first {limit:,}; --limit 0 lists all.", err=True)


def _list_streams(cluster: Cluster) -> None:
    rows: list[tuple[str, int | None, list[str]]] = []
    with cluster.connect() as rg:
        for name, users in dead_letter_streams(rg).items():
            try:
                rows.append((name, DeadLetters(rg, name).messages, users))
            except StreamNotFound:
                rows.append((name, None, users))
    if cluster.as_json:
        print_json([{"stream": name, "messages": count, "of": users} for name, count, users in rows])
        return
    if not rows:
        typer.echo("No consumer has a stream for its dead letters.", err=True)
        return
    table = new_table(("Stream", "Letters", "Of"), numbers=("Letters",))
    for name, count, users in rows:
        table.add_row(name, "missing" if count is None else f"{count:,}", ", ".join(users))
    print_table(table)


@app.command("show")
@command
def show(
    stream: StreamName,
    sequence: Annotated[int, typer.Argument(metavar="SEQUENCE", help="Which letter.")],
    cluster: Cluster,
    raw: Annotated[bool, typer.Option("--raw", help="Only the body, as it is.")] = False,
) -> None:
    """Show one dead letter: where it came from, why it is here, its headers and body."""
    with cluster.connect() as rg:
        letter = DeadLetters(rg, stream).get(sequence)
    if letter is None:
        raise ConfigError(f"stream {stream} has no dead letter {sequence}")
    message = letter.message
    if cluster.as_json:
        print_json({**letter.as_object(), **content_object(letter.own_headers(), message.payload)})
    elif raw:
        print_raw(message.payload)
    else:
        typer.echo(f"Dead letter {stream}#{sequence} on Subject {message.subject}\n")
        print_lines(
            [
                ("Origin", f"{letter.stream}#{letter.origin('Sequence')}"),
                ("Consumer", letter.consumer),
                ("Deliveries", letter.origin("Deliveries")),
                ("Reason", letter.origin("Reason")),
                ("Time", letter.origin("Time")),
            ],
            10,
        )
        typer.echo("")
        print_headers(letter.own_headers())
        typer.echo(message.payload.decode("utf-8", "replace"))


@app.command("redrive")
@command
def redrive(
    stream: StreamName,
    cluster: Cluster,
    sequences: Sequences = None,
    origin: Origin = None,
    consumer: ConsumerName = None,
    subject: Subject = None,
) -> None:
    """Publish dead letters on their own subjects again, and remove them here.

    Each goes back once, even if this is interrupted and run again (within the duplicate window of the stream it goes to).
    Every consumer of that stream sees it as a new message.
    """
    choice = Choice(sequences or None, origin, consumer, subject)
    with cluster.act() as rg:
        letters = DeadLetters(rg, stream)
        with progress("redriving", _expected(letters, choice)) as step:
            outcome = letters.redrive(letters.find(choice), step)
    if cluster.as_json:
        print_json(
            {
                "stream": stream,
                "redriven": len(outcome.done),
                "already": outcome.before,
                "failed": {str(number): why for number, why in outcome.failed.items()},
            }
        )
    else:
        earlier = f" ({outcome.before:,} had gone back before)" if outcome.before else ""
        typer.echo(f"Redrove {counted(len(outcome.done), 'dead letter')} of stream {stream}{earlier}")
    _end(outcome)


@app.command("drop")
@command
def drop(
    stream: StreamName,
    cluster: Cluster,
    sequences: Sequences = None,
    origin: Origin = None,
    consumer: ConsumerName = None,
    subject: Subject = None,
    everything: Annotated[bool, typer.Option("--all", help="All letters of the stream.")] = False,
    yes: Yes = False,
) -> None:
    """Remove dead letters for good. Asks before it does; without a terminal, give --yes."""
    choice = Choice(sequences or None, origin, consumer, subject)
    if choice == Choice() and not everything:
        raise ConfigError("say which letters: their SEQUENCEs, --origin, --consumer, --subject, or --all")
    with cluster.act() as rg:
        letters = DeadLetters(rg, stream)
        found = list(letters.find(choice))
        if found:
            sure(cluster, f"remove {counted(len(found), 'dead letter')} of stream {stream}", yes, "--yes")
        with progress("dropping", len(found)) as step:
            outcome = letters.drop(found, step)
    if cluster.as_json:
        print_json({"stream": stream, "dropped": len(outcome.done)})
    else:
        typer.echo(f"Dropped {counted(len(outcome.done), 'dead letter')} of stream {stream}")


def _expected(letters: DeadLetters, choice: Choice) -> int | None:
    """The number of letters, if it is known before they are read."""
    if choice.sequences is not None:
        return len(set(choice.sequences))
    return letters.messages if choice == Choice() else None


def _end(outcome: Outcome) -> None:
    for sequence, why in outcome.failed.items():
        typer.echo(f"error: letter {sequence} stays: {why}", err=True)
    if outcome.failed:
        raise typer.Exit(EXIT_WRONG)
