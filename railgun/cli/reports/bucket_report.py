"""Buckets and their entries as reports for people, and as objects for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from railgun.cli.options.units import show_duration, show_size, show_size_limit
from railgun.cli.output import print_json
from railgun.cli.reports.report import (
    Lines,
    content_object,
    new_table,
    own_metadata,
    print_lines,
    print_section,
    print_table,
    show_time,
    yes,
)
from railgun.model.bucket_config import BucketStatus
from railgun.model.bucket_entry import Entry
from railgun.model.durations import rfc3339

_SHORT = 60  # characters of a value in a list


def entry_object(entry: Entry) -> dict[str, Any]:
    """An entry for machines: the value as base64, and as text where it is UTF-8."""
    return {
        "bucket": entry.bucket,
        "key": entry.key,
        "revision": entry.revision,
        "operation": entry.operation,
        "created": rfc3339(entry.time_ns),
        "delta": entry.delta,
        **content_object(entry.headers, entry.raw),
    }


def print_entry(entry: Entry) -> None:
    """An entry as ``kv get`` shows it: where it is, and its value."""
    typer.echo(f"{_where(entry)} created {show_time(rfc3339(entry.time_ns))}\n")
    typer.echo(entry.raw.decode("utf-8", "replace"))


def print_change(entry: Entry) -> None:
    """An entry as ``kv watch`` shows it: a line."""
    value = f": {entry.raw.decode('utf-8', 'replace')}" if entry.is_value and entry.raw else ""
    typer.echo(f"[{show_time(rfc3339(entry.time_ns))}] {entry.operation} {_where(entry)}{value}")


def print_history(entries: Sequence[Entry]) -> None:
    """A line an entry, oldest first."""
    table = new_table(("Revision", "Operation", "Created", "Length", "Value"), numbers=("Revision", "Length"))
    for entry in entries:
        text = entry.raw.decode("utf-8", "replace")
        table.add_row(
            str(entry.revision),
            entry.operation,
            show_time(rfc3339(entry.time_ns)),
            f"{len(entry.raw):,}",
            text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…",
        )
    print_table(table)


def status_object(status: BucketStatus) -> dict[str, Any]:
    """The status of a bucket for machines; durations are in seconds."""
    found: dict[str, Any] = {
        "bucket": status.bucket,
        "values": status.values,
        "history": status.history,
        "ttl": None if status.ttl is None else status.ttl.total_seconds(),
        "limit_marker_ttl": (
            None if status.limit_marker_ttl is None else status.limit_marker_ttl.total_seconds()
        ),
        "bytes": status.bytes,
        "backing_store": status.backing_store,
        "replicas": status.replicas,
        "stream": status.config.stream,
        "config": status.config.model_dump(mode="json"),
    }
    if status.is_replica:  # KV-45, KV-48
        active = None if status.active is None else status.active.total_seconds()
        found |= {"may_be_stale": True, "lag": status.lag, "active": active}
    return found


def print_status(status: BucketStatus) -> None:
    """The report of one bucket."""
    config = status.config
    typer.echo(f"Information for Bucket {status.bucket} in Stream {config.stream}\n")
    lines: Lines = [("Description", config.description)] if config.description else []
    lines += [
        ("History Kept", status.history),
        ("Values Stored", f"{status.values:,}"),
        ("Bytes", show_size(status.bytes)),
        ("Backing Store", status.backing_store),
        ("Storage", config.storage),
        ("Replicas", status.replicas),
        ("Maximum Age", show_duration(status.ttl) if status.ttl else "unlimited"),
        ("Marker TTL", show_duration(status.limit_marker_ttl)),
        ("Maximum Value Size", show_size_limit(config.max_value_size)),
        ("Maximum Bytes", show_size_limit(config.max_bytes)),
        ("Dotted Keys", yes(config.dotted_keys)),
        ("Marker Deletes", yes(config.marker_deletes)),
    ]
    print_lines(lines)
    if status.is_replica:
        active = "never" if status.active is None else f"{show_duration(status.active)} ago"
        of = config.mirror.name if config.mirror else ""
        print_section("Replica, which may be stale", [("Of", of), ("Lag", status.lag), ("Active", active)])
    own = own_metadata(config.metadata)
    if own:
        print_section("Metadata", sorted(own.items()))


def print_buckets(found: Sequence[BucketStatus]) -> None:
    """One line a bucket."""
    if not found:
        typer.echo("No buckets.", err=True)
        return
    table = new_table(
        ("Bucket", "Values", "Size", "History", "TTL", "Description"), numbers=("Values", "Size", "History")
    )
    for status in found:
        table.add_row(
            status.bucket,
            f"{status.values:,}",
            show_size(status.bytes),
            str(status.history),
            show_duration(status.ttl),
            status.config.description or "",
        )
    print_table(table)


def print_written(done: str, bucket: str, key: str, revision: int, as_json: bool) -> None:
    """What a write did, and the revision that it made."""
    if as_json:
        print_json({"bucket": bucket, "key": key, "revision": revision})
    else:
        typer.echo(f"{done} {bucket} > {key}: revision {revision}")


def print_removed(bucket: str, count: int, one: str, many: str, as_json: bool) -> None:
    """How much a command removed."""
    if as_json:
        print_json({"bucket": bucket, "removed": count})
    else:
        typer.echo(f"Removed {count:,} {one if count == 1 else many} of bucket {bucket}")


def _where(entry: Entry) -> str:
    return f"{entry.bucket} > {entry.key} revision {entry.revision}"
