"""Typed events: pydantic models as Avro records, with their schemas in a registry or in a folder.

``railgun.connect(…, registry=avro.SchemaRegistry("http://localhost:8081"))``, or ``registry=avro.SchemaFolder("schemas")``; then
``rg.publish("orders.new", Placed(…))``, ``message.as_(Placed)``, and handlers with a parameter of the type. Errors are below
:class:`railgun.EventError`. Your own registry needs the methods of :class:`Registry`.
"""

from __future__ import annotations

import json

from pydantic import BaseModel

from railgun.avro.errors import (
    IncompatibleSchema,
    InvalidEvent,
    InvalidModel,
    RegistryUnavailable,
    UnknownSchema,
    UnknownSchemaId,
    UnreadableEvent,
)
from railgun.avro.events import Events
from railgun.avro.naming import record_name
from railgun.avro.records import record_of
from railgun.avro.registry import Registry
from railgun.avro.schema_folder import SchemaFolder
from railgun.avro.schema_registry import SchemaRegistry
from railgun.errors import EventError

__all__ = [
    "SchemaRegistry",
    "SchemaFolder",
    "Registry",
    "Events",
    "schema_of",
    "writers",
    # errors
    "EventError",
    "InvalidModel",
    "InvalidEvent",
    "IncompatibleSchema",
    "UnknownSchema",
    "UnreadableEvent",
    "UnknownSchemaId",
    "RegistryUnavailable",
]


def schema_of(model: type[BaseModel]) -> str:
    """The Avro schema of a model, as JSON. Raises InvalidModel."""
    return json.dumps(record_of(model)[0].schema)


def writers(registry: Registry, *records: type[BaseModel] | str) -> dict[int, str]:
    """The schemas of all versions of these records, models or names, by their ids: the writers that ``railgun.spark.from_avro`` takes.

    Raises RegistryUnavailable.
    """
    found: dict[int, str] = {}
    for record in records:
        found |= registry.versions(record if isinstance(record, str) else record_name(record))
    return found
