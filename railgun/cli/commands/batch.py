"""``railgun batch``: the lines of a file, stored together or not at all."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from railgun.cli.options.cluster import Cluster
from railgun.cli.output import print_json, progress
from railgun.cli.running import command
from railgun.errors import ConfigError

_OPTIONS: Final[dict[str, type | tuple[type, ...]]] = {
    "headers": dict,
    "ttl": (str, int, float),
    "expected_stream": str,
    "expected_last_sequence": int,
    "expected_last_subject_sequence": int,
    "expected_last_subject_sequence_subject": str,
}


def messages_in(text: bytes) -> Iterator[tuple[str, bytes, dict[str, Any]]]:
    """Subject, payload and options of each line that is not empty. Raises ConfigError, with the line's number."""
    for number, line in enumerate(text.split(b"\n"), 1):
        stripped = line.removesuffix(b"\r")
        if not stripped.strip():
            continue
        try:
            yield _of_json(stripped) if stripped.startswith(b"{") else _of_text(stripped)
        except ValueError as error:
            raise ConfigError(f"line {number} is not a message: {error}") from error


def _of_text(line: bytes) -> tuple[str, bytes, dict[str, Any]]:
    subject, _, payload = line.partition(b" ")
    if not subject:
        raise ValueError("it begins with a space, and not with a subject")
    return subject.decode("utf-8"), payload, {}


def _of_json(line: bytes) -> tuple[str, bytes, dict[str, Any]]:
    try:
        found = json.loads(line)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error
    subject, payload = found.pop("subject", None), found.pop("payload", "")
    if not isinstance(subject, str) or not isinstance(payload, str):
        raise ValueError("its JSON has no subject, or a subject or payload that is not a text")
    for name, value in found.items():
        kinds = _OPTIONS.get(name)
        if kinds is None or not isinstance(value, kinds) or isinstance(value, bool):
            raise ValueError(f"{name!r} is not a valid field of its JSON, or has a value that it cannot have")
    return subject, payload.encode("utf-8"), found


@command
def batch(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file; -: standard input.")],
    cluster: Cluster,
) -> None:
    """Store the lines of a file as one batch: all of them, or none.

    A line is a subject, a space and the message; or a JSON object with subject, payload and options.
    """
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"the file {file} cannot be read: {error.strerror}") from error
    found = list(messages_in(text))
    with cluster.act() as rg, progress("storing", len(found)) as step:
        with rg.batch() as messages:
            for subject, payload, options in found:
                messages.add(subject, payload, **options)
        step(len(found))
    ack = messages.ack
    if cluster.as_json:
        print_json({"count": 0} if ack is None else ack.to_api())
    elif ack is not None:
        typer.echo(f"Stored {ack.count} messages together: the last is {ack.stream}#{ack.sequence}")
    else:
        typer.echo(f"Sent {len(found)} messages to a stream without acks" if found else "The batch is empty.")
