"""The cluster that a command talks to, or the Connect, and the note that ``railgun up`` leaves for it.

The order: ``--server``, else ``RAILGUN_SERVER``, else a ``railgun up`` that runs in this folder or in one above it, else
localhost:9092. An ``up`` of another folder is never found: a command that removes a stream must not meet the cluster of another
project.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from railgun.kafka.processes import process_alive

SERVER_VARIABLE: Final = "RAILGUN_SERVER"
FALLBACK_SERVER: Final = "localhost:9092"
CONNECT_VARIABLE: Final = "RAILGUN_CONNECT"
FALLBACK_CONNECT: Final = "http://localhost:8083"
_NOTE: Final = Path(".railgun") / "up.json"
_CHECKOUT: Final = ".git"

#: The type of every command's ``--server``; resolve its value with :func:`find_server`.
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        "-s",
        help=f"Kafka address; else ${SERVER_VARIABLE}, a `railgun up` of this folder, {FALLBACK_SERVER}.",
    ),
]


class Server(NamedTuple):
    """An address, and who named it."""

    address: str
    source: str

    def __str__(self) -> str:
        return f"{self.address} ({self.source})"


def find_server(given: str | None = None, source: str = "--server") -> Server:
    """The address to connect to, by the order above. Never fails: an unreadable note counts as none."""
    if given:
        return Server(given, source)
    named = os.environ.get(SERVER_VARIABLE)
    if named:
        return Server(named, f"${SERVER_VARIABLE}")
    return local_up() or Server(FALLBACK_SERVER, "the usual address")


def find_connect(given: str | None = None) -> Server:
    """The address of Kafka Connect, by the same order: ``--connect``, ``RAILGUN_CONNECT``, a local up, the usual port."""
    if given:
        return Server(given, "--connect")
    named = os.environ.get(CONNECT_VARIABLE)
    if named:
        return Server(named, f"${CONNECT_VARIABLE}")
    return _noted("connect") or Server(FALLBACK_CONNECT, "the usual address")


def local_up() -> Server | None:
    """The ``railgun up`` that runs in this folder, or in the nearest one above it; None when there is none."""
    return _noted("bootstrap")


def _noted(what: str) -> Server | None:
    """An address in the note of the ``railgun up`` that runs here; None when there is none, or it has no such address."""
    for folder in _own_folders():
        try:
            note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
            pid, address = int(note["pid"]), str(note[what])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if process_alive(pid):
            return Server(address, f"local up of {folder}")
    return None


def _own_folders() -> Iterator[Path]:
    """The current folder and those above it that belong to the same work.

    In a checkout they end with its top; elsewhere in the user's home, below the home itself; anywhere else (``/tmp``) only the
    current folder is the user's own.
    """
    try:
        here = Path.cwd()
    except OSError:  # the folder was removed meanwhile
        return
    yield here
    line = [here, *here.parents]
    top = next((at for at, folder in enumerate(line) if (folder / _CHECKOUT).exists()), None)
    if top is not None:
        yield from line[1 : top + 1]
    home = Path("~").expanduser().resolve()  # as the current folder is given
    if top is None and home in line[1:]:
        yield from line[1 : line.index(home)]


def remember_up(bootstrap: str, connect: str | None = None) -> Path:
    """Note in the current folder, which is returned, that this process serves at the addresses. Raises OSError."""
    folder = Path.cwd()
    file = folder / _NOTE
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    note = {"pid": os.getpid(), "bootstrap": bootstrap, **({"connect": connect} if connect else {})}
    draft.write_text(json.dumps(note), encoding="utf-8")
    draft.replace(file)
    return folder


def forget_up(folder: Path) -> None:
    """Remove the note in the folder if it is this process's own; a newer ``railgun up`` keeps its note."""
    file = folder / _NOTE
    try:
        mine = json.loads(file.read_text(encoding="utf-8")).get("pid") == os.getpid()
    except (OSError, ValueError, AttributeError):
        return
    if mine:
        file.unlink(missing_ok=True)
