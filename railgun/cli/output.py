"""Standard output: JSON documents for machines, tables and colours for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn


def print_json(value: Mapping[str, Any] | list[Any]) -> None:
    """One JSON document on standard output."""
    typer.echo(printable(json.dumps(value, indent=2, ensure_ascii=False)))


def printable(text: str) -> str:
    """The text with halves of characters escaped, as JSON escapes them: no output takes them.

    Names of files that are not UTF-8 have them, and JSON that others wrote may.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def console() -> Console:
    """Standard output for tables and colours; plain and without line breaks of its own where it is not a terminal."""
    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else 400, highlight=False, emoji=False)


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error if that is a terminal; nothing otherwise."""
    err = Console(stderr=True, markup=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


@contextmanager
def progress_to(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for work whose end moves: it is told how far it is, and where the end is now."""
    err = Console(stderr=True, markup=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
