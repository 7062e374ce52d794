"""Dead letters of messages that the same drain has stored: each is found without looking at all of them."""

from __future__ import annotations

from typing import Any

from railgun.model.stream_config import StreamConfig
from railgun.protocol.topics import Names
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.outcomes import Stored
from railgun.shard.log_bodies import _at_hand
from railgun.state.table import MemoryTable, Overlay


class Sequence(int):
    """A sequence that counts how often one is compared with another."""

    compared = 0

    def __lt__(self, other: Any) -> bool:
        Sequence.compared += 1
        return int(self) < int(other)

    def __eq__(self, other: object) -> bool:
        Sequence.compared += 1
        return isinstance(other, int) and int(self) == int(other)

    __hash__ = int.__hash__


def test_a_message_of_a_drain_that_stored_many_is_found_in_few_comparisons() -> None:
    stream = OwnedStream(Overlay(MemoryTable()), "S", 1, StreamConfig(name="S"), 0, Names().log("S"))
    stored = Stored()
    for number in range(10_000):
        stored.add(Sequence(2 * number), f"S.{number}", [], b"%d" % number, number)
    found = _at_hand(stream, 15_000, stored)
    assert found is not None
    assert (found.subject, found.sequence, found.payload, found.time_ns) == ("S.7500", 15_000, b"7500", 7_500)
    assert _at_hand(stream, 15_001, stored) is None
    assert _at_hand(stream, 20_000, stored) is None
    assert Sequence.compared < 100
