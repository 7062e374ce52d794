"""From a message to the arguments of a handler, by the types that its parameters are declared with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from railgun.avro.errors import UnknownSchemaId, UnreadableEvent
from railgun.avro.events import Events
from railgun.avro.framing import MAGIC
from railgun.client.consuming.delivery import Delivery
from railgun.client.facade.aio.message import AsyncMessage
from railgun.client.facade.sync.message import Message
from railgun.errors import ConfigError
from railgun.model.validation import in_words

Argument = Callable[[Delivery], Any]


class UnreadableMessage(Exception):
    """The payload is not what the handler takes; the text says why."""


def bind(function: Callable[..., Any], events: Events) -> Callable[[Delivery], dict[str, Any]]:
    """A function that makes the arguments of a handler. A parameter of type ``Message``, or without a type, gets the message;
    ``bytes`` and ``str`` get the payload as it is; any other type gets the payload, from Avro where a registry has framed it and from JSON otherwise, validated by pydantic.

    Raises ConfigError for a function that cannot be called so; the result raises :class:`UnreadableMessage`.
    """
    try:
        hints = get_type_hints(function)
    except NameError as error:
        raise ConfigError(
            f"the types of {function.__qualname__} cannot be resolved ({error}): define them at the top of a module"
        ) from error
    makers: dict[str, Argument] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ConfigError(
                f"{function.__qualname__} is not a valid handler: it takes {name!r} by position only"
            )
        makers[name] = _argument(hints.get(name), events, f"{name!r} of {function.__qualname__}")
    if not makers:
        raise ConfigError(
            f"{function.__qualname__} is not a valid handler: give it a parameter for the message"
        )
    return lambda message: {name: make(message) for name, make in makers.items()}


def _argument(wanted: Any, events: Events, where: str) -> Argument:
    if wanted is None or wanted in (Delivery, Message, AsyncMessage, Any):
        return lambda message: message
    if wanted is bytes:
        return lambda message: message.payload
    if wanted is str:
        return _text
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(wanted)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise ConfigError(
            f"the parameter {where} has a type that no payload can be read as: {error}"
        ) from error
    events.check(wanted)
    return lambda message: _validated(adapter, wanted, message)


def _text(message: Delivery) -> str:
    try:
        return message.text
    except UnicodeDecodeError as error:
        raise UnreadableMessage(f"not a text: {error}") from error


def _validated(adapter: TypeAdapter[Any], wanted: Any, message: Delivery) -> Any:
    """The payload as the wanted type. What will never be readable is UnreadableMessage. A registry that is down, or does not know a schema, is asked again."""
    try:
        if message.payload[:1] == MAGIC:
            return message._decoder().framed(message.payload, wanted)
        return adapter.validate_json(message.payload)
    except ValidationError as error:
        raise UnreadableMessage(in_words(error)) from error
    except UnknownSchemaId:
        raise
    except UnreadableEvent as error:
        raise UnreadableMessage(str(error)) from error
