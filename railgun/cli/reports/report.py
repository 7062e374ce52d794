"""Streams and messages as reports for people, and as objects for machines."""

from __future__ import annotations

import base64
import contextlib
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import typer
from rich.table import Table

from railgun.cli.options.units import show_duration, show_limit, show_size, show_size_limit
from railgun.cli.output import console
from railgun.cli.reports.source_report import source_lines, source_text
from railgun.cli.reports.topic_report import topic_lines, topic_text
from railgun.model.durations import parse_rfc3339, rfc3339
from railgun.model.headers import Headers
from railgun.model.messages import StoredMessage, StreamInfo
from railgun.model.stream_config import StreamConfig, StreamSource, TopicSource

Lines = list[tuple[str, object]]

_LABEL = 22


def print_info(info: StreamInfo) -> None:
    """The report of one stream: its configuration and its state."""
    config, state = info.config, info.state
    typer.echo(f"Information for Stream {config.name} created {show_time(info.created)}\n")
    if config.description:
        print_lines([("Description", config.description)])
    copied: Lines = [("Mirror", source_text(config.mirror))] if config.mirror else []
    copied += [("Source", source_text(source)) for source in config.sources or ()]
    copied += [("Topic", topic_text(topic)) for topic in config.topics or ()]
    if config.subjects or not copied:
        copied.insert(0, ("Subjects", ", ".join(config.subjects)))
    print_lines([*copied, ("Replicas", config.num_replicas), ("Storage", config.storage)])
    print_section("Options", _options(config))
    print_section(
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
    own = own_metadata(config.metadata)
    if own:
        print_section("Metadata", sorted(own.items()))
    if info.mirror is not None:
        print_section("Mirror Information", source_lines(info.mirror))
    for source in info.sources:
        print_section("Source Information", source_lines(source))
    for topic in info.topics:
        print_section("Topic Information", topic_lines(topic))
    lines: Lines = [
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
    print_section("State", lines)
    if state.subjects is not None:
        print_section("Subjects", [(name, f"{count:,}") for name, count in sorted(state.subjects.items())])


def _options(config: StreamConfig) -> Lines:
    lines: Lines = [
        ("Retention", config.retention),
        ("Acknowledgments", yes(not config.no_ack)),
        ("Discard Policy", config.discard + (" per subject" if config.discard_new_per_subject else "")),
        ("Duplicate Window", show_duration(config.duplicate_window)),
        ("Direct Get", yes(config.allow_direct)),
        *([("Mirror Direct Get", yes(config.mirror_direct))] if config.mirror else []),
        ("Allows Msg Delete", yes(not config.deny_delete)),
        ("Allows Purge", yes(not config.deny_purge)),
        ("Allows Per-Message TTL", yes(config.allow_msg_ttl)),
        ("Allows Counters", yes(config.allow_msg_counter)),
        ("Allows Atomic Batches", yes(config.allow_atomic)),
        ("Allows Rollups", yes(config.allow_rollup_hdrs)),
    ]
    if config.subject_delete_marker_ttl:
        lines.append(("Delete Marker TTL", show_duration(config.subject_delete_marker_ttl)))
    if config.republish is not None:
        what = "headers of " if config.republish.headers_only else ""
        lines.append(("Republishes", f"{what}{config.republish.src or '>'} to {config.republish.dest}"))
    if config.sealed:
        lines.append(("Sealed", "true"))
    return lines


def print_section(title: str, lines: Iterable[tuple[str, object]], width: int = _LABEL) -> None:
    """A block of a report."""
    typer.echo(f"\n{title}:\n")
    print_lines(lines, width)


def print_lines(lines: Iterable[tuple[str, object]], width: int = _LABEL) -> None:
    """Labels, right-aligned, and their values."""
    for label, value in lines:
        typer.echo(f"{label:>{width}}: {value}")


def new_table(titles: Iterable[str], numbers: Collection[str]) -> Table:
    """An empty table with these columns; those of ``numbers`` are right-aligned."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, justify="right" if title in numbers else "left")
    return table


def print_table(table: Table) -> None:
    """The table on standard output. What stands in square brackets is text that somebody chose, and no style."""
    console().print(table, markup=False)


def print_raw(payload: bytes) -> None:
    """The body of a message on standard output, byte for byte."""
    sys.stdout.buffer.write(payload)
    sys.stdout.flush()


def yes(value: bool) -> str:
    """``true`` or ``false``, as reports have it."""
    return "true" if value else "false"


def _at(sequence: int, time: str) -> str:
    return (
        f"{sequence:,} @ {show_time(time)}" if sequence and not time.startswith("0001-") else f"{sequence:,}"
    )


def show_time(text: str) -> str:
    """A time of the API to the second; the JSON output has it exactly."""
    moment = datetime.fromtimestamp(parse_rfc3339(text) // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def print_changes(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """The changes of a configuration by an edit, one line for each field."""
    old, new = ({**one, "metadata": own_metadata(one["metadata"])} for one in (old, new))
    changed = [field for field in old if old[field] != new[field]]
    if not changed:
        typer.echo(f"{what} is unchanged: it has this configuration already\n")
        return
    typer.echo(f"{what} was changed\n")
    for field in changed:
        typer.echo(f"  {field}: {_plain(old[field])} -> {_plain(new[field])}")
    typer.echo("")


def own_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Metadata without what the platform itself notes there."""
    return {name: note for name, note in (metadata or {}).items() if not name.startswith("_nats.")}


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={note}" for name, note in sorted(value.items())) or "none"
    if value is None or isinstance(value, timedelta):
        return show_duration(value)
    if isinstance(value, StreamSource):
        return source_text(value)
    if isinstance(value, TopicSource):
        return topic_text(value)
    return ", ".join(map(_plain, value)) if isinstance(value, list) else str(value)


def print_streams(found: Sequence[StreamInfo]) -> None:
    """One line a stream."""
    if not found:
        typer.echo("No streams.", err=True)
        return
    titles = ("Name", "Subjects", "Messages", "Size", "Last Message", "Description")
    table = new_table(titles, numbers=("Messages", "Size"))
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
    print_table(table)


def print_message(stream: str, message: StoredMessage) -> None:
    """A message as ``stream get`` shows it: where it is, its headers, its body."""
    seconds, rest = divmod(message.time_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    time = f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{rest:09d}".rstrip("0") if rest else "")
    typer.echo(f"Item: {stream}#{message.sequence} received {time} +0000 UTC on Subject {message.subject}\n")
    print_headers(message.headers)
    typer.echo(message.payload.decode("utf-8", "replace"))


def print_headers(headers: Headers) -> None:
    """The headers of a message, if it has any, and an empty line."""
    if headers:
        typer.echo("Headers:")
        for name, value in headers:
            typer.echo(f"  {name}: {value.decode('utf-8', 'replace')}")
        typer.echo("")


def message_object(stream: str, message: StoredMessage) -> dict[str, Any]:
    """A message for machines."""
    return {
        "stream": stream,
        "subject": message.subject,
        "seq": message.sequence,
        "time": rfc3339(message.time_ns),
        **content_object(message.headers, message.payload),
    }


def content_object(headers: Headers, payload: bytes) -> dict[str, Any]:
    """The content of a message, for machines: the body as base64, and as text where it is UTF-8."""
    named: dict[str, list[str]] = {}
    for name, value in headers:
        named.setdefault(name, []).append(value.decode("utf-8", "replace"))
    result: dict[str, Any] = {"headers": named, "data": base64.b64encode(payload).decode("ascii")}
    with contextlib.suppress(UnicodeDecodeError):
        result["text"] = payload.decode("utf-8")
    return result
