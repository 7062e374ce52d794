"""Consumers and what they deliver, as reports for people and as objects for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from railgun.cli.options.units import show_duration, show_limit, show_size_limit
from railgun.cli.reports.report import (
    Lines,
    content_object,
    new_table,
    own_metadata,
    print_headers,
    print_lines,
    print_section,
    print_table,
    show_time,
    yes,
)
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.consumer_info import ConsumerInfo, SequencePair
from railgun.model.durations import rfc3339

if TYPE_CHECKING:
    from railgun.client.facade.sync.message import Message

_LABEL = 24


def print_info(info: ConsumerInfo) -> None:
    """The report of one consumer: its configuration and its state."""
    config = info.config
    typer.echo(f"Information for Consumer {info.stream_name} > {info.name} created {show_time(info.created)}")
    print_section("Configuration", _configuration(info.name, config), _LABEL)
    own = own_metadata(config.metadata)
    if own:
        print_section("Metadata", sorted(own.items()), _LABEL)
    typer.echo("\nState:\n")
    print_lines(state_lines(info), _LABEL)


def state_lines(info: ConsumerInfo) -> Lines:
    """The state as the walk-through of the documentation shows it; its first pair is what comes *next* (SEQ-02)."""
    following = SequencePair(info.delivered.consumer_seq + 1, info.delivered.stream_seq + 1)
    lines: Lines = [
        ("Last Delivered Message", _pair(info.delivered)),
        ("Next Message", _pair(following)),
        ("Acknowledgment floor", _pair(info.ack_floor)),
        ("Pending Messages", f"{info.num_ack_pending:,}"),
        ("Redelivered Messages", f"{info.num_redelivered:,}"),
        ("Unprocessed Messages", f"{info.num_pending:,}"),
    ]
    if info.config.is_push:
        lines.append(("Active Interest", yes(info.push_bound)))
    else:
        lines.append(("Waiting Pulls", f"{info.num_waiting:,}"))
    return lines


def _pair(pair: SequencePair) -> str:
    return f"Consumer sequence: {pair.consumer_seq:,} Stream sequence: {pair.stream_seq:,}"


def _configuration(name: str, config: ConsumerConfig) -> Lines:
    lines: Lines = []
    if config.description:
        lines.append(("Description", config.description))
    lines.append(("Durable Name", name) if config.durable_name else ("Name", f"{name} (ephemeral)"))
    if config.is_push:
        lines.append(("Delivery Subject", config.deliver_subject))
        if config.deliver_group:
            lines.append(("Delivery Group", config.deliver_group))
    else:
        lines.append(("Pull Mode", "true"))
    if config.filters:
        lines.append(("Filter Subject", ", ".join(config.filters)))
    lines += [
        ("Deliver Policy", _start(config)),
        ("Ack Policy", config.ack_policy),
    ]
    if config.ack_policy != "none":
        lines += [
            ("Ack Wait", show_duration(config.ack_wait)),
            ("Maximum Pending", show_limit(-1 if config.max_ack_pending is None else config.max_ack_pending)),
        ]
        if config.max_ack_pending_per_subject:
            lines.append(("Pending Per Subject", show_limit(config.max_ack_pending_per_subject)))
    if config.backoff:
        lines.append(("Backoff", ", ".join(show_duration(one) for one in config.backoff)))
    lines.append(("Replay Policy", config.replay_policy))
    if config.max_deliver is not None and config.max_deliver > 0:
        lines.append(("Maximum Deliveries", show_limit(config.max_deliver)))
    if config.dead_letter:
        lines.append(("Dead Letters", config.dead_letter))
    if config.sample_freq:
        lines.append(("Sampling Rate", config.sample_freq))
    return lines + _rarer(config)


def _rarer(config: ConsumerConfig) -> Lines:
    lines: Lines = []
    if config.idle_heartbeat:
        lines.append(("Idle Heartbeat", show_duration(config.idle_heartbeat)))
    if config.flow_control:
        lines.append(("Flow Control", "true"))
    if config.rate_limit_bps:
        lines.append(("Rate Limit", f"{config.rate_limit_bps:,} bits/s"))
    if config.headers_only:
        lines.append(("Headers Only", "true"))
    if config.max_waiting:
        lines.append(("Maximum Waiting Pulls", show_limit(config.max_waiting)))
    if config.max_batch:
        lines.append(("Maximum Pull Batch", show_limit(config.max_batch)))
    if config.max_expires:
        lines.append(("Maximum Pull Expiry", show_duration(config.max_expires)))
    if config.max_bytes:
        lines.append(("Maximum Pull Bytes", show_size_limit(config.max_bytes)))
    if config.inactive_threshold:
        lines.append(("Inactive Threshold", show_duration(config.inactive_threshold)))
    return lines


def _start(config: ConsumerConfig) -> str:
    if config.deliver_policy == "by_start_sequence":
        return f"from sequence {config.opt_start_seq}"
    if config.deliver_policy == "by_start_time":
        return f"since {config.opt_start_time}"
    return config.deliver_policy.replace("_", " ")


def print_consumers(stream: str, found: Sequence[ConsumerInfo]) -> None:
    """One line a consumer."""
    if not found:
        typer.echo(f"Stream {stream} has no consumers.", err=True)
        return
    titles = ("Name", "Mode", "Filter", "Ack Policy", "Pending", "Unprocessed", "Created", "Description")
    table = new_table(titles, numbers=("Pending", "Unprocessed"))
    for info in found:
        table.add_row(
            info.name,
            "push" if info.config.is_push else "pull",
            ", ".join(info.config.filters) or "all",
            info.config.ack_policy,
            f"{info.num_ack_pending:,}",
            f"{info.num_pending:,}",
            show_time(info.created),
            info.config.description or "",
        )
    print_table(table)


def print_report(stream: str, found: Sequence[ConsumerInfo]) -> None:
    """The progress of each consumer of a stream."""
    if not found:
        typer.echo(f"Stream {stream} has no consumers.", err=True)
        return
    numbers = ("Ack Wait", "Pending", "Redelivered", "Unprocessed", "Delivered", "Ack Floor")
    table = new_table(("Consumer", "Mode", "Ack Policy", *numbers), numbers)
    for info in found:
        table.add_row(
            info.name,
            "push" if info.config.is_push else "pull",
            info.config.ack_policy,
            show_duration(info.config.ack_wait) if info.config.ack_policy != "none" else "",
            f"{info.num_ack_pending:,}",
            f"{info.num_redelivered:,}",
            f"{info.num_pending:,}",
            f"{info.delivered.consumer_seq:,}/{info.delivered.stream_seq:,}",
            f"{info.ack_floor.consumer_seq:,}/{info.ack_floor.stream_seq:,}",
        )
    print_table(table)


def print_delivered(message: Message) -> None:
    """A message as ``consumer next`` shows it: where it came from, its headers, its body."""
    typer.echo(
        f"--- received on {message.subject}: stream sequence {message.sequence}, consumer sequence "
        f"{message.consumer_sequence}, delivery {message.deliveries}, {message.pending:,} to come"
    )
    print_headers(message.headers)
    typer.echo(message.payload.decode("utf-8", "replace"))


def delivered_object(message: Message) -> dict[str, Any]:
    """The same for machines."""
    return {
        "stream": message.stream,
        "consumer": message.consumer,
        "subject": message.subject,
        "stream_seq": message.sequence,
        "consumer_seq": message.consumer_sequence,
        "deliveries": message.deliveries,
        "pending": message.pending,
        "time": rfc3339(message.time_ns),
        **content_object(message.headers, message.payload),
    }
