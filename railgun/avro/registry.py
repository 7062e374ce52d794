"""The interface of what keeps schemas: a registry on the network, a folder of files, or one of your own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Registry(Protocol):
    """Schemas by id, and the versions of each record. Thread-safe; every call may wait, for a bounded time."""

    def use(self, record: str, schema: Mapping[str, Any]) -> int:
        """The id of the record's schema, which is added if it is new and compatible with all earlier versions.

        Raises IncompatibleSchema, UnknownSchema, RegistryUnavailable; nothing was added then.
        """

    def schema(self, schema_id: int) -> Any:
        """The schema of that id, parsed; None if there is none. Raises RegistryUnavailable, UnreadableEvent if it is not Avro."""

    def versions(self, record: str) -> dict[int, str]:
        """The schemas of a record by their ids, as JSON, oldest first. Raises RegistryUnavailable."""
