"""What answers at the address of a registry: only its own word that an id is unknown is final, all else may pass."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import BaseModel

from railgun.avro import Events, RegistryUnavailable, SchemaRegistry, UnreadableEvent
from railgun.errors import ConfigError

FRAMED = b"\0\0\0\0\1\2"


class Placed(BaseModel):
    id: int


class _Answers(BaseHTTPRequestHandler):
    """The same answer to every request; connections are not kept, because bodies of requests are not read."""

    answer = (200, b"")

    def do_GET(self) -> None:
        code, body = type(self).answer
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Nothing is to be seen of it."""


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://reader:hunter2@127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)


def schema(text: object) -> bytes:
    return json.dumps({"schema": text}).encode()


@pytest.mark.parametrize(
    "code, body",
    [
        (404, b"<html>no backend</html>"),  # a proxy, and no registry behind it
        (404, b"{}"),
        (200, b"<html>"),
        (200, b""),
        (200, b"[]"),
        (200, b"5"),
        (200, b"{}"),
        (200, schema("{")),
        (200, schema(5)),
        (200, schema('{"type":"record","name":"Placed","fields":[{"name":"id","type":"Nope"}]}')),
        (200, schema('{"type":"array","items":' * 3_000)),
        (500, b"oops"),
    ],
)
def test_an_answer_that_is_none_of_a_registry_is_not_final(
    address: str, monkeypatch: pytest.MonkeyPatch, code: int, body: bytes
) -> None:
    """A handler ends a message at once whose event is unreadable: it must not for what a proxy says."""
    monkeypatch.setattr(_Answers, "answer", (code, body))
    with SchemaRegistry(address) as registry:
        with pytest.raises(RegistryUnavailable) as reading:
            Events(registry).decode(FRAMED, Placed)
        with pytest.raises(RegistryUnavailable) as writing:
            Events(registry).use(Placed)
    assert "hunter2" not in str(reading.value) + str(writing.value)


def test_the_registrys_own_word_is_final(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Answers, "answer", (404, b'{"error_code": 40403, "message": "Schema not found"}'))
    with SchemaRegistry(address) as registry, pytest.raises(UnreadableEvent, match="has no schema 1"):
        Events(registry).decode(FRAMED, Placed)


def test_a_schema_without_a_record_is_read(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Confluent's serializers write texts and numbers by such schemas."""
    monkeypatch.setattr(_Answers, "answer", (200, schema('"string"')))
    with SchemaRegistry(address) as registry:
        assert Events(registry).framed(b"\0\0\0\0\1\4hi", str) == "hi"


@pytest.mark.parametrize(
    "url", ["localhost:8081", "reader:hunter2@localhost:8081", "", "ftp://localhost:8081"]
)
def test_an_address_without_a_scheme_is_refused_in_words(url: str) -> None:
    with pytest.raises(
        ConfigError, match="is not a valid address of a registry: give one such as http://"
    ) as told:
        SchemaRegistry(url)
    assert "hunter2" not in str(told.value)


def test_an_error_of_the_settings_shows_no_password() -> None:
    with pytest.raises(ConfigError) as told:
        SchemaRegistry("http://reader:hunter2@localhost:8081", config={"no.such.setting": 1})
    assert "hunter2" not in str(told.value)
    assert "localhost:8081" in str(told.value)


@pytest.mark.parametrize("form", ["a/{}", "{}/a", "a?{}", "a#{}", "[{}", "a,{}", "a@{}"])
def test_a_password_with_odd_characters_is_never_shown(form: str) -> None:
    """An address that such a password breaks is refused when it is given, and not by the first publish, with the password in it."""
    secret = "hunter2"
    url = f"http://reader:{form.format(secret)}@127.0.0.1:1/apis?key={secret}"
    with pytest.raises((ConfigError, RegistryUnavailable)) as told:
        SchemaRegistry(url, timeout=1).schema(1)
    assert secret not in "".join(traceback.format_exception(told.value))
    assert "127.0.0.1:1" in str(told.value)


def test_several_addresses_are_shown_without_their_accounts() -> None:
    with SchemaRegistry("http://a:hunter2@one:8081,https://b:hunter2@two") as registry:
        assert repr(registry) == "SchemaRegistry('http://one:8081,https://two')"
