"""``railgun consumer …``: make consumers, look at them, take messages from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railgun.cli.options.arguments import Force, StreamName
from railgun.cli.options.cluster import Cluster, sure
from railgun.cli.options.completion import known_consumers
from railgun.cli.options.consumer_flags import ConsumerFlags
from railgun.cli.options.flags import DURATION
from railgun.cli.options.units import show_duration
from railgun.cli.output import print_json
from railgun.cli.reports.consumer_report import (
    delivered_object,
    print_consumers,
    print_delivered,
    print_info,
    print_report,
)
from railgun.cli.reports.report import print_changes, print_raw
from railgun.cli.running import EXIT_WRONG, command
from railgun.errors import ApiError, ConfigError
from railgun.model.consumer_info import ConsumerInfo
from railgun.protocol.statuses import PUSH_BASED

if TYPE_CHECKING:
    from railgun.client.facade.sync.consumer import Consumer
    from railgun.client.facade.sync.message import Message

app = typer.Typer(help="Make consumers, look at them, take messages from them.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="CONSUMER", help="The consumer's name.", autocompletion=known_consumers)
]
NewName = Annotated[
    str | None, typer.Argument(metavar="[CONSUMER]", help="The consumer's name; without one it is ephemeral.")
]


@app.command("add")
@command
def add(
    stream: StreamName,
    flags: ConsumerFlags,
    cluster: Cluster,
    name: NewName = None,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Remove the consumer once it was unused for a while.")
    ] = False,
) -> None:
    """Create a consumer. One that exists with the same configuration is left as it is."""
    given = flags.given()
    named = [given.pop("name", None), given.pop("durable_name", None)]
    if name is None and not ephemeral:
        name = named[1]  # of the file; a flag or an argument decides where there is one
    if ephemeral:
        given["ephemeral"] = True
    with cluster.act() as rg:
        info = rg.stream(stream).create_consumer(name, **given).info()
    if not cluster.as_json:
        typer.echo(f"Consumer {stream} > {info.name} was created\n")
    cluster.show(info, print_info)


@app.command("edit")
@command
def edit(stream: StreamName, name: Name, flags: ConsumerFlags, cluster: Cluster) -> None:
    """Change a consumer: only what is given changes, and it goes on where it was."""
    given = flags.given()
    for field in ("name", "durable_name"):
        given.pop(field, None)
    if not given:
        raise ConfigError("nothing to change: give at least one flag, such as --wait 1m")
    with cluster.act() as rg:
        handle = rg.stream(stream)
        before = handle.consumer(name).info()
        info = handle.update_consumer(name, **given).info()
    if not cluster.as_json:
        print_changes(f"Consumer {stream} > {name}", dict(before.config), dict(info.config))
    cluster.show(info, print_info)


@app.command("info")
@command
def info(stream: StreamName, name: Name, cluster: Cluster) -> None:
    """Show the configuration of a consumer, and how far it is."""
    with cluster.connect() as rg:
        cluster.show(rg.stream(stream).consumer(name).info(), print_info)


@app.command("ls")
@command
def ls(
    stream: StreamName,
    cluster: Cluster,
    names: Annotated[bool, typer.Option("--names", "-n", help="Only the names.")] = False,
) -> None:
    """List the consumers of a stream."""
    with cluster.connect() as rg:
        found = rg.stream(stream).consumers()
    if cluster.as_json:
        print_json([one.name for one in found] if names else [one.raw for one in found])
    elif names:
        for one in found:
            typer.echo(one.name)
    else:
        print_consumers(stream, found)


@app.command("report")
@command
def report(stream: StreamName, cluster: Cluster) -> None:
    """Show how far each consumer of a stream is: what is pending, redelivered, not processed."""
    with cluster.connect() as rg:
        found = rg.stream(stream).consumers()
    if cluster.as_json:
        print_json([_progress(one) for one in found])
    else:
        print_report(stream, found)


def _progress(info: ConsumerInfo) -> dict[str, Any]:
    fields = ("delivered", "ack_floor", "num_ack_pending", "num_redelivered", "num_pending", "num_waiting")
    return {
        "consumer": info.name,
        "mode": "push" if info.config.is_push else "pull",
        "ack_policy": info.config.ack_policy,
        **{field: info.raw[field] for field in fields},
    }


@app.command("rm")
@command
def rm(stream: StreamName, name: Name, cluster: Cluster, force: Force = False) -> None:
    """Remove a consumer and its position; the messages stay where the stream's retention keeps them."""
    sure(cluster, f"remove consumer {stream} > {name}", force)
    with cluster.act() as rg:
        rg.stream(stream).delete_consumer(name)
    if cluster.as_json:
        print_json({"stream": stream, "consumer": name, "removed": True})
    else:
        typer.echo(f"Removed consumer {stream} > {name}")


@app.command("next")
@command
def next_(
    stream: StreamName,
    name: Name,
    cluster: Cluster,
    ack: Annotated[
        bool, typer.Option("--ack/--no-ack", help="Acknowledge the message, or let it come again.")
    ] = True,
    nak: Annotated[
        bool, typer.Option("--nak", help="Give the message back: it comes again at once.")
    ] = False,
    term: Annotated[
        bool, typer.Option("--term", help="Give the message up: it does not come again.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why the message is given up (--term).")] = "",
    count: Annotated[int, typer.Option(min=1, help="How many messages to take.")] = 1,
    wait: Annotated[
        timedelta | None,
        typer.Option(parser=DURATION, metavar="DURATION", help="How long to wait for each message (5s)."),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Only the body, as it is.")] = False,
) -> None:
    """Take the next message and acknowledge it. Exit code 1 if there is none.

    The acknowledgement is confirmed: when the command has ended well, the message does not come again.
    """
    if nak and term:
        raise ConfigError("give --nak or --term, not both")
    if reason and not term:
        raise ConfigError("--reason says why a message is given up: give --term, too")
    patience = timedelta(seconds=5) if wait is None else wait
    taken = 0
    with cluster.act() as rg:
        consumer = rg.stream(stream).consumer(name)
        while taken < count:
            message = _taken(consumer, patience)
            if message is None:
                break
            taken += 1
            end, told = _end(message, ack=ack, nak=nak, term=term, reason=reason)
            if cluster.as_json:
                end()
                typer.echo(json.dumps({**delivered_object(message), "outcome": told or "none"}))
            elif raw:
                print_raw(message.payload)
                end()
            else:
                print_delivered(message)
                end()
                if told:
                    typer.echo(f"\n{_OUTCOMES[told]}")
    if not taken:
        typer.echo(f"no message within {show_duration(patience)}", err=True)
        raise typer.Exit(EXIT_WRONG)


def _taken(consumer: Consumer, wait: timedelta) -> Message | None:
    try:
        return consumer.next(wait=wait.total_seconds())
    except ApiError as error:
        if error.description != PUSH_BASED.description:
            raise
        target = consumer.info().config.deliver_subject
        raise ConfigError(
            f"consumer {consumer.stream} > {consumer.name} pushes to {target}: listen with `railgun sub {target}`"
        ) from error


_OUTCOMES = {"ack": "Acknowledged message", "nak": "Gave the message back", "term": "Gave the message up"}


def _end(
    message: Message, *, ack: bool, nak: bool, term: bool, reason: str
) -> tuple[Callable[[], object], str]:
    """The action for a message that was shown, and the name of the action."""
    if nak:
        return message.nak, "nak"
    if term:
        return lambda: message.term(reason), "term"
    return (message.ack_sync, "ack") if ack else (lambda: None, "")
