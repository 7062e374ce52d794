"""Offsets mean something only in the topic in which they were read: what a cursor makes of topics that changed."""

from __future__ import annotations

import pytest

from railgun.kafka.readings import Found, Reading, go_on
from railgun.shard.cursor import Cursor
from railgun.shard.drain import Input
from tests.support.shards import MILLI, Shards

READ = Reading(100, "first", 5_000 * MILLI)


@pytest.mark.parametrize(
    "found,offset,wrong",
    [
        (Found("first", 100, None), 100, ""),
        (Found("first", 130, 100), 100, ""),
        (Found("second", 130, 3), 0, "the id was first and is second"),
        (Found("first", 90, None), 90, "read up to offset 100, but ends at 90"),
        (Found("first", 95, 90), 90, "from 90 on its records are newer"),
        (Found("first", 130, 90), 90, "from 90 on its records are newer"),  # cut back, and longer again
    ],
)
def test_where_to_read_on(found: Found, offset: int, wrong: str) -> None:
    there = go_on(READ, found)
    assert there.offset == offset
    assert wrong in there.wrong
    assert bool(there.wrong) == bool(wrong)


def test_a_reading_without_an_id_is_compared_by_its_offset_alone() -> None:
    assert go_on(Reading(100), Found("any", 100, None)).wrong == ""
    assert go_on(Reading(100), Found("any", 99, None)).wrong != ""


@pytest.mark.parametrize("reading", [READ, Reading(0, "", 0)])
def test_what_the_group_is_told_can_be_read_back(reading: Reading) -> None:
    assert Reading.from_metadata(reading.offset, reading.metadata()) == reading


@pytest.mark.parametrize("foreign", ["", "some program", "id -5", "a b c"])
def test_metadata_of_others_says_nothing(foreign: str) -> None:
    assert Reading.from_metadata(7, foreign) == Reading(7)


def command(offset: int, time: int) -> Input:
    return Input(False, offset, time * MILLI, b"S", (), None)


def test_a_record_received_after_all_that_were_decided_is_none_of_them() -> None:
    cursor = Cursor()
    for offset in range(5):
        cursor.decide(command(offset, 1_000 + offset))
    assert cursor.anew([command(2, 1_002), command(4, 1_004), command(5, 2_000)]) == []
    again = command(0, 1_005)
    assert cursor.anew([again]) == [again]
    assert not cursor.decide(again)


def test_a_drain_that_is_dropped_leaves_the_times_as_they_were() -> None:
    cursor = Cursor()
    cursor.decide(command(0, 1_000))
    before = cursor.stored()
    cursor.begin()
    cursor.decide(command(1, 2_000))
    cursor.aborted()
    assert cursor.stored() == before


@pytest.mark.rule("CLU-13")
def test_commands_of_a_new_topic_are_decided_and_survive_a_restart() -> None:
    shards = Shards(partitions=1)
    shards.request("STREAM.CREATE.S", {"name": "S", "subjects": ["S.*"]})
    shards.settle()
    shards.publish("S", ["S.a"])
    shards.settle()
    cursor = shards.cores[0].cursor
    cursor.read_on(False, "first", cursor.commands)
    shards.publish("S", ["S.a"])
    shards.settle()
    shards.restart(0)
    cursor = shards.cores[0].cursor
    assert cursor.reading(False) == (3, "first", shards.now)
    cursor.read_on(False, "second", 0)
    shards.begin_anew(0)
    third = shards.publish("S", ["S.a"])
    shards.settle()
    assert shards.outcomes[third] == 3
    shards.restart(0)
    assert shards.cores[0].cursor.reading(False) == (1, "second", shards.now)
