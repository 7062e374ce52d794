"""A worker whose disk is full whenever the file ``full`` in its folder says so: ``python -m tests.support.full_disk_worker``.

The file holds how many writes of its tables fail; nothing else about the worker is unlike any other.
"""

from __future__ import annotations

from pathlib import Path

from rocksdict import WriteBatch

from railgun.cli.main import run
from railgun.state.rocks import RocksTable

_FULL = Path("full")
_honest = RocksTable._write


def _write(table: RocksTable, batch: WriteBatch) -> None:
    left = int(_FULL.read_text() or 0) if _FULL.exists() else 0  # empty: it is being written
    if left:
        _FULL.write_text(str(left - 1))
        raise Exception("IO error: No space left on device: While appending to file: 000004.log")
    _honest(table, batch)


if __name__ == "__main__":
    RocksTable._write = _write  # type: ignore[method-assign]
    run()
