"""Schemas in a registry on the network: Confluent's, Apicurio's or another with the same API, by confluent-kafka's client."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from railgun.avro.compatibility import Compatibility, check_level, differences
from railgun.avro.errors import IncompatibleSchema, RegistryUnavailable, UnknownSchema, UnreadableEvent
from railgun.avro.parsing import parsed
from railgun.errors import ConfigError

T = TypeVar("T")
_NOT_FOUND: Final = 404
_REFUSED: Final = (409, 422)
_LONGEST_REASON: Final = 300  # of what a proxy says instead of the registry
_GARBAGE: Final = (ValueError, TypeError, AttributeError, KeyError, RecursionError)
_ATTEMPTS: Final = 2  # the first may meet a connection that the registry has closed meanwhile
_SCHEMES: Final = frozenset({"http", "https"})


class SchemaRegistry:
    """A registry at a URL. The subject of a schema is the full name of its record.

    A new schema is compared with all versions of its subject before it is registered, whatever the registry itself would take
    (``compatibility``; Apicurio's default takes everything). ``register=False`` registers nothing, and refuses a model whose
    schema is not there. A request waits ``timeout`` seconds at most; the first that fails ends the call. ``config``: further settings
    of confluent-kafka's client (``basic.auth.user.info``, ``ssl.ca.location``, …). A context manager; several connections may share one.
    """

    def __init__(
        self,
        url: str,
        *,
        compatibility: Compatibility = "FULL",
        register: bool = True,
        timeout: float = 5.0,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        check_level(compatibility)
        if timeout <= 0:
            raise ConfigError(f"{timeout} is not a valid timeout: give seconds")
        if not _is_address(url):
            raise ConfigError(
                f"{_shown(url)!r} is not a valid address of a registry: give one such as http://localhost:8081, and a password "
                "with other characters than letters and digits in config, as basic.auth.user.info"
            )
        self._compatibility = compatibility
        self._register = register
        self._url = url
        self._settings = {
            "url": url,
            "timeout": timeout / _ATTEMPTS,
            "max.retries": _ATTEMPTS - 1,
            "retries.wait.ms": 20,
            **(config or {}),
        }
        self._lock = threading.Lock()
        self._made: Any = None
        self._client()  # a setting that is wrong shows here

    def __repr__(self) -> str:
        return f"SchemaRegistry({_shown(self._url)!r})"

    def close(self) -> None:
        """Close the connections to the registry; the next call opens new ones."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()

    def __enter__(self) -> SchemaRegistry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def use(self, record: str, schema: Mapping[str, Any]) -> int:
        """The id of the record's schema, registered if it is new. Raises IncompatibleSchema, UnknownSchema, RegistryUnavailable."""
        from confluent_kafka.schema_registry import Schema

        given = Schema(json.dumps(schema), "AVRO")
        known = self._ask(lambda: int(self._client().lookup_schema(record, given).schema_id), absent=None)
        if known is not None:
            return int(known)
        found = differences(
            parsed(schema),
            [(f"version {number}", parsed(text)) for number, _, text in self._all(record)],
            self._compatibility,
        )
        if found:
            raise IncompatibleSchema(record=record, differences=found)
        if not self._register:
            raise UnknownSchema(record=record, registry=repr(self))
        return int(self._ask(lambda: int(self._client().register_schema(record, given)), record=record))

    def schema(self, schema_id: int) -> Any:
        """The schema of that id, or None. Raises RegistryUnavailable, and UnreadableEvent for a schema that is not Avro."""
        found = self._ask(lambda: self._client().get_schema(schema_id), absent=None)
        if found is None:
            return None
        if found.schema_type not in (None, "AVRO"):
            raise UnreadableEvent(
                f"its schema {schema_id} is {found.schema_type} and not AVRO", schema_id=schema_id
            )
        try:
            return parsed(found.schema_str)
        except ConfigError as error:
            raise RegistryUnavailable(
                registry=repr(self), reason=f"of its schema {schema_id}, {error}"
            ) from error

    def versions(self, record: str) -> dict[int, str]:
        """The schemas of a record by their ids, as JSON, oldest first. Raises RegistryUnavailable."""
        return {schema_id: text for _, schema_id, text in self._all(record)}

    def _all(self, record: str) -> list[tuple[int, int, str]]:
        numbers = self._ask(lambda: sorted(map(int, self._client().get_versions(record))), absent=[])
        return [self._ask(partial(self._version, record, number)) for number in numbers]

    def _version(self, record: str, number: int) -> tuple[int, int, str]:
        one = self._client().get_version(record, number)
        return number, int(one.schema_id), one.schema.schema_str

    _RAISES: Final = object()

    def _ask(self, call: Callable[[], Any], *, absent: Any = _RAISES, record: str = "") -> Any:
        """The answer; ``absent`` where the registry says that there is none."""
        import httpx2
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return call()
        except SchemaRegistryError as error:
            # One that says 404 without a number of its own (here -1) does not know the API: the URL is wrong, or a proxy stands alone.
            known = error.http_status_code == _NOT_FOUND and (error.error_code or -1) > 0
            if known and absent is not self._RAISES:
                return absent
            if record and error.http_status_code in _REFUSED:
                raise IncompatibleSchema(
                    record=record, differences=[f"the registry refuses it: {error.error_message}"]
                ) from error
            said = str(error.error_message)[:_LONGEST_REASON]
            raise RegistryUnavailable(
                registry=repr(self), reason=f"it answers {error.http_status_code}: {said}"
            ) from error
        except (httpx2.HTTPError, OSError) as error:
            late = isinstance(error, httpx2.TimeoutException)
            reason = "it does not answer in time" if late else str(error) or repr(error)
            raise RegistryUnavailable(registry=repr(self), reason=reason) from error
        except _GARBAGE as error:  # the client takes whatever it is answered for what it wants
            raise RegistryUnavailable(
                registry=repr(self), reason=f"it does not answer as a registry does ({error!r})"
            ) from error

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                try:
                    from confluent_kafka.schema_registry import SchemaRegistryClient
                except ImportError as error:
                    raise ConfigError(
                        f"the registry's client cannot be loaded ({error}): pip install 'railgun[avro]'"
                    ) from error
                try:
                    self._made = SchemaRegistryClient.new_client(dict(self._settings))
                except (ValueError, TypeError) as error:
                    raise ConfigError(f"{self!r} is not a valid registry: {error}") from error
            return self._made


def _is_address(url: str) -> bool:
    """Whether a request can go there; confluent-kafka's client takes several addresses, with commas between."""
    try:
        parts = [urlsplit(one.strip()) for one in url.split(",")]
        return all(one.scheme in _SCHEMES and one.hostname and one.port != 0 for one in parts)
    except ValueError:  # of the port: what is behind the colon of a password with a slash in it, say
        return False


def _shown(url: str) -> str:
    """The address without an account and its password, whatever characters these have, and without parameters."""
    parts = url.split(",")
    if not all("://" in one for one in parts):
        parts = [url]
    return ",".join(_without_account(one) for one in parts)


def _without_account(url: str) -> str:
    head, _, host = url.rpartition("@")
    scheme, separator, _ = head.partition("://")
    return f"{scheme if separator else ''}{separator}{host.partition('?')[0]}"
