"""Codecs of a bucket: how keys and values are written to the stream, and read back (KV-41).

A codec is any object with these methods. Keys are checked after they were encoded.
"""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import BaseModel

from railgun.client.publishing.arguments import payload_bytes


class KeyCodec(Protocol):
    """Keys, as programs write them, to keys that a bucket can hold, and back. Either raises ValueError for what it cannot code."""

    @property
    def keeps_wildcards(self) -> bool:
        """Whether a key that holds ``*`` or ``>`` is encoded to a pattern that matches the same keys, encoded (KV-43)."""
        ...

    def encode(self, key: str) -> str: ...

    def decode(self, key: str) -> str: ...


class ValueCodec(Protocol):
    """Values, as programs write them, to bytes, and back. Either raises ValueError for what it cannot code."""

    def encode(self, value: Any) -> bytes: ...

    def decode(self, value: bytes) -> Any: ...


class PlainKeys:
    """Keys as they are."""

    keeps_wildcards = True

    def encode(self, key: str) -> str:
        return key

    def decode(self, key: str) -> str:
        return key


class PlainValues:
    """Values as they are: bytes, and text as UTF-8 (KV-46)."""

    def encode(self, value: Any) -> bytes:
        return payload_bytes(value)

    def decode(self, value: bytes) -> bytes:
        return value


class ModelValues:
    """Values of a pydantic model, as JSON."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model

    def encode(self, value: Any) -> bytes:
        return self._model.model_validate(value).model_dump_json().encode("utf-8")

    def decode(self, value: bytes) -> BaseModel:
        return self._model.model_validate_json(value)
