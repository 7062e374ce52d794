"""A report as text: the table for the terminal, and the page for the documentation. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.benchmarks.results import Goal, Report, Result

HEADER: Final = ("work", "railgun", "peer", "", "unit", "ratio", "goal")
Goals = Mapping[tuple[str, str], Goal]  # by name of the row and of the peer


def text_table(report: Report, goals: Goals) -> str:
    """Columns aligned with spaces, numbers to the right."""
    lines = [HEADER, *_cells(report, goals)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    rows = ["  ".join(_aligned(cell, widths[i], i) for i, cell in enumerate(line)).rstrip() for line in lines]
    rows.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*rows, *_missing(report), "", _circumstances(report)]) + "\n"


def markdown_page(report: Report, goals: Goals, plot: str) -> str:
    """The page: what was measured, the plot, the table, machine and versions."""
    table = [_bars(HEADER), _bars(["---", "---:", "---:", "---", "---", "---:", "---"])]
    table += [_bars(cells) for cells in _cells(report, goals)]
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "railgun, nats-server with nats-py, and raw Kafka (confluent-kafka), measured by `make bench` in one run on one",
            "machine, in turn, round by round; each number is the median of the rounds. Messages have 128 bytes. All parts share",
            "the machine's cores, so the ratios say more than the numbers. `ratio` is railgun's number divided by the peer's:",
            "more is better where the unit is a rate, less where it is a time or a size. This page is written by the run.",
            "",
            f"![how many times better than the peer]({plot})",
            "",
            *table,
            *_anew(report),
            *_missing(report),
            "",
            "- nats-py publishes with `publish_async` and awaits every ack, railgun with `publish_soon` and reads every ack.",
            "- Consumers have explicit acks and may have 10,000 messages in flight. nats-py has no `messages()`: where railgun iterates,",
            "  nats-py fetches 500 at a time. A round ends when the server says that no ack is missing. Four competing clients are",
            "  four processes. From publish to handler: a message every 50 ms, to a push consumer. The raw Kafka floor of `messages()`",
            "  is a plain consumer that reads such a log and acks nothing.",
            "- Neither nats-server nor Kafka syncs each message to the platter with its default settings; those are used here.",
            "- The raw Kafka floor of a publish is a produce with acks=all, one transaction that holds a message, a state record, a",
            "  reply and the consumer's offset, and the read of the committed reply: what any exactly-once answer on Kafka pays.",
            "- A nats-server that restarts finds its files; railgun's worker starts with an empty disk and restores from Kafka.",
            "",
            _circumstances(report),
        ]
    ) + "\n"  # fmt: skip


def _cells(report: Report, goals: Goals) -> list[tuple[str, ...]]:
    return [
        (
            result.name,
            _number(result.railgun),
            _number(result.peer),
            result.peer_name,
            result.unit,
            f"{result.ratio:.2f} ×",
            _judged(goals.get((result.name, result.peer_name)), result),
        )
        for result in report.results
    ]


def _judged(goal: Goal | None, result: Result) -> str:
    if goal is None:
        return ""
    return f"{goal.text} ({'met' if goal.met(result) else 'missed'})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if column in (1, 2, 5) else cell.ljust(width)


def _bars(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _missing(report: Report) -> list[str]:
    if not report.missing:
        return []
    return ["", "Not measured:", "", *(f"- {name}: {why}" for name, why in report.missing.items())]


def _anew(report: Report) -> list[str]:
    """Which rows are of a later run than the page."""
    rows: dict[str, list[str]] = {}
    for result in report.results:
        if result.date and result.name not in rows.setdefault(result.date, []):
            rows[result.date].append(result.name)
    if not rows:
        return []
    return [
        "",
        "Measured later, each beside its peer:",
        "",
        *(f"- {date}: {'; '.join(rows[date])}" for date in sorted(rows)),
    ]


def _circumstances(report: Report) -> str:
    machine = ", ".join(report.machine.values())
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return f"{report.date} on {machine}.\n\n{versions}."
