"""Where a stream lives, and where a client is answered."""

from __future__ import annotations

import pytest

from railgun.protocol.routing import murmur2, partition_of, reply_partition


@pytest.mark.parametrize(
    "data, value",
    [  # from the tests of Kafka's own partitioner, which has signed numbers
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_kafka(data: bytes, value: int) -> None:
    assert murmur2(data) == value % 2**32


def test_a_stream_lives_where_the_default_partitioner_of_java_puts_its_name() -> None:
    assert partition_of("foobar", 12) == (-790332482 & 0x7FFFFFFF) % 12


def test_a_shard_answers_a_client_within_its_own_partitions() -> None:
    assert reply_partition(2, "client-1", 3) == 6
    assert reply_partition(7, "clïent", 4) == 28
    assert {reply_partition(4, f"client-{number}", 3) for number in range(50)} == {12, 13, 14}
    assert reply_partition(4, "client-1", 1) == 4
