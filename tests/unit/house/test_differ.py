"""The differential test finds what was planted, and makes it small. No nats-server needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.differ.drivers import MemoryDriver
from tests.differ.frames import Frame
from tests.differ.generator import sequence
from tests.differ.minimising import minimised
from tests.differ.operations import Ack, Call, Operation, Publish, Wait, dumps, loads
from tests.differ.running import Arena, Finding

CREATE = Call("STREAM.CREATE.S1", {"name": "S1", "subjects": ["a.*"]})
NOISE = [
    Call("STREAM.INFO.S1"),
    Publish("a.1", "noise", (("X-Own", "v"),)),
    Call("STREAM.NAMES", {"subject": "a.1"}),
    Wait(0.0),
]


class Planted(MemoryDriver):
    """railgun with a fault: a message cannot be deleted while its stream has three or more."""

    def send(self, operation: Operation) -> list[Frame]:
        if isinstance(operation, Call) and operation.verb == "STREAM.MSG.DELETE":
            (info,) = super().send(Call(f"STREAM.INFO.{operation.name.rpartition('.')[2]}"))
            if json.loads(info.body).get("state", {}).get("messages", 0) >= 3:
                return [Frame(b'{"error":{"code":500,"err_code":10057,"description":"planted"}}')]
        return super().send(operation)


@pytest.fixture
def memory() -> Iterator[MemoryDriver]:
    driver = MemoryDriver()
    yield driver
    driver.close()


@pytest.fixture
def planted() -> Iterator[Planted]:
    driver = Planted()
    yield driver
    driver.close()


def finding(arena: Arena, operations: list[Operation]) -> Finding | None:
    return arena.run(operations).finding


# ------------------------------------------------------------ finding and minimising


def test_a_planted_difference_is_found_and_made_as_small_as_it_can_be(
    memory: MemoryDriver, planted: Planted
) -> None:
    arena = Arena(memory, planted)
    delete = Call("STREAM.MSG.DELETE.S1", {"seq": 2, "no_erase": True})
    long = [CREATE, *NOISE, *NOISE, Publish("a.2", "x"), *NOISE, Publish("a.3"), delete, *NOISE]
    found = finding(arena, long)
    assert found is not None
    assert found.operation == delete

    small = minimised(found, lambda attempt: finding(arena, attempt))

    calls = [one for one in small.sequence if isinstance(one, Call)]
    assert [one.verb for one in calls] == ["STREAM.CREATE", "STREAM.MSG.DELETE"]
    assert [replace(one, subject="") for one in small.sequence if isinstance(one, Publish)] == [
        Publish("")
    ] * 3
    assert calls[-1].body == {"seq": 2}
    assert small.kind == found.kind


def test_random_sequences_find_a_planted_difference(memory: MemoryDriver, planted: Planted) -> None:
    arena = Arena(memory, planted)
    found = (finding(arena, sequence(f"planted/{number}")) for number in range(200))
    first = next(one for one in found if one is not None)
    assert isinstance(first.operation, Call)
    assert first.operation.verb == "STREAM.MSG.DELETE"


def test_equal_systems_do_not_differ(memory: MemoryDriver) -> None:
    other = MemoryDriver()
    arena = Arena(memory, other, masks=())
    found = [finding(arena, sequence(f"equal/{number}")) for number in range(20)]
    assert [one for one in found if one is not None and arena.comes_again(one)] == []
    other.close()


def test_a_seed_gives_the_same_sequence_which_json_can_carry() -> None:
    drawn = [sequence(f"same/{number}") for number in range(50)]
    assert drawn == [sequence(f"same/{number}") for number in range(50)]
    assert [loads(dumps(one)) for one in drawn] == drawn
    kinds = {type(one) for operations in drawn for one in operations}
    assert kinds == {Call, Publish, Ack, Wait}
