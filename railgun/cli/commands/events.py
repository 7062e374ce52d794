"""``railgun events``: what happens to streams, consumers and messages, as it happens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Final

import typer

from railgun.cli.options.cluster import Cluster
from railgun.cli.options.completion import known_streams
from railgun.cli.options.units import show_duration
from railgun.cli.output import printable
from railgun.cli.reports.report import show_time
from railgun.cli.running import command
from railgun.errors import ConfigError
from railgun.protocol.advisory_record import TYPES

#: The kinds of events that are told: the last parts of their types.
KINDS: Final = tuple(TYPES)


@command
def events(
    cluster: Cluster,
    stream: Annotated[
        str | None, typer.Option(help="Only events of this stream.", autocompletion=known_streams)
    ] = None,
    consumer: Annotated[str | None, typer.Option(help="Only events of this consumer.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help=f"Only events of this kind: {', '.join(KINDS)}; repeatable."),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after this many events.")] = None,
) -> None:
    """Show events until Ctrl-C: advisories, and the acknowledgements that consumers sample. With --json a line each."""
    unknown = next((one for one in kind or () if one not in KINDS), None)
    if unknown is not None:
        raise ConfigError(f"--kind {unknown!r} is not a valid kind of event: use {', '.join(KINDS)}")
    shown = 0
    with cluster.connect() as rg, rg.advisories() as found:
        typer.echo("Listening for events", err=True)
        for advisory in found:
            event = advisory.json()
            if not _wanted(event, stream, consumer, kind):
                continue
            if cluster.as_json:
                typer.echo(printable(json.dumps({"subject": advisory.subject, **event}, ensure_ascii=False)))
            else:
                typer.echo(printable(f"[{_time(event)}] {describe(event)}"))
            shown += 1
            if shown == count:
                return


def _wanted(
    event: Mapping[str, Any], stream: str | None, consumer: str | None, kinds: list[str] | None
) -> bool:
    return (
        (stream is None or event.get("stream") == stream)
        and (consumer is None or event.get("consumer") == consumer)
        and (not kinds or kind_of(event) in kinds)
    )


def _time(event: Mapping[str, Any]) -> str:
    told = event.get("timestamp")
    try:
        return show_time(str(told))
    except ValueError:
        return str(told)


def kind_of(event: Mapping[str, Any]) -> str:
    """The last part of an event's type: ``max_deliver``, ``consumer_ack`` …"""
    return str(event.get("type", "")).rpartition(".")[2]


def describe(event: Mapping[str, Any]) -> str:
    """An event as one sentence. An unknown kind, or one without the fields of its sentence, is shown as JSON."""
    try:
        sentence = _sentence(event)
    except (KeyError, TypeError, ValueError, OverflowError):
        sentence = ""
    if sentence:
        return sentence
    rest = {name: value for name, value in event.items() if name not in ("type", "id", "timestamp")}
    return f"{kind_of(event)} {json.dumps(rest, ensure_ascii=False)}"


def _sentence(event: Mapping[str, Any]) -> str:
    match kind_of(event):
        case "max_deliver":
            return f"{_message(event)} was delivered {event['deliveries']} times, and will not be again"
        case "terminated":
            why = f": {event['reason']}" if event.get("reason") else ""
            return f"{_message(event)} was given up at delivery {event['deliveries']}{why}"
        case "nak":
            return f"{_message(event)} was given back at delivery {event['deliveries']}"
        case "consumer_ack":
            took = show_duration(timedelta(microseconds=event["ack_time"] / 1_000))
            return f"{_message(event)} was acknowledged at delivery {event['deliveries']} after {took}"
        case "stream_action":
            return f"stream {event['stream']}: {_DONE.get(event['action'], event['action'])}"
        case "consumer_action":
            return f"consumer {_consumer(event)}: {_DONE.get(event['action'], event['action'])}"
        case _:
            return ""


_DONE = {"create": "created", "modify": "changed", "delete": "removed"}


def _consumer(event: Mapping[str, Any]) -> str:
    return f"{event['stream']} > {event['consumer']}"


def _message(event: Mapping[str, Any]) -> str:
    return f"{_consumer(event)}: message {event['stream_seq']}"
