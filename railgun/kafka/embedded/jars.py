"""Kafka's jars in the per-user cache: complete and checked, or not there at all.

The folder ``<cache>/kafka-<version>-<digest>`` appears by one rename after every jar was fetched and its SHA-256
compared, so a start that is interrupted, or two starts at once, never leave half a broker behind.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from railgun.kafka.embedded.errors import JarsUnavailable
from railgun.kafka.embedded.pinned import KAFKA_VERSION, PINNED_JARS

#: Names a Maven repository to fetch from, instead of the public one: a company's mirror, say.
REPOSITORY_VARIABLE: Final = "RAILGUN_MAVEN_REPOSITORY"
_DOWNLOADS_AT_ONCE: Final = 8
_SILENCE_SECONDS: Final = 20


def cache_folder() -> Path:
    """The folder of downloads: ``$XDG_CACHE_HOME/railgun``, by default ``~/.cache/railgun``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "railgun"


def jars_cached(cache: Path | None = None) -> bool:
    """Whether a start needs no network."""
    return _folder(cache or cache_folder(), PINNED_JARS).is_dir()


def kafka_jars(
    cache: Path | None = None, pinned: Mapping[str, str] = PINNED_JARS, repository: str | None = None
) -> list[Path]:
    """The jars of the class path, fetched first when the cache does not hold them (45 MB, once per user).

    Raises :class:`JarsUnavailable` when they can be neither found nor fetched; the cache then stays as it was.
    """
    cache = cache or cache_folder()
    folder = _folder(cache, pinned)
    if not folder.is_dir():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with _exclusively(cache / "jars.lock"):
                if not folder.is_dir():  # another start may have been faster
                    _fetch_all(cache, folder, pinned, repository or os.environ.get(REPOSITORY_VARIABLE))
        except OSError as error:
            raise JarsUnavailable(jar=f"Kafka {KAFKA_VERSION}", reason=f"cache {cache}: {error}") from error
    return sorted(folder.glob("*.jar"))


def _folder(cache: Path, pinned: Mapping[str, str]) -> Path:
    digest = hashlib.sha256(repr(sorted(pinned.items())).encode()).hexdigest()[:12]
    return cache / f"kafka-{KAFKA_VERSION}-{digest}"


@contextmanager
def _exclusively(lock: Path) -> Iterator[None]:
    # Waits for the other start's download, which itself gives up when the network falls silent.
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch_all(cache: Path, folder: Path, pinned: Mapping[str, str], repository: str | None) -> None:
    staging = Path(tempfile.mkdtemp(prefix="fetching-", dir=cache))
    complete = staging / "jars"
    complete.mkdir()
    try:
        with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool:
            downloads = [
                pool.submit(_fetch, coordinate, checksum, staging, repository)
                for coordinate, checksum in pinned.items()
            ]
            try:
                for download in downloads:
                    jar = download.result()
                    jar.rename(complete / jar.name)
            except JarsUnavailable:
                pool.shutdown(cancel_futures=True)
                raise
        complete.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _fetch(coordinate: str, checksum: str, staging: Path, repository: str | None) -> Path:
    try:
        from jgo.maven import MavenContext, PythonResolver
    except ImportError as error:
        raise JarsUnavailable(
            jar=coordinate, reason="jgo is missing: pip install 'railgun[embedded]'"
        ) from error
    group, artifact, version = coordinate.split(":")
    context = MavenContext(
        resolver=PythonResolver(),
        # Not ~/.m2: other tools leave entries there that have a POM but no jar.
        repo_cache=staging / "repository",
        local_repos=[],
        remote_repos={"mirror": repository.rstrip("/")} if repository else None,
        timeout=_SILENCE_SECONDS,
    )
    try:
        jar = context.project(group, artifact).at_version(version).artifact().resolve()
    except (OSError, RuntimeError) as error:  # requests raises OSErrors, jgo a RuntimeError for a 404
        raise JarsUnavailable(jar=coordinate, reason=_in_words(error)) from error
    if hashlib.sha256(jar.read_bytes()).hexdigest() != checksum:
        raise JarsUnavailable(jar=coordinate, reason="the download does not match its checksum")
    return jar


def _in_words(error: Exception) -> str:
    if isinstance(error, RuntimeError):
        return "the repository does not have it"
    kind = type(error).__name__
    return {
        "ConnectionError": "no connection to the repository",
        "ConnectTimeout": "the repository does not answer",
        "ReadTimeout": "the repository stopped answering",
        "ProxyError": "the proxy refused the connection",
        "SSLError": "the repository's certificate is not trusted",
    }.get(kind, f"{kind}: {error}")
