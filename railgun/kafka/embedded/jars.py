"""Pinned jars in the per-user cache, those of the local broker and others: complete and checked, or not there at all.

A folder such as ``<cache>/kafka-<version>-<digest>`` appears by one rename after every jar was fetched and its SHA-256
compared, so a start that is interrupted, or two starts at once, never leave half a broker behind.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from railgun.kafka.embedded.errors import JarsUnavailable
from railgun.kafka.embedded.pinned import KAFKA_VERSION, PINNED_JARS

#: Names a Maven repository to fetch from, instead of the public one: a company's mirror, say.
REPOSITORY_VARIABLE: Final = "RAILGUN_MAVEN_REPOSITORY"
_DOWNLOADS_AT_ONCE: Final = 8
_SILENCE_SECONDS: Final = 20
_ARCHIVE: Final = ".tar.gz"


class JarSet(NamedTuple):
    """Jars that are fetched together: the name of their folder, what they are, and who needs them.

    A coordinate is ``group:artifact:version``, or ``group:artifact:version:classifier:tar.gz`` for an archive, which is unpacked.
    ``services`` are for jars that do not declare theirs: pairs of an interface and a class, in a jar of their own beside the others.
    """

    name: str
    pinned: Mapping[str, str]  # Maven coordinate -> SHA-256
    title: str
    user: str
    services: tuple[tuple[str, str], ...] = ()


BROKER: Final = JarSet(
    f"kafka-{KAFKA_VERSION}", PINNED_JARS, f"Kafka {KAFKA_VERSION}", "the local Kafka broker"
)


def cache_folder() -> Path:
    """The folder of downloads: ``$XDG_CACHE_HOME/railgun``, by default ``~/.cache/railgun``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "railgun"


def jars_cached(cache: Path | None = None) -> bool:
    """Whether a start of the broker needs no network."""
    return is_cached(BROKER, cache)


def is_cached(jars: JarSet, cache: Path | None = None) -> bool:
    """Whether these jars need no network."""
    return _folder(cache or cache_folder(), jars).is_dir()


def kafka_jars(
    cache: Path | None = None, pinned: Mapping[str, str] = PINNED_JARS, repository: str | None = None
) -> list[Path]:
    """The class path of the broker, fetched first when the cache does not hold it (45 MB, once per user).

    Raises :class:`JarsUnavailable` when they can be neither found nor fetched; the cache then stays as it was.
    """
    return fetched_jars(BROKER._replace(pinned=pinned), cache, repository)


def fetched_jars(jars: JarSet, cache: Path | None = None, repository: str | None = None) -> list[Path]:
    """The files of these jars, and of those in their archives, sorted by path, fetched first when the cache does not hold them.

    Raises :class:`JarsUnavailable` when they can be neither found nor fetched; the cache then stays as it was.
    """
    return sorted(fetched_folder(jars, cache, repository).rglob("*.jar"))


def fetched_folder(jars: JarSet, cache: Path | None = None, repository: str | None = None) -> Path:
    """The folder that holds them, and what was in their archives. Raises :class:`JarsUnavailable`."""
    cache = cache or cache_folder()
    folder = _folder(cache, jars)
    if not folder.is_dir():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with _exclusively(cache / "jars.lock"):
                if not folder.is_dir():  # another start may have been faster
                    _fetch_all(cache, folder, jars, repository or os.environ.get(REPOSITORY_VARIABLE))
        except OSError as error:
            raise JarsUnavailable(jar=jars.title, reason=f"cache {cache}: {error}", user=jars.user) from error
    return folder


def _folder(cache: Path, jars: JarSet) -> Path:
    contents = repr(sorted(jars.pinned.items())) + (repr(jars.services) if jars.services else "")
    digest = hashlib.sha256(contents.encode()).hexdigest()[:12]
    return cache / f"{jars.name}-{digest}"


@contextmanager
def _exclusively(lock: Path) -> Iterator[None]:
    # Waits for the other start's download, which itself gives up when the network falls silent.
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch_all(cache: Path, folder: Path, jars: JarSet, repository: str | None) -> None:
    staging = Path(tempfile.mkdtemp(prefix="fetching-", dir=cache))
    complete = staging / "jars"
    complete.mkdir()
    try:
        with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool:
            downloads = [
                pool.submit(_fetch, coordinate, jars, staging, repository) for coordinate in jars.pinned
            ]
            try:
                for download in downloads:
                    jar = download.result()
                    if jar.name.endswith(_ARCHIVE):
                        with tarfile.open(jar) as archive:
                            archive.extractall(complete, filter="data")
                    else:
                        jar.rename(complete / jar.name)
            except JarsUnavailable:
                pool.shutdown(cancel_futures=True)
                raise
        if jars.services:
            with zipfile.ZipFile(complete / "services.jar", "w") as declared:
                for interface, provider in jars.services:
                    declared.writestr(f"META-INF/services/{interface}", f"{provider}\n")
        complete.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _fetch(coordinate: str, jars: JarSet, staging: Path, repository: str | None) -> Path:
    try:
        from jgo.maven import MavenContext, PythonResolver
    except ImportError as error:
        raise JarsUnavailable(
            jar=coordinate, reason="jgo is missing: pip install 'railgun[embedded]'", user=jars.user
        ) from error
    group, artifact, version, *form = coordinate.split(":")
    classifier, packaging = form or ("", "jar")
    context = MavenContext(
        resolver=PythonResolver(),
        # Not ~/.m2: other tools leave entries there that have a POM but no jar.
        repo_cache=staging / "repository",
        local_repos=[],
        remote_repos={"mirror": repository.rstrip("/")} if repository else None,
        timeout=_SILENCE_SECONDS,
    )
    try:
        jar = context.project(group, artifact).at_version(version).artifact(classifier, packaging).resolve()
    except (OSError, RuntimeError) as error:  # requests raises OSErrors, jgo a RuntimeError for a 404
        raise JarsUnavailable(jar=coordinate, reason=_in_words(error), user=jars.user) from error
    if hashlib.sha256(jar.read_bytes()).hexdigest() != jars.pinned[coordinate]:
        raise JarsUnavailable(
            jar=coordinate, reason="the download does not match its checksum", user=jars.user
        )
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
