"""A folder that a pipeline owns, on any file system that Spark knows, and the card that says what it belongs to.

The card is the file ``_railgun.json``. Readers of Parquet pass over names that begin with an underscore. One run at a time may use a
folder: Spark's own files in it are not made for two. A local folder is locked, and a second run refused.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from railgun.errors import ConfigError

CARD: Final = "_railgun.json"
CHECKPOINT: Final = "_checkpoint"
FORMAT: Final = 1  # of the card and of what lies beside it
_PATTERN: Final = frozenset("*?[]{}\\")  # characters by which Spark takes a path that it reads for a pattern


class Folder:
    """A folder by its path or URL; it is made when something is written to it.

    Every method raises ConfigError where the file system refuses, in one sentence.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        if not path or _PATTERN & set(path):
            raise ConfigError(
                f"{path!r} is not a valid folder: give a path or URL without any of {' '.join(sorted(_PATTERN))}"
            )
        self.path = path.rstrip("/") or "/"
        self._jvm: Any = spark._jvm
        with self._in_words():
            self._files: Any = self._at("").getFileSystem(spark._jsc.hadoopConfiguration())

    def inside(self, name: str) -> str:
        """The path of a name in this folder."""
        return f"{self.path}/{name}" if name else self.path

    def has(self, name: str) -> bool:
        """Whether there is a file or folder of that name; an empty name asks for this folder itself."""
        with self._in_words():
            return bool(self._files.exists(self._at(name)))

    def names(self, inner: str = "") -> list[str]:
        """The names in this folder, or in one inside it, sorted; none if there is no folder."""
        if not self.has(inner):
            return []
        with self._in_words():
            return sorted(one.getPath().getName() for one in self._files.listStatus(self._at(inner)))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A lock on a local folder, which is made if it is not there; gone with this process however it ends. Raises ConfigError if another run has it.

        Two runs would write the same batch at once, each into the files of the other, and two cards of a folder that is new.
        """
        with self._in_words():
            there = self._files.makeQualified(self._at("")).toUri()
            local = there.getScheme() == "file"
            if local:
                self._files.mkdirs(self._at(""))
        if not local:
            yield
            return
        try:
            folder = os.open(there.getPath(), os.O_RDONLY)
        except OSError as error:
            raise ConfigError(f"the folder {self.path} cannot be used: {error.strerror}") from error
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"the folder {self.path} is in use by another run: wait for its end"
                ) from None
            yield
        finally:
            os.close(folder)

    def read(self, name: str) -> str:
        with self._in_words():
            source = self._files.open(self._at(name))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(source, "UTF-8"))
            finally:
                source.close()

    def write(self, name: str, text: str) -> None:
        """Write a file that is not there yet, as a whole or not at all."""
        unfinished = f"{name}.new"
        with self._in_words():
            out = self._files.create(self._at(unfinished), True)
            try:
                out.write(bytearray(text, "utf-8"))
            finally:
                out.close()
            done = self._files.rename(self._at(unfinished), self._at(name))
        if not done:
            raise ConfigError(f"{self.inside(name)} cannot be written: another run has made it just now")

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.inside(name))

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            why = error.java_exception
            reason = why.getMessage() or why.getClass().getSimpleName()
            raise ConfigError(f"the folder {self.path} cannot be used: {reason}") from error

    # ------------------------------------------------------------ the card

    def card(self) -> dict[str, Any] | None:
        """What the folder belongs to; None if it has no card. Raises ConfigError for one that is not a card."""
        if not self.has(CARD):
            return None
        try:
            found = json.loads(self.read(CARD))
        except ValueError as error:
            raise ConfigError(f"{self.inside(CARD)} is not valid JSON: {error}") from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ConfigError(
                f"{self.inside(CARD)} is not a card of format {FORMAT}: another version wrote it, or it was changed"
            )
        for name in ("kind", "stream", "created"):
            if not isinstance(found.get(name), str):
                raise ConfigError(f"{self.inside(CARD)} is not a valid card: it has no {name!r}")
        return found

    def claim(self, fields: dict[str, Any], *, own: dict[str, Any] | None = None) -> dict[str, Any]:
        """The card of this folder, written if there is none: while it is :meth:`alone`. ``own``: fields of a new card that nobody compares.

        Raises ConfigError if the folder belongs to something else, or holds what no card explains.
        """
        found = self.card()
        if found is None:
            strange = [name for name in self.names() if name != f"{CARD}.new"]
            if strange:
                raise ConfigError(
                    f"{self.path} is not empty and has no {CARD}: it holds {strange[0]}; name an empty folder"
                )
            found = {"format": FORMAT, **fields, **(own or {})}
            self.write(CARD, json.dumps(found, indent=2, ensure_ascii=False))
            return found
        for name, wanted in fields.items():
            if found.get(name) != wanted:
                raise ConfigError(self._other(name, found.get(name), wanted, fields))
        return found

    def _other(self, name: str, there: object, wanted: object, fields: dict[str, Any]) -> str:
        if name == "created":
            return (
                f"{self.path} belongs to the stream {fields['stream']} that was created at {there}; the one of "
                f"that name today was created at {wanted}: name another folder"
            )
        return f"{self.path} belongs to another {name}: {there!r}, and not {wanted!r}; name another folder"
