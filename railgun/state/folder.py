"""Where a worker keeps its tables: one numbered folder per process, so that several can share a data folder.

A worker takes the lowest number that no living process holds, so after a restart it finds its own tables again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import Final

from railgun.errors import ConfigError

_MOST: Final = 256


class StateFolder:
    """A folder that this process holds until :meth:`release`, or its end."""

    def __init__(self, data_dir: Path) -> None:
        """Raises ConfigError when the folder cannot be used."""
        for number in range(_MOST):
            path = data_dir / f"state-{number}"
            try:
                path.mkdir(parents=True, exist_ok=True)
                handle = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise ConfigError(f"the data folder {data_dir} cannot be used: {error}") from error
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(handle)
                continue
            self.path, self._handle = path, handle
            for left in path.glob("*-*"):  # tables that were opened apart, by a process that is gone
                shutil.rmtree(left, ignore_errors=True)
            return
        raise ConfigError(
            f"the data folder {data_dir} is shared by more than {_MOST} workers: give each its own"
        )

    def release(self) -> None:
        os.close(self._handle)
