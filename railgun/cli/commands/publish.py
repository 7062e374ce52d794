"""``railgun pub`` and ``railgun req``: publish messages, and ask the API by name."""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from typing import Annotated, Any

import typer

from railgun.cli.options.cluster import Cluster
from railgun.cli.options.flags import DURATION
from railgun.cli.output import print_json
from railgun.cli.running import EXIT_WRONG, command
from railgun.errors import ConfigError
from railgun.model.messages import PubAck, Reply

HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME:VALUE", help="A header of the message; repeatable."),
]


def headers_of(given: list[str] | None) -> list[tuple[str, str]]:
    """``Name:Value`` as pairs; a space behind the colon is not part of the value. Raises ConfigError."""
    pairs = []
    for text in given or ():
        name, separator, value = text.partition(":")
        if not separator or not name.strip():
            raise ConfigError(f"--header {text!r} is not NAME:VALUE")
        pairs.append((name.strip(), value.strip()))
    return pairs


def body_of(body: str | None, stdin: bool) -> bytes:
    """The given text, or standard input where that was asked for. Raises ConfigError for both."""
    if body is not None and stdin:
        raise ConfigError("give a BODY or --stdin, not both")
    return sys.stdin.buffer.read() if stdin else (body or "").encode()


@command
def pub(
    subject: Annotated[str, typer.Argument(help="Where to publish.")],
    cluster: Cluster,
    body: Annotated[
        str | None, typer.Argument(help="The message; {{Count}} becomes its number with --count.")
    ] = None,
    header: HeaderOption = None,
    msg_id: Annotated[
        str | None, typer.Option("--id", help="The message's id: a second publish with it is a duplicate.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many messages to publish.")] = 1,
    sleep: Annotated[
        timedelta | None, typer.Option(parser=DURATION, metavar="DURATION", help="Wait between messages.")
    ] = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read the message from standard input.")] = False,
    ttl: Annotated[
        timedelta | None,
        typer.Option(parser=DURATION, metavar="DURATION", help="How long the message lives."),
    ] = None,
    expect_stream: Annotated[
        str | None, typer.Option(help="Refuse unless this stream captures the subject.")
    ] = None,
    expect_last_sequence: Annotated[
        int | None, typer.Option(help="Refuse unless this is the stream's last sequence.")
    ] = None,
    expect_last_subject_sequence: Annotated[
        int | None, typer.Option(help="Refuse unless this is the last sequence on the subject; 0: none.")
    ] = None,
    expect_last_msg_id: Annotated[
        str | None, typer.Option(help="Refuse unless this was the last id.")
    ] = None,
    jetstream: Annotated[bool, typer.Option("--jetstream", "-J", hidden=True)] = False,
) -> None:
    """Publish a message and wait until it is stored."""
    del jetstream  # every publish is stored and acknowledged; the flag is there for the habit of it
    data, headers = body_of(body, stdin), headers_of(header)
    with cluster.act() as rg:
        for number in range(1, count + 1):
            if sleep is not None and number > 1:
                time.sleep(sleep.total_seconds())
            payload = data
            if body is not None:
                payload = body.replace("{{Count}}", str(number)).replace("{{.Count}}", str(number)).encode()
            ack = rg.publish(
                subject,
                payload,
                headers=headers or None,
                msg_id=msg_id,
                ttl=ttl,
                expected_stream=expect_stream,
                expected_last_sequence=expect_last_sequence,
                expected_last_subject_sequence=expect_last_subject_sequence,
                expected_last_msg_id=expect_last_msg_id,
            )
            _tell(subject, payload, ack, cluster.as_json)


def _tell(subject: str, payload: bytes, ack: PubAck, as_json: bool) -> None:
    if as_json:
        typer.echo(
            json.dumps({**ack.to_api(), "duplicate": ack.duplicate})
        )  # a line each, however many there are
        return
    outcome = "a duplicate of" if ack.duplicate else "stored as"
    total = "" if ack.value is None else f", total {ack.value}"
    typer.echo(f"Published {len(payload)} bytes to {subject}: {outcome} {ack.stream}#{ack.sequence}{total}")


@command
def req(
    name: Annotated[str, typer.Argument(help="A subject, or a call of the API such as STREAM.INFO.ORDERS.")],
    cluster: Cluster,
    body: Annotated[str | None, typer.Argument(help="The body.")] = None,
    header: HeaderOption = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read the body from standard input.")] = False,
) -> None:
    """Send a raw request and print the replies as they come: acks, JSON of the API, statuses."""
    with cluster.act() as rg:
        replies = rg.request(name, body_of(body, stdin), headers_of(header) or None)
    if cluster.as_json:
        print_json([_reply_object(reply) for reply in replies])
    else:
        for reply in replies:
            if reply.reply:  # a message of a consumer: where it came from, where to acknowledge it
                typer.echo(f"--- received on {reply.subject}, reply to {reply.reply}")
            if reply.status is not None:
                typer.echo(f"status {reply.status} {reply.description or ''}".rstrip())
            else:
                typer.echo(reply.body.decode("utf-8", "replace"))
    if any(_refused(reply) for reply in replies):
        raise typer.Exit(EXIT_WRONG)


def _refused(reply: Reply) -> bool:
    if reply.status is not None:
        return reply.status >= 400
    try:
        answer = reply.json()
    except ValueError:
        return False
    return isinstance(answer, dict) and "error" in answer


def _reply_object(reply: Reply) -> dict[str, Any]:
    found: dict[str, Any] = {
        "headers": [[name, value.decode("utf-8", "replace")] for name, value in reply.headers],
        "body": reply.body.decode("utf-8", "replace"),
    }
    return {**found, "subject": reply.subject, "reply": reply.reply} if reply.reply else found
