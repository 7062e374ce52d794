"""Why a typed event cannot be written or read. Each says it in one sentence, with what to do.

::

    EventError
    ├── InvalidModel          a model, or a field of it, has no counterpart in Avro (also a ConfigError; ``model``, ``field``)
    ├── InvalidEvent          the values of this event do not fit into its schema (also a ValueError; ``model``)
    ├── IncompatibleSchema    the model's schema breaks with an earlier version (``record``, ``differences``)
    ├── UnknownSchema         the registry lacks the schema, and nothing may be added (also a ConfigError; ``record``)
    ├── UnreadableEvent       a payload cannot be read as the wanted model (also a ValueError; ``schema_id``, ``reason``)
    │   └── UnknownSchemaId   the registry does not know the id in its frame, or not yet
    └── RegistryUnavailable   the registry does not answer, or cannot be used (``registry``, ``reason``)

UnknownSchemaId and RegistryUnavailable may pass; all others are final: the same call fails again. Nothing was sent when a publish raises one
of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from railgun.errors import ConfigError, EventError

__all__ = [
    "EventError",
    "IncompatibleSchema",
    "InvalidEvent",
    "InvalidModel",
    "RegistryUnavailable",
    "UnknownSchema",
    "UnknownSchemaId",
    "UnreadableEvent",
]


class InvalidModel(EventError, ConfigError):
    """A model, or one of its fields, has no counterpart in Avro; nothing was sent."""

    def __init__(self, *, model: str, reason: str, field: str | None = None) -> None:
        self.model, self.field, self.reason = model, field, reason
        if field is None:
            super().__init__(f"{model} is not a valid model of an event: {reason}")
        else:
            super().__init__(f"{model}.{field} is not a valid field of an event: {reason}")


class InvalidEvent(EventError, ValueError):
    """The values of an event do not fit into its schema; nothing was sent."""

    def __init__(self, *, model: str, reason: str) -> None:
        self.model, self.reason = model, reason
        super().__init__(f"this {model} is not a valid event: {reason}")


class IncompatibleSchema(EventError):
    """The schema of a model breaks with a version that is in use; nothing was sent and nothing was registered."""

    def __init__(self, *, record: str, differences: Sequence[str]) -> None:
        self.record, self.differences = record, tuple(differences)
        super().__init__(
            f"the schema of {record} is not compatible with those in use: {'; '.join(differences)}. "
            "Give new fields a default, keep the types of others, or use another name"
        )


class UnknownSchema(EventError, ConfigError):
    """The registry does not have the schema of a model, and this program may not add it; nothing was sent."""

    def __init__(self, *, record: str, registry: str) -> None:
        self.record, self.registry = record, registry
        super().__init__(
            f"{registry} does not have this schema of {record}, and register=False: add it before this program runs"
        )


class UnreadableEvent(EventError, ValueError):
    """A payload cannot be read as the wanted model: its frame, its schema or its bytes are wrong. It is left as it is."""

    def __init__(self, reason: str, *, schema_id: int | None = None) -> None:
        self.reason, self.schema_id = reason, schema_id
        super().__init__(f"the payload is not a valid event: {reason}")


class UnknownSchemaId(UnreadableEvent):
    """The registry has no schema of the id in a payload's frame. It may lag behind, or be restored: a later try may succeed."""


class RegistryUnavailable(EventError):
    """The registry does not answer, or refuses this program. A later try may succeed; nothing was sent."""

    def __init__(self, *, registry: str, reason: str) -> None:
        self.registry, self.reason = registry, reason
        super().__init__(f"the schema registry {registry} cannot be used: {reason}")
