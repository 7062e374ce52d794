"""The two rooms of the facade: ``aio``, written by hand, and ``sync``, generated from it file by file, inner rooms too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.checkout import TOP
from tests.twins.translation import Untranslatable, translate

FACADE = TOP / "railgun" / "client" / "facade"
HEADER = "# Generated from {source} by `python -m tests.twins`. Change that file, then run `make twins`.\n"


def twins(facade: Path) -> dict[Path, str]:
    """Every file of the sync room, as it must be. The ``__init__`` of a room is its own. Raises Untranslatable."""
    found = {}
    for source in sorted((facade / "aio").rglob("*.py")):
        if source.name == "__init__.py":
            continue
        place = source.relative_to(facade / "aio")
        try:
            twin = translate(source.read_text(encoding="utf-8"))
        except Untranslatable as error:
            raise Untranslatable(f"{source}: {error}") from error
        from_twin = "../" * len(place.parts) + f"aio/{place.as_posix()}"
        found[facade / "sync" / place] = _formatted(HEADER.format(source=from_twin) + twin)
    return found


def write(facade: Path) -> None:
    """Write the sync room; a twin whose async module is gone goes, too."""
    wanted = twins(facade)
    for path in _present(facade) - set(wanted):
        path.unlink()
    for path, twin in wanted.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(twin, encoding="utf-8")


def different(facade: Path) -> list[Path]:
    """The files of the sync room that are not what :func:`write` would leave: changed, missing, or left over."""
    wanted = twins(facade)
    changed = {
        path for path in wanted if not path.exists() or path.read_text(encoding="utf-8") != wanted[path]
    }
    return sorted(changed | (_present(facade) - set(wanted)))


def _present(facade: Path) -> set[Path]:
    return {path for path in (facade / "sync").rglob("*.py") if path.name != "__init__.py"}


def _formatted(source: str) -> str:
    """The source as `make format` would leave it: names without their prefix sort and wrap in another way.

    UP028 turns a loop that only yields into a ``yield from``, which async generators do not have.
    """
    fixes = ["check", "--quiet", "--select", "I,UP028", "--fix", "--unsafe-fixes"]
    for command in (fixes, ["format", "--quiet"]):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "ruff",
                *command,
                "--stdin-filename",
                str(FACADE / "sync" / "twin.py"),
                "-",
            ],
            cwd=TOP,
            input=source,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        source = done.stdout
    return source
