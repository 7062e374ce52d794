"""Records of adopted topics on their way through a worker: their line in the inbox, and the search for one that cannot be applied."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from railgun.model import headers as h
from railgun.semantics.streams.adopting.topic_records import Adoption, TopicFetch, TopicRecord, TopicSeen
from railgun.shard.drain import Drain, Given, Input
from railgun.worker.shards.inbox import SHORT_DRAIN_BYTES, TOPIC_BYTES, Inbox
from railgun.worker.shards.recovery import Recovery
from railgun.worker.shards.transaction import Committed, Prepared

OF = Adoption("S", 1, "orders")


def fetch(after: int, count: int, size: int = 1) -> TopicFetch:
    records = [TopicRecord(after + number, 0, None, (), b"") for number in range(count)]
    return TopicFetch(OF, "id", 0, after, after + count, records, size=size)


def command(offset: int, kind: bytes = b"pack") -> Input:
    return Input(False, offset, 1, b"S", [(h.COMMAND_KIND, kind)], b"x")


def test_a_drain_takes_a_part_of_both_lines() -> None:
    box = Inbox()
    third = TOPIC_BYTES // 3 + 1
    box.put_topics([TopicSeen(OF), *(fetch(number, 1, third) for number in range(5))])
    box.put([command(0), command(1)])
    taken, _, _ = box.take(0)
    assert taken == [
        command(0),
        command(1),
        TopicSeen(OF),
        fetch(0, 1, third),
        fetch(1, 1, third),
        fetch(2, 1, third),
    ]
    assert box.take(0)[0] == [fetch(3, 1, third), fetch(4, 1, third)]


def test_records_of_topics_make_drains_short_for_consumers_too() -> None:
    box = Inbox()
    box.put_topics([fetch(number, 1, SHORT_DRAIN_BYTES) for number in range(3)])
    box.put([command(0, b"consume")])
    assert box.take(0)[0] == [command(0, b"consume"), fetch(0, 1, SHORT_DRAIN_BYTES)]


def test_a_closed_inbox_takes_nothing_of_a_late_reader() -> None:
    box = Inbox()
    box.put_topics([fetch(0, 1)])
    box.close()
    box.put_topics([fetch(1, 1)])
    assert box.take(0)[0] == []


class Shard:
    """Fails for the record at one offset, as a defect in the rules would."""

    name = "shard 0"

    def __init__(self, poison: int) -> None:
        self.poison = poison
        self.stored: list[int] = []
        self.refused: list[Given] = []
        self._decided: list[int] = []

    def decide(self, inputs: Sequence[Given]) -> Prepared:
        found = [record.offset for one in inputs if isinstance(one, TopicFetch) for record in one.records]
        if self.poison in found:
            raise ValueError("odd")
        self._decided = found
        return Prepared(Drain(), [])

    def decide_refusal(self, culprit: Given, reason: str) -> Prepared:
        self._decided = []
        self.refused.append(culprit)
        assert reason == "ValueError: odd"
        return Prepared(Drain(), [])

    def commit(self, prepared: Prepared) -> Committed:
        self.stored += self._decided
        return Committed(prepared.drain, {}, None, [])

    def conclude(self, committed: Committed) -> None: ...
    def reload(self) -> None: ...
    def pause(self, seconds: float) -> None: ...


@pytest.mark.rule("TOP-09")
@pytest.mark.parametrize("before", [0, 1])
def test_one_record_of_a_fetch_is_blamed_and_no_other(before: int) -> None:
    shard = Shard(poison=12)
    inputs: list[Given] = [*(fetch(0, 10) for _ in range(before)), fetch(10, 5)]
    Recovery(shard).process(inputs)  # type: ignore[arg-type]
    assert shard.stored == [*range(10 * before), 10, 11, 13, 14]
    (culprit,) = shard.refused
    assert isinstance(culprit, TopicFetch)
    assert (culprit.after, culprit.reached, culprit.place) == (
        12,
        13,
        "the record orders/0/12 of the stream S",
    )
