"""Standard output: JSON documents for machines, tables and colours for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console


def print_json(value: Mapping[str, Any] | list[Any]) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def console() -> Console:
    """Standard output for tables and colours; plain and without line breaks of its own where it is not a terminal."""
    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else 400, highlight=False, emoji=False)
