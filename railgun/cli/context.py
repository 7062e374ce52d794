"""Which cluster a command talks to, and the note that ``railgun up`` leaves for it.

The order: ``--server``, else ``RAILGUN_SERVER``, else the last ``railgun up`` while it runs, else localhost:9092.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Final

import typer

from railgun.kafka.processes import process_alive

SERVER_VARIABLE: Final = "RAILGUN_SERVER"
FALLBACK_SERVER: Final = "localhost:9092"

#: The type of every command's ``--server``; resolve its value with :func:`default_server`.
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        "-s",
        help=f"Kafka address; else ${SERVER_VARIABLE}, the last `railgun up`, {FALLBACK_SERVER}.",
    ),
]


def default_server(given: str | None = None) -> str:
    """The address to connect to, by the order above. Never fails: an unreadable note counts as none."""
    return given or os.environ.get(SERVER_VARIABLE) or last_up() or FALLBACK_SERVER


def last_up() -> str | None:
    """The address of the last ``railgun up``, or None when that process is gone."""
    try:
        note = json.loads(_note_file().read_text(encoding="utf-8"))
        pid, bootstrap = int(note["pid"]), str(note["bootstrap"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return bootstrap if process_alive(pid) else None


def remember_up(bootstrap: str) -> None:
    """Note that this process serves at the address. Raises OSError when the state folder cannot be written."""
    file = _note_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.write_text(json.dumps({"pid": os.getpid(), "bootstrap": bootstrap}), encoding="utf-8")
    draft.replace(file)


def forget_up() -> None:
    """Remove the note if it is this process's own; a newer ``railgun up`` keeps its note."""
    file = _note_file()
    try:
        mine = json.loads(file.read_text(encoding="utf-8")).get("pid") == os.getpid()
    except (OSError, ValueError, AttributeError):
        return
    if mine:
        file.unlink(missing_ok=True)


def _note_file() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "railgun" / "last-up"
