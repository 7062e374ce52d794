"""Names of the API and the pages of its lists."""

from __future__ import annotations

import json

import pytest

from railgun.api.names import ApiName, Operation, Route, parse
from railgun.api.responses import names_response


@pytest.mark.parametrize(
    "text, operation, stream, rest",
    [
        ("STREAM.MSG.GET.ORDERS", Operation.MSG_GET, "ORDERS", ""),
        ("$JS.API.STREAM.INFO.ORDERS", Operation.STREAM_INFO, "ORDERS", ""),
        ("STREAM.CREATE.a/b", Operation.STREAM_CREATE, "a/b", ""),
        ("STREAM.NAMES", Operation.STREAM_NAMES, "", ""),
        ("INFO", Operation.INFO, "", ""),
        ("DIRECT.GET.ORDERS", Operation.DIRECT_GET, "ORDERS", ""),
        ("DIRECT.GET.ORDERS.orders.new", Operation.DIRECT_GET, "ORDERS", "orders.new"),
    ],
)
def test_names_are_taken_apart(text: str, operation: Operation, stream: str, rest: str) -> None:
    assert parse(text) == ApiName(operation, stream, rest)
    assert ApiName(operation, stream, rest).text == text.removeprefix("$JS.API.")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ORDERS.new",
        "STREAM",
        "STREAM.CREATE",
        "STREAM.CREATE.",
        "STREAM.INFO.a.b",
        "DIRECT.GET.a.",
        "stream.names",
    ],
)
def test_what_is_no_name_of_the_api(text: str) -> None:
    assert parse(text) is None


def test_who_answers() -> None:
    routes = {operation: operation.route for operation in Operation}
    assert routes[Operation.STREAM_CREATE] is routes[Operation.STREAM_NAMES] is Route.REGISTRAR
    assert routes[Operation.STREAM_LIST] is routes[Operation.INFO] is Route.EVERY
    assert routes[Operation.MSG_GET] is routes[Operation.DIRECT_GET] is Route.OWNER


@pytest.mark.rule("CFG-31")
def test_names_come_in_pages_of_1024() -> None:
    streams = {f"S{number:04d}": [f"s.{number}"] for number in reversed(range(1_030))}
    first = json.loads(names_response(b"", streams).body)
    assert first["streams"] == sorted(streams)[:1_024]
    assert (first["total"], first["limit"], first["offset"]) == (1_030, 1_024, 0)
    second = json.loads(names_response(b'{"offset": 1024}', streams).body)
    assert second["streams"] == sorted(streams)[1_024:]
    assert json.loads(names_response(b'{"offset": -1}', streams).body) == first
    assert json.loads(names_response(b'{"offset": "1"}', streams).body)["error"]["err_code"] == 10025
