"""The common part of all flags: how values are read, and how flags become the fields of a configuration."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from pydantic import ValidationError

from railgun.cli.options import units
from railgun.errors import ConfigError
from railgun.model.stream_config import ConfigModel

if TYPE_CHECKING:
    from railgun.cli.options.consumer_flags import ConsumerFlags
    from railgun.cli.options.stream_flags import StreamFlags

T = TypeVar("T")


def parser(parse: Callable[[str], T]) -> Callable[[Any], T]:
    """A parser as Typer wants it: what cannot be read is a misuse of the option, told by its name."""

    def parsed(text: Any) -> T:
        try:
            return parse(str(text))
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parsed


DURATION: Final = parser(units.duration)
SIZE: Final = parser(units.size)

Metadata = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A note; repeatable.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A JSON configuration as the API has it; other flags go above it."),
]


def given_fields(
    flags: StreamFlags | ConsumerFlags,
    model: type[ConfigModel],
    what: str,
    *,
    special: tuple[str, ...],
    field_of: Mapping[str, str],
) -> dict[str, Any]:
    """The fields of the configuration that were given: the file's first, then the flags'. Raises ConfigError.

    Flags that are ``special`` mean something of their own; the others are a field, under another name by ``field_of``.
    """
    result = {} if flags.config is None else read_config(flags.config, model, what)
    own = ("config", "metadata", *special)
    for field in fields(flags):
        value = getattr(flags, field.name)
        if value is not None and field.name not in own:
            result[field_of.get(field.name, field.name)] = value
    if flags.metadata is not None:
        result["metadata"] = notes(flags.metadata)
    return result


def listed(given: list[str]) -> list[str]:
    """An option that was repeated, or given with commas, or both."""
    return [one.strip() for text in given for one in text.split(",") if one.strip()]


def notes(given: list[str]) -> dict[str, str]:
    """``--metadata KEY=VALUE``. Raises ConfigError."""
    result = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise ConfigError(f"--metadata {text!r} is not KEY=VALUE")
        result[name] = value
    return result


def read_config(file: Path, model: type[ConfigModel], what: str) -> dict[str, Any]:
    """The fields of a configuration file, with durations as they are on the command line's side. Raises ConfigError."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"the file {file} cannot be read as JSON: {error}") from error
    if isinstance(found, dict) and isinstance(found.get("config"), dict):
        found = found["config"]  # what `info --json` prints
    if not isinstance(found, dict):
        raise ConfigError(f"the file {file} does not hold a JSON object")
    try:
        read = model.from_api(found)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise ConfigError(
            f"the file {file} is not a {what} configuration: {where}: {fault['msg']}"
        ) from error
    return {name: getattr(read, name) for name in read.model_fields_set}
