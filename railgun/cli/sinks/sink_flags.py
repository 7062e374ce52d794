"""The flags of ``railgun sink``: which Connect, and what ``sink apply`` says about a sink."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from pydantic import ValidationError

from railgun.cli.options.cluster import JsonOption
from railgun.cli.options.context import find_connect
from railgun.errors import ConfigError

if TYPE_CHECKING:
    from railgun.sinks import Connect
    from railgun.sinks.stream_sink import StreamSink

SinkName = Annotated[str, typer.Argument(metavar="NAME", help="The sink's name.")]
ConnectUrl = Annotated[
    str | None,
    typer.Option(
        "--connect",
        metavar="URL",
        help="Kafka Connect; else $RAILGUN_CONNECT, a `railgun up --connect` of this folder, http://localhost:8083.",
    ),
]
Patience = Annotated[float, typer.Option("--wait", min=0.1, help="Seconds to wait for Connect.")]
DEFAULT_PATIENCE: Final = 30.0


@dataclass(frozen=True)
class ConnectFlags:
    """The options of the Connect that a command talks to."""

    connect: ConnectUrl = None
    wait: Patience = DEFAULT_PATIENCE
    as_json: JsonOption = False

    def open(self) -> Connect:
        """The client; close it. Raises ConfigError."""
        return open_connect(self.connect, self.wait)

    def act(self) -> Connect:
        """The client, for a command that changes something: it names the place first."""
        return act_on_connect(self.connect, self.wait)


def open_connect(given: str | None, wait: float) -> Connect:
    """The client of the Connect that is meant; close it. Raises ConfigError."""
    from railgun.sinks import Connect

    return Connect(find_connect(given).address, timeout=wait)


def act_on_connect(given: str | None, wait: float) -> Connect:
    """The same, for a command that changes something: it says where."""
    typer.echo(f"acting on Kafka Connect at {find_connect(given)}", err=True)
    return open_connect(given, wait)


@dataclass(frozen=True)
class SinkFlags:
    """Flags for the configuration of a sink; None: the flag was not given."""

    stream: Annotated[str | None, typer.Option(metavar="STREAM", help="The stream to read.")] = None
    jdbc: Annotated[
        str | None, typer.Option(metavar="URL", help="Into a table of this database (jdbc:postgresql://…).")
    ] = None
    file: Annotated[
        str | None, typer.Option(metavar="PATH", help="Into a file of Connect's machine; for development.")
    ] = None
    connector: Annotated[
        str | None, typer.Option("--class", metavar="CLASS", help="By a connector of this class.")
    ] = None
    table: Annotated[str | None, typer.Option(help="The table, or SCHEMA.TABLE.")] = None
    user: Annotated[str | None, typer.Option(help="The account of the database.")] = None
    password: Annotated[
        str | None,
        typer.Option(metavar="REFERENCE", help="Where Connect finds its password: '${env:PG_PASSWORD}'."),
    ] = None
    payload: Annotated[
        str | None,
        typer.Option(help="bytes (as it is), text, or fields (by --registry or a value.converter)."),
    ] = None
    registry: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Typed events: Apicurio's address for Connect (…/apis/ccompat/v7)."),
    ] = None
    dead_letters: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="The topic of what cannot be converted.")
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the connector; repeatable."),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A JSON file with the fields of a sink; flags go above it."),
    ] = None

    def sink(self, name: str) -> StreamSink:
        """The sink that is meant. Raises ConfigError, which shows no value."""
        from railgun.sinks import FileSink, JdbcSink, Sink

        given = self._given()
        kinds: dict[str, type[StreamSink]] = {"url": JdbcSink, "file": FileSink, "connector_class": Sink}
        chosen = [field for field in kinds if field in given]
        if len(chosen) != 1:
            raise ConfigError("say what kind of sink it is: --jdbc URL, --file PATH, or --class CLASS")
        try:
            return kinds[chosen[0]].model_validate({**given, "name": name})
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in fault["loc"])
            text = fault["msg"].removeprefix("Value error, ")
            raise ConfigError(
                f"the sink {name} is not valid: {f'{where}: ' if where else ''}{text}"
            ) from None

    def _given(self) -> dict[str, Any]:
        given = {} if self.config is None else _read(self.config)
        flags = {
            "stream": self.stream,
            "url": self.jdbc,
            "file": self.file,
            "connector_class": self.connector,
            "table": self.table,
            "user": self.user,
            "password": self.password,
            "payload": self.payload,
            "registry": self.registry,
            "dead_letters": self.dead_letters,
        }
        given |= {field: value for field, value in flags.items() if value is not None}
        if self.settings:
            there = given.get("settings") or {}
            if not isinstance(there, dict):
                raise ConfigError(f"the settings in the file {self.config} are not a JSON object")
            given["settings"] = {**there, **_pairs(self.settings)}
        return given


def _pairs(given: list[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name:  # it may be half a secret: it is not shown
            raise ConfigError("a value of --set is not KEY=VALUE, such as batch.size=500")
        found[name.strip()] = value
    return found


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"the file {file} cannot be read as JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"the file {file} does not hold a JSON object")
    return found
