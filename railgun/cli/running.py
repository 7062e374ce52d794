"""Commands as functions: how their parameters become options, and how every command ends.

A command is a function whose parameters are arguments, options, or whole dataclasses of options (``Cluster`` and the like);
:func:`command` spreads those out for Typer. It also gives every command the same ends: 0 done, 1 refused or wrong, 2 misused,
3 the cluster cannot be reached or no worker would answer, 4 no answer in time (the outcome is unknown).
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, get_args, get_type_hints

import typer
from confluent_kafka import KafkaException

from railgun.cli.output import print_json
from railgun.errors import (
    ApiError,
    ConfigError,
    ConnectionLost,
    NotAuthorized,
    NoWorker,
    RailgunError,
    RequestTimeout,
)

EXIT_WRONG: Final = 1
EXIT_UNREACHABLE: Final = 3
EXIT_UNKNOWN: Final = 4


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
