"""The findings of ``railgun doctor``: one for each check, with a remedy where something is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import typer

from railgun.cli.output import console

Verdict = Literal["ok", "note", "wrong"]
_MARKS: dict[Verdict, str] = {"ok": "[green]ok[/]   ", "note": "[yellow]note[/] ", "wrong": "[red]wrong[/]"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer: ``ok``; ``note``, good to know; or ``wrong``, with the remedy."""

    check: str
    verdict: Verdict
    text: str
    remedy: str = ""

    def as_object(self) -> dict[str, Any]:
        return asdict(self)


def ok(check: str, text: str) -> Finding:
    return Finding(check, "ok", text)


def note(check: str, text: str, remedy: str = "") -> Finding:
    return Finding(check, "note", text, remedy)


def wrong(check: str, text: str, remedy: str) -> Finding:
    return Finding(check, "wrong", text, remedy)


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def print_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Print each as it comes, and return them all."""
    out, seen = console(), []
    for finding in findings:
        seen.append(finding)
        out.print(_MARKS[finding.verdict], end=" ")
        out.print(f"{finding.check:<13} {finding.text}", markup=False)
        if finding.remedy:
            out.print(f"{'':<20}→ {finding.remedy}", markup=False)
    bad = sum(finding.verdict == "wrong" for finding in seen)
    typer.echo(f"\n{bad} of {len(seen)} checks found something wrong" if bad else "\nall is well")
    return seen
