"""The options that every command has: the cluster that it talks to, and whether it prints JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from railgun.cli.options.context import Server, ServerOption, find_server
from railgun.cli.output import print_json
from railgun.errors import ConfigError
from railgun.protocol.topics import DEFAULT_PREFIX, Names

if TYPE_CHECKING:
    from railgun.client.facade.railgun import Railgun
    from railgun.kafka.settings import KafkaSettings
    from railgun.model.consumer_info import ConsumerInfo
    from railgun.model.messages import StreamInfo

Info = TypeVar("Info", "StreamInfo", "ConsumerInfo")

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.", show_default=False)
]


@dataclass(frozen=True)
class Cluster:
    """The options of the cluster that a command talks to."""

    server: ServerOption = None
    prefix: Annotated[str, typer.Option(help="Prefix of the names of railgun's topics.")] = DEFAULT_PREFIX
    kafka: Annotated[
        list[str] | None,
        typer.Option(
            "--kafka", metavar="KEY=VALUE", help="A setting of librdkafka (SASL, TLS …); repeatable."
        ),
    ] = None
    kafka_config: Annotated[
        Path | None,
        typer.Option(
            "--kafka-config", metavar="FILE", help="A file of such settings, one KEY=VALUE per line."
        ),
    ] = None
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an answer.")] = 5.0
    as_json: JsonOption = False

    @property
    def address(self) -> str:
        """The address to connect to."""
        return self.where.address

    @property
    def where(self) -> Server:
        """The address to connect to, and who named it: ``--server``, else the file, else the usual order."""
        if self.server:
            return find_server(self.server)
        return find_server(self._from_file().get("bootstrap.servers"), f"{self.kafka_config}")

    @property
    def in_memory(self) -> bool:
        return self.address.startswith("memory://")

    @property
    def names(self) -> Names:
        try:
            return Names(self.prefix)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def settings(self) -> KafkaSettings:
        """The same for tools that speak to Kafka itself. Raises ConfigError for ``memory://``."""
        from railgun.kafka.settings import KafkaSettings

        if self.in_memory:
            raise ConfigError(f"{self.address} is a cluster inside this process: it has no Kafka")
        return KafkaSettings(self.address, self.kafka_options())

    def kafka_options(self) -> dict[str, str]:
        """The settings of the file and, above them, those of the command line."""
        given = {name: value for name, value in self._from_file().items() if name != "bootstrap.servers"}
        for text in self.kafka or ():
            name, separator, value = text.partition("=")
            if not separator or not name.strip():
                raise ConfigError(f"--kafka {text!r} is not KEY=VALUE, such as security.protocol=SASL_SSL")
            given[name.strip()] = value.strip()
        return given

    def connect(self) -> Railgun:
        """The facade; close it."""
        from railgun.client.facade.railgun import connect

        return connect(self.address, prefix=self.prefix, timeout=self.timeout, kafka=self.kafka_options())

    def act(self) -> Railgun:
        """The facade, for a command that changes something: it names the cluster first, in case the user meant another one."""
        self.announce()
        return self.connect()

    def announce(self) -> None:
        """Say on standard error where this command acts."""
        prefix = "" if self.prefix == DEFAULT_PREFIX else f", prefix {self.prefix}"
        typer.echo(f"acting on {self.where}{prefix}", err=True)

    def show(self, info: Info, print_words: Callable[[Info], None]) -> None:
        """Print an info of the cluster: as JSON, or in words."""
        if self.as_json:
            print_json(info.raw)
        else:
            print_words(info)

    def _from_file(self) -> dict[str, str]:
        if self.kafka_config is None:
            return {}
        try:
            lines = self.kafka_config.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the file {self.kafka_config} cannot be read: {error}") from error
        given = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith(("#", "!")):
                continue
            name, separator, value = line.partition("=")
            if not separator:
                raise ConfigError(f"line {number} of {self.kafka_config} is not KEY=VALUE")
            given[name.strip()] = value.strip()
        return given


def sure(cluster: Cluster, deed: str, force: bool, option: str = "--force") -> None:
    """Ask before a deed that cannot be undone. Raises typer.Abort; ConfigError where there is no terminal to ask on."""
    if force:
        return
    if cluster.as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(f"there is no terminal to ask on: give {option} to {deed}")
    typer.confirm(f"Really {deed} on {cluster.where}?", abort=True)
