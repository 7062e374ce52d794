"""Connect's REST API: one request, its answer, and its failures in words. Every wait is bounded.

A worker that rebalances refuses requests with 409 for some seconds, and one that starts answers with pages of its web server: these are
asked again until the time is over. Whatever else fails is told at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx2

from railgun.errors import ConfigError
from railgun.sinks.errors import ConnectUnreachable

_PAUSE: Final = 0.25
_BUSY: Final = frozenset({409, 503})
_LONGEST_TEXT: Final = 500
_LARGEST_ANSWER: Final = 32 * 1024 * 1024  # bytes; the sinks of a Connect take some KB each

Query = str | list[str]


class Refusal(Exception):
    """Connect said no: the status of HTTP and its sentence. It never leaves this room."""

    def __init__(self, status: int, text: str) -> None:
        self.status, self.text = status, text
        super().__init__(f"{status}: {text}")


class Rest:
    """Requests to one Connect. Raises Refusal, and ConnectUnreachable where there is no answer in time."""

    def __init__(self, url: str, timeout: float) -> None:
        if timeout <= 0:
            raise ConfigError("the timeout of Kafka Connect must be greater than zero")
        self.url = _shown(url).rstrip("/")
        self.timeout = timeout
        try:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
                raise ValueError("it names no host")
            self._client = httpx2.Client(base_url=url.rstrip("/"), timeout=timeout, follow_redirects=True)
        except (ValueError, httpx2.InvalidURL):
            raise ConfigError(
                f"{self.url!r} is not a valid address of Kafka Connect: use http://host:8083"
            ) from None  # which may quote a part of a password

    def close(self) -> None:
        self._client.close()

    def call(self, method: str, *path: str, body: Any = None, **query: Query) -> Any:
        """The answer, an object of JSON; None if there is none."""
        address = "/" + "/".join(quote(part, safe="") for part in path)
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                answer = self._answer(method, address, body, query)
            except httpx2.RequestError as error:
                raise ConnectUnreachable(
                    f"no Kafka Connect answers at {self.url} ({_in_words(error)}): start one (`railgun up --connect`), "
                    "or name its address with --connect or RAILGUN_CONNECT"
                ) from error
            busy = answer.status_code in _BUSY or _is_starting(answer)
            if busy and time.monotonic() < deadline:
                time.sleep(_PAUSE)
                continue
            return self._read(answer, busy)

    def _answer(self, method: str, address: str, body: Any, query: Mapping[str, Query]) -> httpx2.Response:
        """The answer, all of it within the time-out and within bounds: what the client waits for so long is each of its parts. Raises httpx2.RequestError."""
        end = time.monotonic() + self.timeout
        with self._client.stream(method, address, json=body, params=query) as answer:
            content = bytearray()
            for part in answer.iter_bytes():
                content += part
                if len(content) > _LARGEST_ANSWER:
                    raise httpx2.ReadError("the answer is too large", request=answer.request)
                if time.monotonic() > end:
                    raise httpx2.ReadTimeout("the answer does not end", request=answer.request)
            kind = answer.headers.get("Content-Type", "")
            return httpx2.Response(answer.status_code, headers={"Content-Type": kind}, content=bytes(content))

    @contextmanager
    def understood(self) -> Iterator[None]:
        """What is in here takes an answer for one of Connect's. Raises ConnectUnreachable where it is none."""
        try:
            yield
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConnectUnreachable(
                f"what answers at {self.url} is not Kafka Connect: its answer has another form ({error!r})"
            ) from error

    def _read(self, answer: httpx2.Response, busy: bool) -> Any:
        if busy:
            raise ConnectUnreachable(
                f"Kafka Connect at {self.url} was busy for {self.timeout:.0f} seconds ({_sentence(answer)}): try again"
            )
        if answer.status_code >= 400:
            raise Refusal(answer.status_code, _sentence(answer))
        if not answer.content:
            return None
        try:
            found = answer.json()
        except (ValueError, RecursionError) as error:
            raise ConnectUnreachable(
                f"what answers at {self.url} is not Kafka Connect: it sends no JSON"
            ) from error
        if not isinstance(found, dict):
            raise ConnectUnreachable(f"what answers at {self.url} is not Kafka Connect: it sends no object")
        return found


def _is_starting(answer: httpx2.Response) -> bool:
    """Whether the 404 is the web server's, which knows no address of Connect yet, and not Connect's own."""
    return answer.status_code == 404 and "json" not in answer.headers.get("Content-Type", "")


def _sentence(answer: httpx2.Response) -> str:
    """What Connect says of an error: the message of its JSON, in one line."""
    try:
        text = str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        text = f"HTTP {answer.status_code}"
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TEXT else line[: _LONGEST_TEXT - 1] + "…"


def _shown(url: str) -> str:
    """The address as errors show it: without an account and its password."""
    head, _, host = url.rpartition("@")
    scheme, separator, _ = head.partition("://")
    return f"{scheme if separator else ''}{separator}{host}"


def _in_words(error: httpx2.RequestError) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return "it does not answer in time"
    return str(error) or type(error).__name__
