"""The codecs of one handle at work: keys to subjects, values to payloads, messages to entries.

Every key and value of a bucket passes here, on its way in and out, so codecs are applied in one place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from pydantic import BaseModel

from railgun.client.buckets import naming
from railgun.client.buckets.codecs import KeyCodec, ModelValues, PlainKeys, PlainValues, ValueCodec
from railgun.errors import ConfigError, InvalidKey
from railgun.model import headers as h
from railgun.model.bucket_config import BucketConfig
from railgun.model.bucket_entry import Entry, operation_of


class BucketMessage(Protocol):
    """A message of the bucket's stream, stored or delivered."""

    @property
    def subject(self) -> str: ...

    @property
    def sequence(self) -> int: ...

    @property
    def payload(self) -> bytes: ...

    @property
    def headers(self) -> h.Headers: ...

    @property
    def time_ns(self) -> int: ...


class Coding:
    """A bucket's names and a handle's codecs."""

    def __init__(self, config: BucketConfig, keys: KeyCodec, values: ValueCodec) -> None:
        self.config = config
        self.prefix = f"{config.subject_prefix}.{config.bucket}."
        self._dotted = config.dotted_keys
        self._keys = keys
        self._values = values

    # -- on the way in

    def subject(self, key: str) -> str:
        """The subject of a key that is read. Raises InvalidKey (KV-02, KV-03)."""
        return self.prefix + naming.check_key(self._encoded(key), key, dotted=self._dotted)

    def writable(self, key: str) -> str:
        """The subject of a key that is written. Raises InvalidKey, for reserved keys too (KV-04)."""
        found = naming.check_key(self._encoded(key), key, dotted=self._dotted)
        naming.check_reserved(found, key)
        return self.prefix + found

    def pattern(self, key: str) -> str:
        """The subject filter of a key or pattern of keys. Raises InvalidKey; ConfigError if the codec cannot keep wildcards."""
        if naming.is_pattern(key) and not self._keys.keeps_wildcards:  # KV-43
            raise ConfigError(f"{key!r} cannot be looked for: the codec of the keys does not keep wildcards")
        return self.prefix + naming.check_pattern(self._encoded(key), key, dotted=self._dotted)

    def patterns(self, keys: str | Iterable[str] | None) -> list[str]:
        """The subject filters of some keys and patterns; of all keys, if none is given."""
        if keys is None:
            return [self.prefix + ">"]
        return [self.pattern(key) for key in ([keys] if isinstance(keys, str) else keys)]

    def payload(self, value: Any) -> bytes:
        """The bytes of a value. Raises ConfigError for what the codec does not take."""
        try:
            return self._values.encode(value)
        except ValueError as error:
            raise ConfigError(f"the value cannot be encoded: {error}") from error

    def _encoded(self, key: str) -> str:
        if not isinstance(key, str):
            raise InvalidKey(key, "give a text")
        try:
            return self._keys.encode(key)
        except ValueError as error:
            raise InvalidKey(key, str(error)) from error

    # -- on the way out

    def key(self, subject: str) -> str:
        """The key that a subject stands for, as programs write it; as it is stored if the codec cannot read it."""
        stored = subject.removeprefix(self.prefix)
        try:
            return self._keys.decode(stored)
        except ValueError:
            return stored

    def entry(self, message: BucketMessage, delta: int = 0, *, with_value: bool = True) -> Entry:
        """The entry that a message is (KV-42). What cannot be decoded is shown as it is stored, with the reason."""
        headers, raw, error = message.headers, message.payload, None
        operation = operation_of(headers)
        key, value = message.subject.removeprefix(self.prefix), None
        try:
            key = self._keys.decode(key)
            if with_value and operation == "PUT":
                value = self._values.decode(raw)
        except ValueError as failed:
            error, value = failed, raw if with_value and operation == "PUT" else None
        return Entry(
            self.config.bucket,
            key,
            value,
            raw,
            message.sequence,
            message.time_ns,
            operation,
            delta,
            headers,
            error,
        )


def coding(
    config: BucketConfig,
    key_codec: KeyCodec | None = None,
    value_codec: ValueCodec | None = None,
    model: type[BaseModel] | None = None,
) -> Coding:
    """The coding of a handle. Raises ConfigError if both a model and a codec for values are given."""
    if model is not None:
        if value_codec is not None:
            raise ConfigError("give a model or a value_codec, not both")
        value_codec = ModelValues(model)
    return Coding(config, key_codec or PlainKeys(), value_codec or PlainValues())
