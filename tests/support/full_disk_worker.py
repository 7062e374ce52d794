"""A worker whose disk is full whenever the file ``full`` in its folder says so: ``python -m tests.support.full_disk_worker``.

The file holds the shard whose table cannot be written and how many of its writes fail (``3 1``); nothing else about the
worker is unlike any other.
"""

from __future__ import annotations

from pathlib import Path

from rocksdict import WriteBatch

from railgun.cli.main import run
from railgun.state.rocks import RocksTable

_FULL = Path("full")
_honest = RocksTable._write


def _write(table: RocksTable, batch: WriteBatch) -> None:
    text = _FULL.read_text() if _FULL.exists() else ""  # empty: it is being written
    shard, left = text.split() if text else ("", "0")
    if shard == table._path.name and int(left):
        _FULL.write_text(f"{shard} {int(left) - 1}")
        raise Exception("IO error: No space left on device: While appending to file: 000004.log")
    _honest(table, batch)


if __name__ == "__main__":
    RocksTable._write = _write  # type: ignore[method-assign]
    run()
