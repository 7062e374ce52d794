"""The arguments of a publish: which headers they become, and what is refused before anything is sent."""

from __future__ import annotations

import asyncio
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


def test_long_headers_are_not_kept() -> None:
    """A thousand of those that may travel would take more memory than all else."""
    for number in range(10):
        text = f"{number}" + "x" * 50_000
        assert message_headers({"headers": {"Trace": text}}) == [("Trace", text.encode())]
        assert message_headers({"headers": {"x" * 50_000 + f"{number}": "1"}})
    assert max(len(name) + len(value) for name, value in arguments._known) < 1_000


@pytest.mark.parametrize("value", [None, 1, [1], ["1", None], 1.5], ids=repr)
def test_a_header_whose_value_cannot_travel_is_named(value: Any) -> None:
    for others in ({}, {"Other": "2"}):
        with pytest.raises(ConfigError, match="is not a valid value of the header 'Own'"):
            message_headers({"headers": {"Own": value, **others}})


@pytest.mark.parametrize("value", [bytearray(b"1"), memoryview(b"1"), [bytearray(b"1")]])
def test_all_kinds_of_bytes_are_values_of_headers(value: Any) -> None:
    assert message_headers({"headers": {"Own": value}}) == [("Own", b"1")]


HALF = "\ud800"  # of a surrogate pair: no UTF-8


@pytest.mark.parametrize(
    "options",
    [
        {"subject": f"s.{HALF}"},
        {"payload": HALF},
        {"msg_id": HALF},
        {"msg_id": b"1"},
        {"msg_id": 5},
        {"headers": {HALF: "1"}},
        {"headers": {"Own": HALF}},
        {"expected_last_msg_id": HALF},
    ],
    ids=repr,
)
def test_what_cannot_travel_is_refused_and_what_shares_its_record_is_not(options: dict[str, Any]) -> None:
    options = {"subject": "s.a", **options}
    with railgun.connect("memory://") as rg:
        rg.create_stream("S", subjects=["s.*"], allow_atomic=True)
        futures = [rg.publish_soon("s.a", f"{number}") for number in range(3)]
        for publish in (rg.publish_soon, rg.publish):
            odd: Any = publish
            with pytest.raises(ConfigError):
                odd(**options)
        futures += [rg.publish_soon("s.a", f"{number}") for number in range(3, 6)]
        assert [future.result(5).sequence for future in futures] == [1, 2, 3, 4, 5, 6]
        with pytest.raises(ConfigError):
            _commit(rg, options)
        assert rg.stream("S").info().state.messages == 6


@pytest.mark.parametrize("headers", [{"a:b": "1"}, {"Own": HALF}, {"Own": 5}, {"Railgun-Own": "1"}], ids=repr)
def test_a_raw_request_with_a_header_that_cannot_travel_is_refused(headers: dict[str, Any]) -> None:
    with railgun.connect("memory://") as rg, pytest.raises(ConfigError):
        rg.request("STREAM.NAMES", headers=headers)


def _commit(rg: railgun.Railgun, options: dict[str, Any]) -> None:
    with rg.batch() as batch:
        batch.add(**options)
        batch.add("s.a", b"x")


async def test_a_batch_that_cannot_travel_takes_no_other_along() -> None:
    async with railgun.connect_async("memory://") as rg:
        await rg.create_stream("S", subjects=["s.*"], allow_atomic=True)

        async def commit(subject: str) -> railgun.PubAck | None:
            async with rg.batch() as batch:
                batch.add(subject, b"x")
                batch.add("s.a", b"x")
            return batch.ack

        await commit("s.a")  # from now on it is known where the subject belongs
        found = await asyncio.gather(
            commit("s.a"), commit(f"s.{HALF}"), commit("s.a"), return_exceptions=True
        )
        assert [type(one) for one in found] == [railgun.PubAck, ConfigError, railgun.PubAck]
