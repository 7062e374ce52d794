"""Schemas in a folder of files, without a registry: ``schemas/shop.Placed/1.avsc``, ``2.avsc``, …

The folder is part of a program's repository. The id of a schema follows from its contents, so it is the same on every machine and on every
branch; a file that was changed after its first use is refused.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from railgun.avro.compatibility import Compatibility, check_level, differences
from railgun.avro.errors import IncompatibleSchema, RegistryUnavailable, UnknownSchema
from railgun.avro.parsing import fingerprint, full_name, parsed
from railgun.errors import ConfigError

_ID: Final = "railgun-id"
_SUFFIX: Final = ".avsc"
_VERSION: Final = re.compile(r"[0-9]{1,9}")
_ATTEMPTS: Final = 20  # of processes that add versions of one record at the same moment


class SchemaFolder:
    """Schemas of a folder, one sub-folder for each record, one file for each version.

    A new version is compared with all earlier ones (``compatibility``) and written, as a whole or not at all; ``register=False`` writes
    nothing, and refuses a model whose schema is not there: so a program in production uses what was reviewed. Files are read when
    an id or a record is first asked for; those that changed since, again for one that is not known.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, compatibility: Compatibility = "FULL", register: bool = True
    ) -> None:
        check_level(compatibility)
        self._folder = Path(folder)
        self._compatibility = compatibility
        self._register = register
        self._lock = threading.Lock()
        self._by_id: dict[int, Any] = {}
        self._known: dict[
            Path, tuple[tuple[int, int, int], Any]
        ] = {}  # files by what they were when they were read

    def __repr__(self) -> str:
        return f"SchemaFolder({str(self._folder)!r})"

    def use(self, record: str, schema: Mapping[str, Any]) -> int:
        """The id of the record's schema; a new version becomes a file. Raises IncompatibleSchema, UnknownSchema, RegistryUnavailable."""
        wanted = parsed(schema)
        number = fingerprint(wanted)
        for _ in range(_ATTEMPTS):
            files = self._files(record)
            known = {file: self._read(file, record) for file in files}
            if any(fingerprint(one) == number for one in known.values()):
                return number
            found = differences(
                wanted, [(f"version {file.stem}", one) for file, one in known.items()], self._compatibility
            )
            if found:
                raise IncompatibleSchema(record=record, differences=found)
            if not self._register:
                raise UnknownSchema(record=record, registry=repr(self))
            version = int(files[-1].stem) + 1 if files else 1
            if self._write(self._folder / record / f"{version}{_SUFFIX}", {**schema, _ID: number}):
                return number
        raise RegistryUnavailable(registry=repr(self), reason="other processes add versions all the time")

    def schema(self, schema_id: int) -> Any:
        """The schema of that id, or None. Raises RegistryUnavailable."""
        if schema_id not in self._by_id:
            damage = self._load()
            if damage is not None and schema_id not in self._by_id:
                raise damage  # it may be the one that is asked for
        return self._by_id.get(schema_id)

    def versions(self, record: str) -> dict[int, str]:
        """The schemas of a record by their ids, as JSON, oldest first. Raises RegistryUnavailable."""
        try:
            return {
                fingerprint(self._read(file, record)): file.read_text(encoding="utf-8")
                for file in self._files(record)
            }
        except OSError as error:  # removed in this moment
            raise self._unavailable(error) from error

    def _load(self) -> RegistryUnavailable | None:
        """Read all files; what is wrong with the first of those that cannot be read, which is no harm to the others."""
        found: dict[int, tuple[Path, Any]] = {}
        damage: RegistryUnavailable | None = None
        try:
            folders = sorted(one for one in self._folder.iterdir() if one.is_dir())
        except FileNotFoundError:
            folders = []
        except OSError as error:
            raise self._unavailable(error) from error
        for folder in folders:
            for file in self._files(folder.name):
                try:
                    schema = self._read(file, folder.name)
                except RegistryUnavailable as error:
                    damage = damage or error
                    continue
                number = fingerprint(schema)
                first = found.setdefault(number, (file, schema))
                if fingerprint(first[1]) == number and full_name(first[1]) != full_name(schema):
                    raise self._refused(
                        file, f"it has the id of {first[0]}: change the doc of neither, but a default"
                    )
        with self._lock:
            self._by_id.update({number: schema for number, (_, schema) in found.items()})
        return damage

    def _files(self, record: str) -> list[Path]:
        try:
            found = [
                file
                for file in (self._folder / record).iterdir()
                if file.suffix == _SUFFIX and _VERSION.fullmatch(file.stem)
            ]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unavailable(error) from error
        return sorted(found, key=lambda file: int(file.stem))

    def _read(self, file: Path, record: str) -> Any:
        """The schema of a file; one that did not change since it was read is not read again."""
        try:
            now = file.stat()
        except OSError as error:
            raise self._unavailable(error) from error
        stamp = (now.st_mtime_ns, now.st_size, now.st_ino)
        known = self._known.get(file)
        if known is None or known[0] != stamp:
            known = self._known[file] = stamp, self._read_now(file, record)
        return known[1]

    def _read_now(self, file: Path, record: str) -> Any:
        try:
            given = json.loads(file.read_text(encoding="utf-8"))
            schema = parsed(given)
        except OSError as error:
            raise self._unavailable(error) from error
        except (ValueError, RecursionError, ConfigError) as error:
            raise self._refused(file, f"it is not a valid Avro schema ({error}): restore it") from error
        if full_name(schema) != record:
            raise self._refused(
                file, f"it is not a schema of {record}: rename the folder, or restore the file"
            )
        if given.get(_ID, fingerprint(schema)) != fingerprint(schema):
            raise self._refused(
                file, "it was changed after its first use: restore it, and add a version instead"
            )
        return schema

    def _write(self, file: Path, schema: dict[str, Any]) -> bool:
        """Whether the file was written: another process may have been faster. It appears with all its contents."""
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handle, draft = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".draft")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as out:
                    json.dump(schema, out, indent=2, ensure_ascii=False)
                    out.write("\n")
                os.chmod(draft, 0o644)
                os.link(draft, file)
            finally:
                os.unlink(draft)
        except FileExistsError:
            return False
        except OSError as error:
            raise self._unavailable(error, file) from error
        return True

    def _refused(self, file: Path, reason: str) -> RegistryUnavailable:
        return RegistryUnavailable(registry=repr(self), reason=f"{file} cannot be used, {reason}")

    def _unavailable(self, error: OSError, file: Path | None = None) -> RegistryUnavailable:
        """``file``: what the system does not name itself, where the disk is full while it is written."""
        return RegistryUnavailable(registry=repr(self), reason=f"{error.filename or file}: {error.strerror}")
