"""What Connect answers, in words: busy, refused, something else at its address, and the traces of tasks.

What a real Connect cannot be made to say at will, a rebalance above all, a small server says here.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from railgun.errors import ConfigError, ConnectionLost
from railgun.kafka.embedded import free_port
from railgun.sinks import Connect, ConnectUnreachable, SinkNotFound, SinkRefused, SinkStatus, TaskStatus
from railgun.sinks.status import reason_in, status_of

REBALANCE = (
    409,
    {"error_code": 409, "message": "Cannot complete request momentarily due to stale configuration"},
)


class Answers(HTTPServer):
    """A server that gives its answers in turn, the last one for ever, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.given: list[tuple[int, Any]] = []
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Answers

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        code, body = self.server.given.pop(0) if len(self.server.given) > 1 else self.server.given[0]
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/html" if isinstance(body, bytes) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""


@pytest.fixture
def server() -> Iterator[Answers]:
    with Answers() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_a_worker_that_rebalances_is_asked_again(server: Answers) -> None:
    server.given = [REBALANCE, REBALANCE, (200, {})]
    with Connect(server.url, timeout=10) as connect:
        assert connect.list() == []
    assert len(server.asked) == 3


def test_one_that_starts_is_asked_again_and_is_not_taken_for_one_without_the_sink(server: Answers) -> None:
    page = (404, b"<html>Not Found</html>")
    server.given = [page, page, (200, {})]
    with Connect(server.url, timeout=10) as connect:
        assert connect.list() == []
    server.given = [page]
    with Connect(server.url, timeout=0.4) as connect, pytest.raises(ConnectUnreachable):
        connect.delete("orders")


def test_one_that_does_nothing_else_is_unreachable_in_a_bounded_time(server: Answers) -> None:
    server.given = [REBALANCE]
    with Connect(server.url, timeout=0.5) as connect, pytest.raises(ConnectUnreachable, match="was busy"):
        connect.list()


def test_an_answer_without_end_does_not_fill_the_memory(server: Answers) -> None:
    """Some programs at a wrong address send whatever they have."""
    server.given = [(200, b'["' + b"x" * 40_000_000 + b'"]')]
    with (
        Connect(server.url, timeout=60) as connect,
        pytest.raises(ConnectUnreachable, match="the answer is too large"),
    ):
        connect.list()


def test_an_answer_that_never_ends_is_not_waited_for() -> None:
    """Each part of it comes in time."""
    ended = threading.Event()

    def drip(listening: socket.socket) -> None:
        with listening.accept()[0] as one:
            one.recv(65_536)
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n")
            with contextlib.suppress(OSError):
                while not ended.wait(0.02):
                    one.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        dripping = threading.Thread(target=drip, args=(listening,))
        dripping.start()
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            with Connect(url, timeout=0.3) as connect, pytest.raises(ConnectUnreachable, match="in time"):
                connect.list()
        finally:
            ended.set()
            dripping.join(10)


def test_a_refusal_is_told_in_connects_words(server: Answers) -> None:
    server.given = [(500, {"error_code": 500, "message": "Something\n  is wrong"})]
    with Connect(server.url) as connect, pytest.raises(SinkRefused, match="Something is wrong"):
        connect.list()


@pytest.mark.parametrize(
    "answer", [(404, {"error_code": 404, "message": "no"}), (200, {"connector.class": "x"})]
)
def test_a_connector_that_is_not_there_or_not_ours_is_not_found(
    server: Answers, answer: tuple[int, Any]
) -> None:
    server.given = [answer]
    with Connect(server.url) as connect, pytest.raises(SinkNotFound, match="there is no sink orders"):
        connect.status("orders")


def test_another_program_at_the_address_is_told(server: Answers) -> None:
    server.given = [(200, b"hello")]
    with Connect(server.url) as connect, pytest.raises(ConnectUnreachable, match="is not Kafka Connect"):
        connect.list()


@pytest.mark.parametrize("body", [b"[]", b"5", b'"text"', b"[" * 100_000])
def test_json_that_is_none_of_connects_is_told(server: Answers, body: bytes) -> None:
    server.given = [(200, body)]
    with Connect(server.url) as connect:
        for ask in (connect.list, lambda: connect.status("orders"), lambda: connect.delete("orders")):
            with pytest.raises(ConnectUnreachable, match="is not Kafka Connect"):
                ask()


NAMED = {"info": {"config": {"railgun.stream": "S", "name": "n"}}}


@pytest.mark.parametrize(
    "answer",
    [
        {"n": None}, {"n": 5}, {"n": {"info": None}}, {"n": {"info": {"config": None}}}, {"n": {**NAMED, "status": None}},
        {"n": {**NAMED, "status": {"connector": 5}}}, {"n": {**NAMED, "status": {"tasks": [None]}}}, {"n": {**NAMED, "status": {"tasks": 7}}},
    ],
)  # fmt: skip
def test_a_list_of_another_form_is_told(server: Answers, answer: object) -> None:
    server.given = [(200, answer)]
    with Connect(server.url) as connect, pytest.raises(ConnectUnreachable, match="is not Kafka Connect"):
        connect.list()


@pytest.mark.parametrize("answer", [{"connector": "x"}, {"tasks": 5}, {"tasks": [5]}, {"tasks": {"id": 1}}])
def test_a_status_of_another_form_is_told(server: Answers, answer: dict[str, Any]) -> None:
    server.given = [(200, {"railgun.stream": "S", "name": "n"}), (200, answer)]
    with Connect(server.url) as connect, pytest.raises(ConnectUnreachable, match="is not Kafka Connect"):
        connect.status("n")


@pytest.mark.parametrize(
    "answer",
    [
        {"configs": None}, {"configs": [None]}, {"configs": [{"value": 5}]}, {"configs": [{"value": {"errors": 5}}]},
        {"configs": [{"definition": 5}]}, {"configs": {"a": 1}},
    ],
)  # fmt: skip
def test_a_validation_of_another_form_is_told(server: Answers, answer: object) -> None:
    server.given = [(200, answer)]
    with Connect(server.url) as connect, pytest.raises(ConnectUnreachable, match="is not Kafka Connect"):
        connect._validate("n", {"connector.class": "a.B"})


def test_no_error_shows_the_password_of_the_address(server: Answers) -> None:
    server.given = [(200, b"hello")]
    secret = "hunter2"
    for url in (server.url, f"http://127.0.0.1:{free_port()}"):
        with (
            Connect(url.replace("://", f"://me:{secret}@")) as connect,
            pytest.raises(ConnectUnreachable) as told,
        ):
            connect.list()
        assert secret not in str(told.value)
        assert url in str(told.value)
    for wrong in (f"ftp://me:{secret}@host", f"me:{secret}@host:8083"):
        with pytest.raises(ConfigError) as refused:
            Connect(wrong)
        assert secret not in str(refused.value)


def test_an_address_at_which_nobody_listens_is_told_at_once() -> None:
    with Connect(f"http://127.0.0.1:{free_port()}") as connect, pytest.raises(ConnectUnreachable) as told:
        connect.list()
    assert "railgun up --connect" in str(told.value)
    assert isinstance(told.value, ConnectionLost)


@pytest.mark.parametrize(
    "url",
    ["localhost:8083", "ftp://x", "", "http://", "http://[::1", "http://host:port", "http://host:99999"],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="not a valid address of Kafka Connect"):
        Connect(url)


def test_a_password_that_breaks_the_address_is_in_no_traceback() -> None:
    secret = "hunter2"
    with pytest.raises(ConfigError) as told:
        Connect(f"http://me:{secret}/x@localhost:8083")
    assert secret not in "".join(traceback.format_exception(told.value))


def test_names_are_quoted(server: Answers) -> None:
    server.given = [(404, {"error_code": 404})]
    with Connect(server.url) as connect, pytest.raises(SinkNotFound):
        connect.status("../a?b")
    assert server.asked == ["/connectors/..%2Fa%3Fb/config"]


def status(connector: str, *tasks: str) -> SinkStatus:
    made = tuple(TaskStatus(number, state, "w") for number, state in enumerate(tasks))
    return SinkStatus("s", "S", 1, "c", TaskStatus(-1, connector, "w"), made)


@pytest.mark.parametrize(
    "one, word",
    [
        (status("RUNNING", "RUNNING"), "RUNNING"),
        (status("RUNNING"), "STARTING"),
        (status("RUNNING", "FAILED"), "FAILED"),
        (status("FAILED"), "FAILED"),
        (status("PAUSED", "PAUSED"), "PAUSED"),
        (status("RUNNING", "UNASSIGNED"), "UNASSIGNED"),
        (status("UNASSIGNED", "RUNNING"), "UNASSIGNED"),
    ],
)
def test_the_state_of_all_in_one_word(one: SinkStatus, word: str) -> None:
    assert one.state == word


def test_a_status_that_is_not_there_yet_is_a_start() -> None:
    found = status_of({"name": "orders", "railgun.stream": "ORDERS", "railgun.incarnation": "x"}, {})
    assert (found.state, found.incarnation, found.reason) == ("STARTING", 0, "")
    assert status_of({"name": "orders"}, {"connector": None, "tasks": None}).state == "STARTING"


TRACE = "a.ConnectException: Exiting\n\tat x.Y\nCaused by: b.C: outer\n\tat z\nCaused by: java.net.E: Connection refused\n"


@pytest.mark.parametrize(
    "trace, reason",
    [
        (TRACE, "a.ConnectException: Exiting (java.net.E: Connection refused)"),
        ("a.E: only\n\tat x", "a.E: only"),
        ("", ""),
        ("a.E: " + "x" * 1000, "a.E: " + "x" * 494 + "…"),
        ("h.E: Unable to determine Dialect without JDBC metadata (…)", "the database does not answer at its address, or refuses the account"),
    ],
)  # fmt: skip
def test_the_reason_in_a_trace(trace: str, reason: str) -> None:
    assert reason_in(trace) == reason
