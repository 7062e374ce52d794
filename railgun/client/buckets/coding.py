"""The codecs of one handle at work: keys to subjects, values to payloads, messages to entries.

Every key and value of a bucket passes here, on its way in and out, so codecs are applied in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from railgun.client.buckets import naming
from railgun.client.buckets.codecs import KeyCodec, one_key_codec
from railgun.client.buckets.value_codecs import ValueCodec, one_value_codec
from railgun.client.publishing.arguments import payload_bytes
from railgun.errors import ConfigError, InvalidKey, RailgunError
from railgun.model import headers as h
from railgun.model.bucket_config import BucketConfig
from railgun.model.bucket_entry import Entry, operation_of

GivenKeys = KeyCodec | Sequence[KeyCodec] | None
GivenValues = ValueCodec | Sequence[ValueCodec] | None


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
        self.prefix = f"{config.subject_prefix}.{config.replica_of or config.bucket}."
        self._dotted = config.dotted_keys
        self._keys = keys
        self._values = values

    def of(self, config: BucketConfig) -> Coding:
        """The same codecs for another bucket."""
        return Coding(config, self._keys, self._values)

    # -- on the way in

    def subject(self, key: str) -> str:
        """The subject of a key that is read. Raises InvalidKey (KV-02, KV-03)."""
        return self.prefix + naming.check_key(self._encoded(key), key, dotted=self._dotted)

    def place(self, key: str) -> str:
        """The subject of a key, unchecked, to look it up among valid ones: faster. A key that cannot be encoded has none."""
        try:
            return self.prefix + self._keys.encode(key)
        except Exception:  # noqa: BLE001 - `subject` says what is wrong
            return ""

    def writable(self, key: str) -> str:
        """The subject of a key that is written. Raises InvalidKey, for reserved keys too (KV-04); ConfigError for a replica."""
        if self.config.mirror is not None:  # KV-49
            raise ConfigError(
                f"the bucket {self.config.bucket!r} is a replica and takes no values: "
                f"write to {self.config.replica_of!r}, or open it with bucket({self.config.replica_of!r})"
                f".replica({self.config.bucket!r})"
            )
        found = naming.check_key(self._encoded(key), key, dotted=self._dotted)
        naming.check_reserved(found, key)
        return self.prefix + found

    def pattern(self, key: str) -> str:
        """The subject filter of a key or pattern of keys. Raises InvalidKey; ConfigError if the codec cannot keep wildcards."""
        if naming.is_pattern(_text(key)) and not self._keys.keeps_wildcards:  # KV-43
            raise ConfigError(f"{key!r} cannot be looked for: the codec of the keys does not keep wildcards")
        return self.prefix + naming.check_pattern(self._encoded(key), key, dotted=self._dotted)

    def patterns(self, keys: str | Iterable[str] | None) -> list[str]:
        """The subject filters of some keys and patterns; of all keys, if none is given."""
        if keys is None:
            return [self.prefix + ">"]
        return [self.pattern(key) for key in _several(keys)]

    def payload(self, value: Any) -> bytes:
        """The bytes of a value. Raises ConfigError for what the codec does not take."""
        try:
            return payload_bytes(self._values.encode(value))
        except RailgunError:
            raise
        except Exception as error:  # a codec is the program's, and may raise anything
            raise ConfigError(
                f"this is not a valid value for {type(self._values).__name__}: {_reason(error)}"
            ) from error

    def _encoded(self, key: str) -> str:
        try:
            encoded: object = self._keys.encode(_text(key))
        except RailgunError:
            raise
        except Exception as error:
            raise InvalidKey(key, _reason(error)) from error
        if not isinstance(encoded, str):
            raise InvalidKey(key, f"its codec makes {type(encoded).__name__} of it, and no text")
        return encoded

    # -- on the way out

    def key(self, subject: str) -> str:
        """The key that a subject stands for, as programs write it; as it is stored if the codec cannot read it."""
        stored = subject.removeprefix(self.prefix)
        try:
            return self._keys.decode(stored)
        except Exception:  # noqa: BLE001 - one odd key must not end a list of all
            return stored

    def value(self, raw: bytes) -> Any:
        """The value of bytes that were decoded before."""
        return self._values.decode(raw)

    def entry(self, message: BucketMessage, delta: int = 0, *, with_value: bool = True) -> Entry:
        """The entry that a message is (KV-42). What cannot be decoded is shown as it is stored, with the reason."""
        headers, raw, error = message.headers, message.payload, None
        operation = operation_of(headers)
        key, value = message.subject.removeprefix(self.prefix), None
        try:
            key = self._keys.decode(key)
            if with_value and operation == "PUT":
                value = self._values.decode(raw)
        except Exception as failed:  # noqa: BLE001 - one odd value must not end a read or a watch of all
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
    key_codec: GivenKeys = None,
    value_codec: GivenValues = None,
    model: Any = None,
) -> Coding:
    """The coding of a handle. Several codecs are chained; a model is the first of them. Raises ConfigError if the model is not one."""
    return Coding(config, one_key_codec(key_codec), one_value_codec(value_codec, model))


def _several(keys: object) -> list[Any]:
    """The keys that are given: one, or several."""
    return list(keys) if isinstance(keys, Iterable) and not isinstance(keys, str | bytes) else [keys]


def _text(key: object) -> str:
    if not isinstance(key, str):
        raise InvalidKey(key, "give a text")
    return key


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
