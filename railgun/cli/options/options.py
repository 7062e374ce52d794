"""The common part of all commands: the options that every one of them has, and how a command ends.

A command is a function whose parameters are arguments, options, or whole dataclasses of options (:class:`Cluster` and the
like); :func:`command` spreads those out for Typer. It also gives every command the same ends: 0 done, 1 refused or wrong,
2 misused, 3 the cluster cannot be reached or no worker would answer, 4 no answer in time (the outcome is unknown).
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_args, get_type_hints

import typer
from confluent_kafka import KafkaException
from rich.console import Console

from railgun.cli.options.context import Server, ServerOption, find_server
from railgun.errors import (
    ApiError,
    ConfigError,
    ConnectionLost,
    NotAuthorized,
    NoWorker,
    RailgunError,
    RequestTimeout,
)
from railgun.protocol.topics import DEFAULT_PREFIX, Names

if TYPE_CHECKING:
    from railgun.client.facade.railgun import Railgun
    from railgun.kafka.settings import KafkaSettings
    from railgun.model.consumer_info import ConsumerInfo
    from railgun.model.messages import StreamInfo

Info = TypeVar("Info", "StreamInfo", "ConsumerInfo")

EXIT_WRONG: Final = 1
EXIT_UNREACHABLE: Final = 3
EXIT_UNKNOWN: Final = 4

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


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a command: its dataclass parameters become options, its errors become sentences and exit codes."""
    hints = get_type_hints(function, include_extras=True)
    plain: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for parameter in inspect.signature(function).parameters.values():
        kind = hints[parameter.name]
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
        else:
            plain.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
    for group in groups.values():
        plain += _options_of(group)

    @functools.wraps(function)
    def run(**given: Any) -> None:
        texts = dict(given)
        whole = {
            name: group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        as_json = any(getattr(one, "as_json", False) for one in whole.values()) or bool(given.get("as_json"))
        try:
            _check_text(texts)
            function(**given, **whole)
        except RailgunError as error:
            raise typer.Exit(told(error, as_json=as_json)) from None
        except KafkaException as error:  # one that has no sentence of its own
            raise typer.Exit(told(ConfigError(f"Kafka: {error.args[0].str()}"), as_json=as_json)) from None

    run.__signature__ = inspect.Signature(plain)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in plain}
    return run


def _check_text(given: Mapping[str, Any]) -> None:
    """Raises ConfigError for an argument that is not UTF-8: Python keeps such bytes in a form that nothing can send."""
    for name, value in given.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and not _is_unicode(text):
                raise ConfigError(f"{name.replace('_', '-')} {text!r} is not valid UTF-8 text")


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _options_of(group: type[Any]) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters; the help has them together, under the name of the class."""
    hints = get_type_hints(group, include_extras=True)
    parameters = []
    for field in dataclasses.fields(group):
        kind, option = get_args(hints[field.name])
        option = copy.copy(option)
        option.rich_help_panel = f"{group.__name__.removesuffix('Flags')} options"
        parameters.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=Annotated[kind, option],
            )
        )
    return parameters


def told(error: RailgunError, *, as_json: bool) -> int:
    """Say what went wrong, in one sentence on standard error and for machines on standard output; the exit code."""
    typer.echo(f"error: {error}", err=True)
    if as_json:
        fields: dict[str, Any] = {"kind": type(error).__name__, "description": str(error)}
        if isinstance(error, ApiError):
            fields |= {"code": error.code, "err_code": error.err_code, "description": error.description}
        print_json({"error": fields})
    if isinstance(error, ConnectionLost | NotAuthorized | NoWorker):
        return EXIT_UNREACHABLE
    return EXIT_UNKNOWN if isinstance(error, RequestTimeout) else EXIT_WRONG


def print_json(value: Mapping[str, Any] | list[Any]) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def console() -> Console:
    """Standard output for tables and colours; plain and without line breaks of its own where it is not a terminal."""
    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else 400, highlight=False, emoji=False)


def sure(cluster: Cluster, deed: str, force: bool) -> None:
    """Ask before a deed that cannot be undone, if there is a terminal to ask on. Raises typer.Abort."""
    if not force and not cluster.as_json and sys.stdin.isatty() and sys.stdout.isatty():
        typer.confirm(f"Really {deed} on {cluster.where}?", abort=True)
