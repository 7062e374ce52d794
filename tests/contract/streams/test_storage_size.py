"""What a message counts for (STO): the numbers that limits and infos use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from railgun.client.facade.railgun import Railgun
from railgun.client.facade.sync.stream import Stream
from railgun.errors import StreamFull
from railgun.model.stream_config import StreamConfig
from tests.support.streams import Unique


@pytest.fixture
def make(rg: Railgun, unique: Unique) -> Callable[..., tuple[Stream, str]]:
    """A stream and a subject of exactly the wanted length that it captures."""

    def create(length: int, base: str = "STO", **fields: Any) -> tuple[Stream, str]:
        name = unique(base)
        subject = (base[0] + name[1 - length :]).ljust(length, "x")
        return rg.create_stream(StreamConfig(name=name, subjects=[subject], **fields)), subject

    return create


Make = Callable[..., tuple[Stream, str]]


def size(stream: Stream) -> int:
    return stream.info().state.bytes


@pytest.mark.rule("STO-01", "STO-03")
@pytest.mark.parametrize("length, payload, expected", [(4, b"hello", 39), (16, b"order 4", 53), (3, b"", 33)])
def test_a_message_without_headers(
    rg: Railgun, make: Make, length: int, payload: bytes, expected: int
) -> None:
    stream, subject = make(length)
    rg.publish(subject, payload)
    assert size(stream) == expected == 30 + length + len(payload)


@pytest.mark.rule("STO-02", "STO-04")
def test_headers_count_with_their_lines_and_four_bytes(rg: Railgun, make: Make) -> None:
    stream, subject = make(10)
    rg.publish(subject, b"hello1", headers={"Nats-Msg-Id": "1"})
    assert size(stream) == 67  # 34 + 10 + 17 + 6
    rg.publish(subject, b"", headers=[("A", "12"), ("Bé", "")])
    block = len("A:12\r\n") + len("Bé:\r\n".encode()) + len("\r\n")
    assert size(stream) == 67 + 34 + 10 + block


@pytest.mark.rule("STO-05")
def test_a_deleted_message_takes_its_size_with_it(rg: Railgun, make: Make) -> None:
    stream, subject = make(8)
    sizes = []
    for number, headers in enumerate(({}, {"A": "b"}, {}), 1):
        before = size(stream)
        rg.publish(subject, b"x" * number * 10, headers=headers)
        sizes.append(size(stream) - before)
    assert size(stream) == sum(sizes)
    stream.delete_message(2)
    assert size(stream) == sizes[0] + sizes[2]
    stream.delete_message(1)
    assert size(stream) == sizes[2]
    stream.purge()
    assert size(stream) == 0


@pytest.mark.rule("STO-06")
def test_limits_go_by_these_sizes(rg: Railgun, make: Make) -> None:
    stream, subject = make(3, max_bytes=99, discard="new")
    for _ in range(3):
        rg.publish(subject)  # 33 bytes each: exactly the limit
    assert size(stream) == 99
    with pytest.raises(StreamFull, match="maximum bytes exceeded"):
        rg.publish(subject)
    old, subject = make(3, "OLD", max_bytes=98)
    for _ in range(3):
        rg.publish(subject)
    assert (size(old), old.info().state.messages) == (66, 2)


@pytest.mark.rule("STO-07")
def test_memory_storage_counts_less(rg: Railgun, make: Make) -> None:
    stream, subject = make(10, storage="memory")
    rg.publish(subject, b"hello1")
    assert size(stream) == 16 + 10 + 6
    rg.publish(subject, b"hello1", headers={"Nats-Msg-Id": "1"})
    assert size(stream) == (16 + 10 + 6) + (16 + 10 + 17 + 6)


@pytest.mark.rule("STO-08")
def test_equal_messages_count_equally(rg: Railgun, make: Make) -> None:
    stream, subject = make(12)
    for _ in range(700):
        rg.publish_soon(subject, b"12345")
    rg.flush()
    assert size(stream) == 700 * (30 + 12 + 5)
