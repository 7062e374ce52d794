"""``railgun sink …``: the commands."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railgun.cli.options.cluster import Cluster
from railgun.cli.options.completion import known_streams
from railgun.cli.options.units import counted
from railgun.cli.output import print_json
from railgun.cli.running import EXIT_WRONG, command
from railgun.cli.sinks.sink_flags import (
    DEFAULT_PATIENCE,
    ConnectFlags,
    ConnectUrl,
    Patience,
    SinkFlags,
    SinkName,
    act_on_connect,
)
from railgun.cli.sinks.sink_report import print_sink, print_sinks

if TYPE_CHECKING:
    from railgun.sinks import Connect, SinkStatus

app = typer.Typer(help="Sinks of Kafka Connect: streams into databases and files.", no_args_is_help=True)


@app.command("apply")
@command
def apply(
    name: SinkName,
    flags: SinkFlags,
    cluster: Cluster,
    connect: ConnectUrl = None,
    wait: Patience = DEFAULT_PATIENCE,
) -> None:
    """Make a sink what is given, and wait until it runs. Applied again it changes nothing, unless its stream was made anew."""
    sink = flags.sink(name)
    with cluster.connect() as rg, act_on_connect(connect, wait) as at:
        status = at.apply(sink, rg)
    _tell(status, cluster.as_json, f"Sink {name} reads stream {status.stream}\n")


@app.command("ls")
@command
def ls(at: ConnectFlags) -> None:
    """List the sinks that were applied here; connectors that others made are left out."""
    with at.open() as connect:
        found = connect.list()
    if at.as_json:
        print_json([one.as_object() for one in found])
    else:
        print_sinks(found)


@app.command("status")
@command
def status(name: SinkName, at: ConnectFlags) -> None:
    """Show how a sink is, and why it failed; then the exit code is 1."""
    with at.open() as connect:
        found = connect.status(name)
    _tell(found, at.as_json, f"Sink {name}\n")
    if found.reason:
        raise typer.Exit(EXIT_WRONG)


@app.command("restart")
@command
def restart(name: SinkName, at: ConnectFlags) -> None:
    """Start what failed again, and wait until it runs. It goes on where it stopped; nothing is lost."""
    _change(name, at, lambda connect: connect.restart(name))


@app.command("pause")
@command
def pause(name: SinkName, at: ConnectFlags) -> None:
    """Stop reading for a while."""
    _change(name, at, lambda connect: connect.pause(name))


@app.command("resume")
@command
def resume(name: SinkName, at: ConnectFlags) -> None:
    """Go on reading."""
    _change(name, at, lambda connect: connect.resume(name))


@app.command("rm")
@command
def rm(name: SinkName, at: ConnectFlags) -> None:
    """Remove a sink. What it has written stays; applied again, it goes on where it stopped."""
    with at.act() as connect:
        connect.delete(name)
    if at.as_json:
        print_json({"name": name, "removed": True})
    else:
        typer.echo(f"Sink {name} was removed")


@app.command("dead-letters")
@command
def dead_letters(
    name: SinkName,
    cluster: Cluster,
    into: Annotated[
        str,
        typer.Option(metavar="STREAM", help="The stream that takes them.", autocompletion=known_streams),
    ],
    subject: Annotated[
        str | None,
        typer.Option(help="Their subject there; else from what the stream captures: dlq.> gives dlq.NAME."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Their topic, if the sink was given one of its own.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until Ctrl-C; else up to where the topic ends.")
    ] = False,
) -> None:
    """Carry the dead letters of a sink into a stream, each once; a later run goes on where this one ends."""
    from railgun.sinks import dead_letters as carry

    with cluster.act() as rg, _until_stopped() as goes_on:
        done = carry(rg, name, into, subject=subject, topic=topic, follow=goes_on if follow else None)
    if cluster.as_json:
        print_json({"sink": name, "stream": into, "stored": done.stored, "duplicates": done.duplicates})
    else:
        before = f" ({done.duplicates:,} were there before)" if done.duplicates else ""
        typer.echo(f"Stored {counted(done.stored, 'dead letter')} of sink {name} in stream {into}{before}")


@contextmanager
def _until_stopped() -> Iterator[Callable[[], bool]]:
    """A question that says False once Ctrl-C or SIGTERM came: what was taken is stored and noted before the end."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield lambda: True
        return
    old = {
        number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield lambda: not stopped.is_set()
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _change(name: str, at: ConnectFlags, change: Callable[[Connect], SinkStatus]) -> None:
    with at.act() as connect:
        found = change(connect)
    _tell(found, at.as_json, f"Sink {name}\n")


def _tell(found: SinkStatus, as_json: bool, title: str) -> None:
    if as_json:
        shown: dict[str, Any] = found.as_object()
        print_json(shown)
    else:
        typer.echo(title)
        print_sink(found)
