"""The table on disk: RocksDB, written by whole drains, with the place in the changelog that it reflects.

Guarantees: what :meth:`RocksTable.apply` writes is there whole or not at all, together with the changelog position, so a
store that was killed only has to read the changelog on from there. The changelog is the truth and this is a copy: a
store that is found damaged when it is opened, that belongs to another changelog, or that slept too long is wiped, and
says so in the log; damage that is found later is a :class:`StoreDamaged`, and the caller's to answer. Nothing is synced
to the platter for the same reason. One process at a time: RocksDB's own lock sees to it.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rocksdict import Options, Rdict, WriteBatch

from railgun.state.rocks_options import companion_options, store_options
from railgun.state.rocks_scratch import SCRATCH, RocksScratch, read, scan
from railgun.state.store_errors import StoreDamaged, let_go_of, told
from railgun.state.table import NO_COMPANIONS, Changes, Reached

log = logging.getLogger("railgun.state")

_META: Final = "meta"
_COMPANIONS: Final = "companions"
_MARK: Final = b"mark"
# Seconds: little against the hours of a store's greatest age, much for a clock that is kept right.
_AHEAD: Final = 300.0
_NOTHING: Final = Reached(0)


class RocksTable:
    """A table in a folder, which knows how far it has followed its changelog."""

    def __init__(
        self, path: Path, *, identity: str, max_age: float, clock: Callable[[], float] = time.time
    ) -> None:
        """Open, or wipe and begin anew.

        ``identity`` names the changelog that the store follows; ``max_age`` is for how many seconds a store that nobody
        updated may be trusted: past it, compaction may have dropped the tombstones of keys that it still holds.
        """
        self._path = path
        self._meta: Any = None
        self._companions: Any = None
        self._beside: Any = None
        self.scratch: RocksScratch
        self._identity = identity
        self._max_age = max_age
        self._clock = clock
        self._db, self._reached = self._open()

    @property
    def position(self) -> int:
        """The next changelog offset that it has not seen."""
        return self._reached.position

    @property
    def trusted_until(self) -> float | None:
        """The broker's time, ms, after which the store may hold keys whose tombstones are gone; None: not known."""
        return self._reached.written + self._max_age * 1000 if self._reached.written else None

    # ------------------------------------------------------------ the contract of a table

    def get(self, key: bytes) -> bytes | None:
        return read(self._db, key, self._path)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        try:
            values: Any = self._db.get(list(keys))
        except Exception as error:
            raise told(error, self._path) from error
        found: list[bytes | None] = values
        return found

    def floor(self, prefix: bytes, key: bytes) -> tuple[bytes, bytes] | None:
        cursor = self._db.iter()
        try:
            cursor.seek_for_prev(key)
            if not cursor.valid():
                cursor.status()  # raises if it is not the beginning but damage that ended it
                return None
            found: bytes = cursor.key()
            return (found, cursor.value()) if found.startswith(prefix) else None
        except Exception as error:
            raise told(error, self._path) from error
        finally:
            del cursor

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        return scan(self._db, prefix, start or prefix, self._path)

    def companion(self, key: bytes) -> bytes | None:
        return read(self._beside, key, self._path)

    def apply(
        self,
        changes: Changes,
        companions: Mapping[bytes, bytes] = NO_COMPANIONS,
        reached: Reached | None = None,
    ) -> None:
        """All of the changes and the new position; after a crash, or a StoreError, none of them."""
        reached = self._reached if reached is None else reached
        batch = WriteBatch(raw_mode=True)
        for key, value in changes.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        for key, value in companions.items():
            batch.put(key, value, self._companions)
        batch.put(_MARK, self._mark(reached), self._meta)
        try:
            self._write(batch)
        except Exception as error:
            raise told(error, self._path) from error
        self._reached = reached

    def _write(self, batch: WriteBatch) -> None:
        self._db.write(batch)

    # ------------------------------------------------------------ its life

    def wipe(self, reason: str) -> None:
        """Forget everything: the changelog will be read from its start. Raises StoreError where not even that works."""
        self.close()
        self._db, self._reached = self._renew(reason), _NOTHING

    def close(self) -> None:
        """Give the lock back. What a full disk does not take any more is in the changelog."""
        self._let_go()
        try:
            self._db.close()
        except Exception as error:  # noqa: BLE001 - the store is a copy, and is left whatever happens
            log.warning("the store %s was not closed in order: %s", self._path, error)

    def _let_go(self) -> None:
        """A handle of a column family keeps the store open, and so locked."""
        self._meta = self._companions = self._beside = None
        self.scratch.close()

    def _mark(self, reached: Reached) -> bytes:
        mark = {"identity": self._identity, "time": self._clock(), **reached._asdict()}
        return json.dumps(mark).encode()

    def _open(self) -> tuple[Rdict, Reached]:
        try:
            db = self._connect()
        except StoreDamaged as damage:
            let_go_of(damage)
            return self._renew(f"it cannot be opened ({damage})"), _NOTHING
        try:
            mark = _read_mark(db, self._path)
            reason = self._distrusted(mark) if mark else None
        except StoreDamaged as damage:
            mark, reason = {}, str(damage)
        if reason is None:
            return db, Reached(mark.get("position", 0), mark.get("written", 0))
        self._let_go()
        db.close()
        return self._renew(reason), _NOTHING

    def _distrusted(self, mark: dict[str, Any]) -> str | None:
        """Why what the store holds must not be used; None: it may."""
        if mark["identity"] != self._identity:
            return "it belongs to another changelog"
        # Two clocks have seen the last change, ours and the broker's, and either may have been ahead then and be right
        # now: the older of the two counts, so that both must have been wrong before a store looks younger than it is.
        # A time of ours that is yet to come says that our clock was set back, and nothing about the age.
        now, ours, theirs = self._clock(), mark["time"], mark["written"] / 1000
        if ours > now + _AHEAD:
            return f"it was written {ours - now:.0f} s from now: the clock was wrong then, or is now"
        if now - min(ours, theirs or ours) > self._max_age:
            return "it has not followed the changelog for too long"
        return None

    def _renew(self, reason: str) -> Rdict:
        log.warning("the store %s is rebuilt from the changelog: %s", self._path, reason)
        shutil.rmtree(self._path, ignore_errors=True)
        return self._connect()

    def _connect(self) -> Rdict:
        families = {_META: Options(raw_mode=True), _COMPANIONS: companion_options(), SCRATCH: store_options()}
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            db = Rdict(str(self._path), store_options(), families)
            self._meta = db.get_column_family_handle(_META)
            self._companions = db.get_column_family_handle(_COMPANIONS)
            self._beside = db.get_column_family(_COMPANIONS)
            self.scratch = RocksScratch(db, self._path)
        except Exception as error:
            self._meta = self._companions = self._beside = None
            raise told(error, self._path) from error
        return db


def _read_mark(db: Rdict, path: Path) -> dict[str, Any]:
    """Whose store it is, how far it got, and when; empty if nothing was ever written."""
    try:
        raw = db.get_column_family(_META).get(_MARK)
        mark: dict[str, Any] = {} if raw is None else json.loads(raw)
        if mark:
            mark = {
                "identity": mark["identity"],
                "position": int(mark["position"]),
                "time": float(mark["time"]),
                "written": int(mark.get("written", 0)),
            }
    except Exception as error:
        raise told(error, path) from error
    return mark
