"""Messages near the largest that a record can carry: stored, read by each kind of get, delivered."""

from __future__ import annotations

import pytest

from railgun import Railgun
from railgun.model.cluster_limits import LARGEST_MESSAGE
from tests.support.naming import unique

SIZES = (5_000_000, 6_000_000, 7_000_000, LARGEST_MESSAGE - 100)


@pytest.mark.rule("GET-01", "GET-02", "GET-08", "PUL-01", "LIM-12")
def test_messages_of_every_size_that_can_be_stored_can_be_read(rg: Railgun) -> None:
    name = unique("LARGE")
    stream = rg.create_stream(name, subjects=[f"{name}.*"], max_msg_size=LARGEST_MESSAGE, allow_direct=True)
    for number, size in enumerate(SIZES):
        rg.publish(f"{name}.{number}", b"%d" % number + b"x" * (size - 1), timeout=20)
    for number, size in enumerate(SIZES):
        for found in (
            stream.get(number + 1),
            stream.get_last(f"{name}.{number}"),
            stream.get_next(f"{name}.*", sequence=number + 1),
        ):
            assert (len(found.payload), found.payload[:2]) == (size, b"%dx" % number)
    consumer = stream.create_consumer("C")
    messages = consumer.fetch(len(SIZES), wait=20)
    assert [len(message.payload) for message in messages] == list(SIZES)
    frames = rg.request(f"DIRECT.GET.{name}", b'{"seq": 3}', timeout=20)
    assert [len(frame.body) for frame in frames] == [SIZES[2]]
