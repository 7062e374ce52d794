"""The registrar's costs and bounds: what one request reads, and how many may wait."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from railgun.model.stream_config import StreamConfig
from railgun.protocol import avro as wire
from railgun.protocol.commands import Forward
from railgun.shard.streams.registrar import WAITING_BYTES, WAITING_REQUESTS
from railgun.state import keys
from tests.support.shards import Shards


def create(shards: Shards, name: str, **fields: Any) -> int:
    return shards.request(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.*"], **fields})


def error_of(shards: Shards, request: int) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(shards.answers[request][0].body).get("error", {})
    return error


@pytest.mark.rule("CFG-08", "UPD-12")
def test_a_request_does_not_parse_the_configurations_of_all_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    shards, parsed = Shards(partitions=2), 0
    from_json = StreamConfig.from_json

    def counted(text: str) -> StreamConfig:
        nonlocal parsed
        parsed += 1
        return from_json(text)

    def cost_of_a_change(number: int) -> int:
        before = parsed
        create(shards, f"N{number}")
        shards.settle()
        shards.request(f"STREAM.UPDATE.N{number}", {"name": f"N{number}", "max_msgs": 9})
        shards.request("STREAM.NAMES", {})
        shards.settle()
        return parsed - before

    monkeypatch.setattr(StreamConfig, "from_json", counted)
    first = cost_of_a_change(0)
    for number in range(40):
        create(shards, f"S{number}")
        shards.settle()
    assert cost_of_a_change(1) == first
    overlapping = create(shards, "T", subjects=["S7.*"])
    shards.settle()
    assert error_of(shards, overlapping)["err_code"] == 10065


def test_too_many_changes_of_one_stream_are_refused_and_those_that_wait_are_not() -> None:
    shards = Shards(partitions=1)
    create(shards, "S")
    shards.step(0)  # reserved; the owner has not decided yet
    updates = [
        shards.request(
            "STREAM.UPDATE.S", {"name": "S", "subjects": ["S.*"], "max_msgs": number + 1}, partition=0
        )
        for number in range(WAITING_REQUESTS + 3)
    ]
    shards.settle()
    refused = [error_of(shards, update) for update in updates[WAITING_REQUESTS:]]
    assert [error["code"] for error in refused] == [503] * 3
    assert "64 changes of the stream S wait already" in refused[0]["description"]
    assert not any(error_of(shards, update) for update in updates[:WAITING_REQUESTS])


def test_waiting_changes_are_bounded_in_bytes_too() -> None:
    shards = Shards(partitions=1)
    create(shards, "S")
    shards.step(0)
    large = {"name": "S", "subjects": ["S.*"], "description": "x" * 4000, "metadata": {"k": "v" * 100_000}}
    updates = [shards.request("STREAM.UPDATE.S", large, partition=0) for _ in range(20)]
    shards.settle()
    refused = [update for update in updates if error_of(shards, update).get("code") == 503]
    assert len(refused) == 20 - (WAITING_BYTES // 104_000 + 1)


@pytest.mark.rule("CFG-06", "CFG-07")
def test_a_stream_of_a_version_without_some_field_can_be_created_again() -> None:
    shards = Shards(partitions=1)
    create(shards, "S")
    shards.settle()
    (key, data), *_ = shards.tables[0].scan(keys.RESERVATION)
    reservation = wire.decode("reservation", data)
    fields = json.loads(reservation["config"])
    del fields["allow_msg_schedules"]
    reservation["config"] = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    shards.tables[0].apply({key: wire.encode("reservation", reservation)})
    shards.restart(0)
    same, other = create(shards, "S"), create(shards, "S", max_msgs=9)
    shards.settle()
    assert error_of(shards, same) == {}
    assert error_of(shards, other)["err_code"] == 10058


@pytest.mark.rule("CFG-08")
def test_a_new_stream_costs_the_same_beside_many_subjects() -> None:
    shards, calls = Shards(partitions=1), []
    for number in range(2):
        made = create(shards, f"T{number}", subjects=[f"t{number}.*"])
        calls.append(_calls_of(shards.settle))
        assert error_of(shards, made) == {}
        if not number:
            for other in range(20):
                create(shards, f"S{other}", subjects=[f"s{other}.{subject}.>" for subject in range(500)])
            shards.settle()
    assert calls[1] < 2 * calls[0], "each of the 10,000 subjects is looked at"


def _calls_of(function: Callable[[], object]) -> int:
    """How many Python functions are called: what it costs, on a busy machine too."""
    seen = Counter[str]()
    sys.setprofile(lambda frame, event, argument: seen.update([event]))
    try:
        function()
    finally:
        sys.setprofile(None)
    return seen["call"]


@pytest.mark.rule("CFG-07")
@pytest.mark.parametrize("name, incarnation", [("A", 7), ("B", 1)], ids=["another number", "another name"])
def test_a_forward_that_is_not_the_registrar_s_replaces_no_stream(name: str, incarnation: int) -> None:
    """As one that was copied into the topic: it would take the place of a stream that lives, messages and all."""
    shards = Shards(partitions=1)
    create(shards, "A")
    shards.settle()
    shards.publish("A", ["A.x"])
    shards.settle()
    config = StreamConfig(name=name, subjects=[f"{name}.*"]).to_json()
    shards.record(0, Forward(0, "create", name, incarnation, config).encode(), forwarded=True)
    shards.settle()
    (rejected,) = shards.rejected
    assert rejected.reason == (
        f"the stream {name} of incarnation {incarnation} cannot be made: A of incarnation 1 is there"
    )
    shards.restart(0)
    assert shards.cores[0].unreadable() == {}
    assert shards.cores[0].last_sequences() == {"A": 1}
    assert shards.read("A", 1) == b"x"
    again = shards.publish("A", ["A.x"])
    shards.settle()
    assert shards.outcomes[again] == 2
