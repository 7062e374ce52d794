"""What the registrar says about mirrors and sources: it knows the streams that they copy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.shards import Shards


@pytest.fixture
def shards() -> Shards:
    return Shards(partitions=2)


def change(shards: Shards, call: str, name: str, **fields: Any) -> dict[str, Any]:
    """The answer to one change, once everything has settled."""
    request = shards.request(f"STREAM.{call}.{name}", {"name": name, **fields})
    shards.settle()
    answer: dict[str, Any] = json.loads(shards.answers[request][0].body)
    return answer


def config_after(shards: Shards, call: str, name: str, **fields: Any) -> dict[str, Any]:
    answer = change(shards, call, name, **fields)
    assert "error" not in answer, answer
    config: dict[str, Any] = answer["config"]
    return config


def refused(shards: Shards, call: str, name: str, **fields: Any) -> tuple[int, int, str]:
    error = change(shards, call, name, **fields)["error"]
    return error["err_code"], error["code"], error["description"]


@pytest.mark.rule("MIR-05", "SRC-12")
@pytest.mark.parametrize(
    "copy, refusal",
    [
        ({"mirror": {"name": "U"}}, (10030, 400, "stream mirror must have max message size >= source")),
        (
            {"sources": [{"name": "V"}, {"name": "U"}]},
            (10046, 400, "stream source must have max message size >= target"),
        ),
    ],
)
def test_a_copy_takes_messages_as_large_as_its_upstream(
    shards: Shards, copy: dict[str, Any], refusal: tuple[int, int, str]
) -> None:
    assert config_after(shards, "CREATE", "EARLY", **copy, max_msg_size=10)  # the upstream need not exist
    config_after(shards, "CREATE", "U", max_msg_size=100)
    config_after(shards, "CREATE", "V")  # whatever size: it may have none that is too large
    assert refused(shards, "CREATE", "M", **copy, max_msg_size=99) == refusal
    assert refused(shards, "UPDATE", "EARLY", **copy, max_msg_size=99) == refusal
    assert config_after(shards, "CREATE", "M", **copy, max_msg_size=100)["max_msg_size"] == 100
    assert config_after(shards, "CREATE", "N", **copy)["max_msg_size"] == -1
    # what has been granted is granted again
    assert config_after(shards, "CREATE", "EARLY", **copy, max_msg_size=10)["max_msg_size"] == 10


@pytest.mark.rule("MIR-11", "CFG-06", "CFG-22")
def test_mirror_direct_is_what_the_upstream_says(shards: Shards) -> None:
    config_after(shards, "CREATE", "U", allow_direct=True)
    config_after(shards, "CREATE", "V")
    assert config_after(shards, "CREATE", "M", mirror={"name": "U"})["mirror_direct"] is True
    assert (
        config_after(shards, "CREATE", "N", mirror={"name": "V"}, mirror_direct=True)["mirror_direct"]
        is False
    )
    assert (
        config_after(shards, "CREATE", "O", mirror={"name": "NO"}, mirror_direct=True)["mirror_direct"]
        is True
    )
    config_after(shards, "UPDATE", "U", allow_direct=False)
    again = change(shards, "CREATE", "M", mirror={"name": "U"})
    assert (again["config"]["mirror_direct"], "did_create" in again) == (True, False)
    updated = config_after(shards, "UPDATE", "M", mirror={"name": "U"}, mirror_direct=True, description="x")
    assert updated["mirror_direct"] is False  # an update asks the upstream again, as NATS does
    pedantic = {"mirror": {"name": "U"}, "mirror_direct": True, "pedantic": True}
    reason = "pedantic mode: origin stream has direct get set, mirror has it disabled"
    assert refused(shards, "CREATE", "P", **pedantic) == (10157, 400, reason)
    assert refused(shards, "CREATE", "M", mirror={"name": "U"}, max_msgs=5)[0] == 10058


@pytest.mark.rule("MIR-13")
def test_cycles_are_found_in_creations_and_updates(shards: Shards) -> None:
    cycle = (10052, 500, "detected cycle")
    config_after(shards, "CREATE", "A", subjects=["a.>"], sources=[{"name": "B", "filter_subject": "b.>"}])
    assert refused(shards, "CREATE", "B", sources=[{"name": "A"}]) == cycle
    assert refused(shards, "CREATE", "B", mirror={"name": "A"}) == cycle
    config_after(shards, "CREATE", "B", subjects=["b.>"], sources=[{"name": "A", "filter_subject": "a.>"}])
    assert refused(shards, "UPDATE", "B", subjects=["b.>"], sources=[{"name": "A"}]) == cycle
    assert config_after(shards, "UPDATE", "A", subjects=["a.>"])["subjects"] == ["a.>"]
    config_after(shards, "UPDATE", "B", subjects=["b.>"], sources=[{"name": "A"}])
    assert refused(shards, "UPDATE", "A", subjects=["a.>"], sources=[{"name": "B"}]) == cycle
    assert refused(shards, "UPDATE", "NO", sources=[{"name": "NO"}]) == cycle  # rules before existence
    assert refused(shards, "UPDATE", "NO", sources=[{"name": "A"}])[0] == 10059


@pytest.mark.rule("MIR-13")
def test_two_streams_made_at_the_same_time_do_not_close_a_cycle(shards: Shards) -> None:
    first = shards.request("STREAM.CREATE.A", {"name": "A", "sources": [{"name": "B"}]})
    second = shards.request("STREAM.CREATE.B", {"name": "B", "sources": [{"name": "A"}]})
    shards.settle()
    answers = [json.loads(shards.answers[request][0].body) for request in (first, second)]
    assert [answer.get("error", {}).get("description") for answer in answers] == [None, "detected cycle"]


@pytest.mark.rule("UPD-09", "UPD-12", "CFG-05", "CFG-08")
def test_a_promoted_mirror_takes_its_name_as_its_subject(shards: Shards) -> None:
    config_after(shards, "CREATE", "U", allow_direct=True)
    mirror = config_after(shards, "CREATE", "M", mirror={"name": "U"})
    assert (mirror["subjects"], mirror["mirror_direct"]) == ([], True)
    assert "duplicate_window" not in mirror
    assert refused(shards, "UPDATE", "M", mirror={"name": "V"})[0] == 10055
    config_after(shards, "CREATE", "OTHER", subjects=["M"])
    assert refused(shards, "UPDATE", "M")[0] == 10065
    config_after(shards, "UPDATE", "OTHER", subjects=["other"])
    del mirror["mirror"], mirror["name"]
    promoted = config_after(shards, "UPDATE", "M", **mirror)
    assert (promoted["subjects"], promoted["mirror_direct"]) == (["M"], False)
    assert "mirror" not in promoted
    assert promoted["duplicate_window"] == 120 * 10**9
    assert refused(shards, "UPDATE", "M", mirror={"name": "U"})[0] == 10055


@pytest.mark.rule("UPD-10", "CFG-05")
def test_a_stream_with_sources_needs_no_subjects(shards: Shards) -> None:
    source = {"name": "U", "filter_subject": "u"}
    config_after(shards, "CREATE", "S", subjects=["s"], sources=[source])
    assert config_after(shards, "UPDATE", "S", sources=[source])["subjects"] == []
    assert config_after(shards, "CREATE", "T", subjects=["S"])["subjects"] == ["S"]
    assert refused(shards, "UPDATE", "S", sources=[])[0] == 10065
    without = config_after(shards, "UPDATE", "S", subjects=["q"], sources=[])
    assert "sources" not in without
