"""Sinks as reports for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from railgun.cli.reports.report import new_table, print_lines, print_table

if TYPE_CHECKING:
    from railgun.sinks import SinkStatus

_WIDTH = 12


def print_sink(status: SinkStatus) -> None:
    """One sink: what it reads, and how it is."""
    kind = status.connector_class.rpartition(".")[2]
    lines: list[tuple[str, object]] = [
        ("Stream", f"{status.stream} (incarnation {status.incarnation})"),
        ("Connector", f"{kind} at {status.connector.worker or 'no worker'}"),
        ("State", status.state),
    ]
    lines += [(f"Task {task.number}", f"{task.state} at {task.worker}") for task in status.tasks]
    if status.reason:
        lines.append(("Reason", status.reason))
    print_lines(lines, _WIDTH)


def print_sinks(found: Sequence[SinkStatus]) -> None:
    """A line for each sink."""
    if not found:
        typer.echo("Kafka Connect runs no sink of railgun's.", err=True)
        return
    table = new_table(("Name", "Stream", "Connector", "State", "Reason"), numbers=())
    for one in found:
        table.add_row(one.name, one.stream, one.connector_class.rpartition(".")[2], one.state, one.reason)
    print_table(table)
