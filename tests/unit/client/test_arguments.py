"""The arguments of a publish: which headers they become, and what is refused before anything is sent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

import railgun
from railgun.client.publishing import arguments
from railgun.client.publishing.arguments import MessageOptions, message_headers
from railgun.errors import ConfigError
from railgun.model import headers as h


def test_conditions_follow_the_headers_of_the_caller_in_one_order() -> None:
    found = message_headers(
        {
            "ttl": timedelta(milliseconds=1_500),
            "expected_last_msg_id": "id",
            "expected_last_subject_sequence_subject": "s.>",
            "expected_last_subject_sequence": 0,
            "expected_last_sequence": 7,
            "expected_stream": "S",
            "headers": {"Own": "1"},
        }
    )
    assert found == [
        ("Own", b"1"),
        (h.EXPECTED_STREAM, b"S"),
        (h.EXPECTED_LAST_SEQUENCE, b"7"),
        (h.EXPECTED_LAST_SUBJECT_SEQUENCE, b"0"),
        (h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT, b"s.>"),
        (h.EXPECTED_LAST_MSG_ID, b"id"),
        (h.TTL, b"1500000000ns"),
    ]


def test_an_argument_of_none_is_none() -> None:
    assert message_headers({"headers": None, "ttl": None, "expected_last_sequence": None}) == []


@pytest.mark.parametrize("ttl", [float("nan"), float("inf"), [], b"1"])
def test_a_life_time_that_is_no_time_is_refused(ttl: Any) -> None:
    with pytest.raises(ConfigError, match="is not a valid ttl"):
        message_headers({"ttl": ttl})


def test_a_header_that_cannot_travel_is_refused() -> None:
    with pytest.raises(ConfigError):
        message_headers({"headers": {"a\nb": "1"}})


@pytest.mark.parametrize("method", ["publish", "publish_soon"])
def test_a_misspelt_argument_is_refused(method: str) -> None:
    with railgun.connect("memory://") as rg:
        stream = rg.create_stream("S", subjects=["s"])
        publish: Any = getattr(rg, method)
        with pytest.raises(TypeError, match="expected_last_seq"):
            publish("s", b"x", expected_last_seq=1)
        assert stream.info().state.messages == 0


@pytest.mark.parametrize("method", ["publish", "publish_soon"])
async def test_a_misspelt_argument_is_refused_by_the_async_facade(method: str) -> None:
    async with railgun.connect_async("memory://") as rg:
        stream = await rg.create_stream("S", subjects=["s"])
        publish: Any = getattr(rg, method)
        with pytest.raises(TypeError, match="expected_last_seq"):
            await publish("s", b"x", expected_last_seq=1)
        assert (await stream.info()).state.messages == 0


@pytest.mark.parametrize(
    "name, header",
    [
        ("expected_last_sequence", h.EXPECTED_LAST_SEQUENCE),
        ("expected_last_subject_sequence", h.EXPECTED_LAST_SUBJECT_SEQUENCE),
    ],
)
def test_a_number_alone_travels_as_beside_others(name: str, header: str) -> None:
    for number in (0, 1, 2**63 - 1, -1):
        alone = message_headers(cast(MessageOptions, {name: number}))
        assert alone == [(header, str(number).encode())]
        assert alone == message_headers(cast(MessageOptions, {name: number, "headers": None}))


def test_headers_that_many_messages_share_are_not_changed_by_any() -> None:
    shared = message_headers({"headers": {"Shared": "1"}})
    assert shared is message_headers({"headers": {"Shared": "1"}})
    assert message_headers({"headers": {"Shared": "1"}, "expected_last_sequence": 7}) != shared
    with railgun.connect("memory://") as rg:
        rg.create_stream("S", subjects=["s"], allow_atomic=True)
        with rg.batch() as batch:
            for _ in range(3):
                batch.add("s", b"x", headers={"Shared": "1"})
        rg.publish("s", b"x", headers={"Shared": "1"})
    assert shared == [("Shared", b"1")]


@pytest.mark.parametrize("value", ["1", b"1", ["1"], ("1",), [b"1", "1"]])
def test_a_header_alone_travels_as_beside_others(value: Any) -> None:
    for _ in range(2):  # the second time it is known
        alone = message_headers({"headers": {"Own": value}})
        assert [*alone, ("Other", b"2")] == message_headers({"headers": {"Own": value, "Other": "2"}})


@pytest.mark.parametrize("name", ["", "a:b", "a\nb", "Railgun-Own", 7, None, ()])
def test_a_header_alone_that_cannot_travel_is_refused_every_time(name: Any) -> None:
    for _ in range(2):
        with pytest.raises(ConfigError):
            message_headers({"headers": {name: "1"}})


def test_headers_that_are_all_different_take_no_more_memory() -> None:
    for number in range(3 * arguments._MOST_KNOWN):
        assert message_headers({"headers": {"Trace": f"{number}"}}) == [("Trace", b"%d" % number)]
    assert len(arguments._known) <= arguments._MOST_KNOWN
