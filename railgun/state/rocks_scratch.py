"""Reading a column family of RocksDB, with its errors told apart; and the scratch space of a table, which is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rocksdict import Rdict, WriteBatch, WriteOptions

from railgun.state.rocks_options import store_options
from railgun.state.store_errors import told
from railgun.state.table import Changes

SCRATCH: Final = "scratch"


def read(db: Any, key: bytes, path: Path) -> bytes | None:
    """The value, or None. Raises StoreError."""
    try:
        value: bytes | None = db.get(key)
    except Exception as error:
        raise told(error, path) from error
    return value


def scan(db: Any, prefix: bytes, start: bytes, path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Entries whose key begins with ``prefix``, ascending, from ``start`` on. Raises StoreError, never ends early."""
    cursor = db.iter()
    try:
        cursor.seek(start)
        while cursor.valid():
            key: bytes = cursor.key()
            if not key.startswith(prefix):
                return
            yield key, cursor.value()
            cursor.next()
        cursor.status()  # raises if it is not the end but damage that ended it
    except Exception as error:
        raise told(error, path) from error
    finally:
        del cursor  # it keeps the store locked for as long as this frame is kept


class RocksScratch:
    """The scratch space of a table: a column family that nobody expects to survive."""

    def __init__(self, db: Rdict, path: Path) -> None:
        self._path = path
        db.drop_column_family(SCRATCH)
        self._db: Any = db.create_column_family(SCRATCH, store_options())
        self._handle: Any = db.get_column_family_handle(SCRATCH)
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign, assignment]  # a property in truth

    def get(self, key: bytes) -> bytes | None:
        return read(self._db, key, self._path)

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        return scan(self._db, prefix, start or prefix, self._path)

    def apply(self, changes: Changes) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in changes.items():
            if value is None:
                batch.delete(key, self._handle)
            else:
                batch.put(key, value, self._handle)
        try:
            self._db.write(batch, self._unlogged)
        except Exception as error:
            raise told(error, self._path) from error

    def clear(self, prefix: bytes) -> None:
        if next(self.scan(prefix), None) is not None:
            try:
                self._db.delete_range(prefix, prefix + b"\xff" * 64)
            except Exception as error:
                raise told(error, self._path) from error

    def close(self) -> None:
        self._db = self._handle = None  # a handle keeps the store locked
