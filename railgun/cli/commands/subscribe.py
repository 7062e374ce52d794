"""``railgun sub``: show messages as they come, from streams or from a subject that consumers push to."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railgun.cli.options.cluster import Cluster
from railgun.cli.options.completion import known_streams
from railgun.cli.options.consumer_flags import START, Start
from railgun.cli.reports.consumer_report import delivered_object
from railgun.cli.running import command
from railgun.errors import ConfigError, RailgunError

if TYPE_CHECKING:
    from railgun.client.facade.railgun import Railgun
    from railgun.client.facade.sync.message import Message
    from railgun.client.facade.sync.ordered import OrderedConsumer

_WAITING = 256  # messages that wait to be shown
_LOOK_EVERY = 0.1  # seconds between two looks at whether they still will be
_PATIENCE = 5.0  # seconds until a consumer is left to vanish by itself


@command
def sub(
    cluster: Cluster,
    subject: Annotated[
        str | None, typer.Argument(metavar="[SUBJECT]", help="What to listen to; wildcards allowed.")
    ] = None,
    stream: Annotated[
        str | None, typer.Option(help="Read along with this stream.", autocompletion=known_streams)
    ] = None,
    deliver: Annotated[
        Start | None,
        typer.Option(
            parser=START, metavar="START", help="Where to begin in a stream, as `consumer add` has it (new)."
        ),
    ] = None,
    listen: Annotated[
        bool, typer.Option("--listen", help="Listen on the subject itself, even if a stream captures it.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option("--queue", metavar="GROUP", help="Listen as one of a group that shares the messages."),
    ] = None,
    ack: Annotated[bool, typer.Option("--ack", help="Acknowledge what is shown.")] = False,
    count: Annotated[int | None, typer.Option(min=1, help="End after this many messages.")] = None,
    timestamp: Annotated[bool, typer.Option("--timestamp", "-t", help="Show when it came.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="Show headers, too.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Only the bodies, a line each.")] = False,
) -> None:
    """Show messages as they come, until Ctrl-C. With --json a line each."""
    with cluster.act() if ack else cluster.connect() as rg, contextlib.ExitStack() as stack:
        for number, message in enumerate(_source(rg, stack, subject, stream, deliver, listen, group), 1):
            if cluster.as_json:
                typer.echo(json.dumps(delivered_object(message), ensure_ascii=False))
            elif raw:
                typer.echo(message.payload)
            else:
                _print(number, message, timestamp, headers)
            if ack and not message.acknowledged:
                message.ack()
            if number == count:
                return


def _print(number: int, message: Message, timestamp: bool, headers: bool) -> None:
    now = f"{datetime.now(UTC).astimezone():%Y/%m/%d %H:%M:%S} " if timestamp else ""
    body = message.payload.decode("utf-8", "replace")
    typer.echo(f"{now}[#{number}] Received on [{message.subject}]: '{body}'")
    if headers:
        for name, value in message.headers:
            typer.echo(f"  {name}: {value.decode('utf-8', 'replace')}")


def _source(
    rg: Railgun,
    stack: contextlib.ExitStack,
    subject: str | None,
    stream: str | None,
    deliver: Start | None,
    listen: bool,
    group: str | None,
) -> Iterator[Message]:
    """The messages that are asked for. Everything is open, and said so, before the first of them is waited for."""
    plainly = listen or group is not None
    if plainly and (stream is not None or deliver is not None):
        raise ConfigError("--listen and --queue are for a subject alone: leave out --stream and --deliver")
    if stream is not None:
        return _from_streams(rg, stack, [stream], subject, deliver)
    if subject is None:
        raise ConfigError("say what to listen to: a SUBJECT, or --stream STREAM")
    if not plainly:
        streams = [info.config.name for info in rg.streams(subject=subject)]
        if streams:
            return _from_streams(rg, stack, streams, subject, deliver)
        if deliver is not None:
            raise ConfigError(f"no stream captures {subject!r}: --deliver has no meaning")
    return _from_subject(rg, stack, subject, group)


def _from_subject(
    rg: Railgun, stack: contextlib.ExitStack, subject: str, group: str | None
) -> Iterator[Message]:
    listener = stack.enter_context(rg.listen(subject, group))
    typer.echo(f"Listening on [{subject}]", err=True)
    return iter(listener)


def _from_streams(
    rg: Railgun,
    stack: contextlib.ExitStack,
    streams: list[str],
    subject: str | None,
    deliver: Start | None,
) -> Iterator[Message]:
    """The messages of ordered consumers, which take none away from others and leave nothing behind."""
    arrived: queue.Queue[Message | RailgunError] = queue.Queue(_WAITING)
    over = threading.Event()
    for name in streams:
        messages = rg.stream(name).ordered_consumer(**_start(rg, name, deliver), filter_subject=subject)
        thread = threading.Thread(target=_follow, args=(messages, arrived, over), daemon=True)
        stack.callback(thread.join, _PATIENCE)
        stack.callback(messages.close)
        thread.start()
    stack.callback(over.set)
    where = ", ".join(f"stream {name}" for name in streams)
    typer.echo(f"Listening on [{subject or '>'}] in {where}", err=True)
    return _taken(arrived)


def _start(rg: Railgun, stream: str, deliver: Start | None) -> dict[str, Any]:
    """The first message to show. "New" is fixed now, so that no message is missed until the consumer exists. Raises StreamNotFound."""
    last = rg.stream(stream).info().state.last_seq
    if deliver is None or deliver.policy == "new":
        deliver = Start("by_start_sequence", sequence=last + 1)
    return deliver.given()


def _follow(
    messages: OrderedConsumer, arrived: queue.Queue[Message | RailgunError], over: threading.Event
) -> None:
    try:
        for message in messages:
            _hand_over(message, arrived, over)
    except RailgunError as error:
        _hand_over(error, arrived, over)


def _hand_over(
    what: Message | RailgunError, arrived: queue.Queue[Message | RailgunError], over: threading.Event
) -> None:
    while not over.is_set():
        with contextlib.suppress(queue.Full):
            arrived.put(what, timeout=_LOOK_EVERY)
            return


def _taken(arrived: queue.Queue[Message | RailgunError]) -> Iterator[Message]:
    while True:
        found = arrived.get()
        if isinstance(found, RailgunError):
            raise found
        yield found
