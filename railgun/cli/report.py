"""Streams and messages as reports for people, and as objects for machines."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import typer
from rich.table import Table

from railgun.cli.options import console
from railgun.cli.units import show_duration, show_limit, show_size, show_size_limit
from railgun.model.config import StreamConfig
from railgun.model.durations import parse_rfc3339
from railgun.model.messages import StoredMessage, StreamInfo

_LABEL = 22


def print_info(info: StreamInfo) -> None:
    """The report of one stream: its configuration and its state."""
    config, state = info.config, info.state
    typer.echo(f"Information for Stream {config.name} created {show_time(info.created)}\n")
    if config.description:
        _lines([("Description", config.description)])
    _lines(
        [
            ("Subjects", ", ".join(config.subjects)),
            ("Replicas", config.num_replicas),
            ("Storage", config.storage),
        ]
    )
    _section("Options", _options(config))
    _section(
        "Limits",
        [
            ("Maximum Messages", show_limit(config.max_msgs)),
            ("Maximum Per Subject", show_limit(config.max_msgs_per_subject)),
            ("Maximum Bytes", show_size_limit(config.max_bytes)),
            ("Maximum Age", show_duration(config.max_age) if config.max_age else "unlimited"),
            ("Maximum Message Size", show_size_limit(config.max_msg_size)),
            ("Maximum Consumers", show_limit(config.max_consumers)),
        ],
    )
    own = {name: value for name, value in (config.metadata or {}).items() if not name.startswith("_nats.")}
    if own:
        _section("Metadata", sorted(own.items()))
    lines: list[tuple[str, object]] = [
        ("Messages", f"{state.messages:,}"),
        ("Bytes", show_size(state.bytes)),
        ("FirstSeq", _at(state.first_seq, state.first_ts)),
        ("LastSeq", _at(state.last_seq, state.last_ts)),
    ]
    if state.num_deleted:
        lines.append(("Deleted Messages", f"{state.num_deleted:,}"))
    lines += [
        ("Active Consumers", state.consumer_count),
        ("Number of Subjects", f"{state.num_subjects:,}"),
    ]
    _section("State", lines)
    if state.subjects is not None:
        _section("Subjects", [(name, f"{count:,}") for name, count in sorted(state.subjects.items())])


def _options(config: StreamConfig) -> list[tuple[str, object]]:
    lines: list[tuple[str, object]] = [
        ("Retention", config.retention),
        ("Acknowledgments", _yes(not config.no_ack)),
        ("Discard Policy", config.discard + (" per subject" if config.discard_new_per_subject else "")),
        ("Duplicate Window", show_duration(config.duplicate_window)),
        ("Direct Get", _yes(config.allow_direct)),
        ("Allows Msg Delete", _yes(not config.deny_delete)),
        ("Allows Purge", _yes(not config.deny_purge)),
        ("Allows Per-Message TTL", _yes(config.allow_msg_ttl)),
        ("Allows Rollups", _yes(config.allow_rollup_hdrs)),
    ]
    if config.subject_delete_marker_ttl:
        lines.append(("Delete Marker TTL", show_duration(config.subject_delete_marker_ttl)))
    if config.sealed:
        lines.append(("Sealed", "true"))
    return lines


def _section(title: str, lines: Iterable[tuple[str, object]]) -> None:
    typer.echo(f"\n{title}:\n")
    _lines(lines)


def _lines(lines: Iterable[tuple[str, object]]) -> None:
    for label, value in lines:
        typer.echo(f"{label:>{_LABEL}}: {value}")


def _yes(value: bool) -> str:
    return "true" if value else "false"


def _at(sequence: int, time: str) -> str:
    return (
        f"{sequence:,} @ {show_time(time)}" if sequence and not time.startswith("0001-") else f"{sequence:,}"
    )


def show_time(text: str) -> str:
    """A time of the API to the second; the JSON output has it exactly."""
    moment = datetime.fromtimestamp(parse_rfc3339(text) // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def print_streams(found: Sequence[StreamInfo]) -> None:
    """One line a stream."""
    if not found:
        typer.echo("No streams.", err=True)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Name", "Subjects", "Messages", "Size", "Last Message", "Description"):
        table.add_column(title, justify="right" if title in ("Messages", "Size") else "left")
    for info in found:
        last = "never" if info.state.last_ts.startswith("0001-") else show_time(info.state.last_ts)
        table.add_row(
            info.config.name,
            ", ".join(info.config.subjects),
            f"{info.state.messages:,}",
            show_size(info.state.bytes),
            last,
            info.config.description or "",
        )
    console().print(table)


def print_message(stream: str, message: StoredMessage) -> None:
    """A message as ``stream get`` shows it: where it is, its headers, its body."""
    seconds, rest = divmod(message.time_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    time = f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{rest:09d}".rstrip("0") if rest else "")
    typer.echo(f"Item: {stream}#{message.sequence} received {time} +0000 UTC on Subject {message.subject}\n")
    if message.headers:
        typer.echo("Headers:")
        for name, value in message.headers:
            typer.echo(f"  {name}: {value.decode('utf-8', 'replace')}")
        typer.echo("")
    typer.echo(message.payload.decode("utf-8", "replace"))


def message_object(stream: str, message: StoredMessage) -> dict[str, Any]:
    """A message for machines: the body as base64, and as text where it is UTF-8."""
    headers: dict[str, list[str]] = {}
    for name, value in message.headers:
        headers.setdefault(name, []).append(value.decode("utf-8", "replace"))
    api = message.to_api()
    result: dict[str, Any] = {
        "stream": stream,
        "subject": message.subject,
        "seq": message.sequence,
        "time": api["time"],
        "headers": headers,
        "data": base64.b64encode(message.payload).decode("ascii"),
    }
    with contextlib.suppress(UnicodeDecodeError):
        result["text"] = message.payload.decode("utf-8")
    return result
