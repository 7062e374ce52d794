"""How many copies of a record count: what new topics get, and what doctor says of those that exist."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from railgun.cli.doctor.topic_checks import check_in_sync
from railgun.kafka.topic_admin import TopicPlan, new_topic


@pytest.mark.rule("CLU-16")
@pytest.mark.parametrize("copies,settings", [(1, {}), (2, {}), (3, {"min.insync.replicas": "2"})])
def test_with_three_copies_two_must_have_a_record(copies: int, settings: dict[str, str]) -> None:
    plan = TopicPlan("railgun.commands", 8, {"retention.ms": "1"})
    request = new_topic(plan, copies)
    assert request.replication_factor == copies
    assert request.config == {"retention.ms": "1", **settings}


def described(copies: int) -> Any:
    return SimpleNamespace(partitions=[SimpleNamespace(replicas=list(range(copies)))])


@pytest.mark.parametrize(
    "copies,least,verdict,text",
    [
        (1, 1, "ok", "fits"),
        (2, 1, "ok", "fits"),
        (3, 2, "ok", "fits"),
        (3, 1, "wrong", "min.insync.replicas is 1 on railgun.log.S: acknowledged messages are lost"),
        (3, 3, "wrong", "min.insync.replicas is 3 with 3 copies on railgun.log.S: one broker that is away"),
        (1, 2, "wrong", "min.insync.replicas is 2 with 1 copies on railgun.log.S"),
        (3, None, "note", "of 1 topics"),
    ],
)
def test_doctor_compares_what_must_be_in_sync_with_the_copies(
    copies: int, least: int | None, verdict: str, text: str
) -> None:
    told = {} if least is None else {"railgun.log.S": least}
    finding = check_in_sync({"railgun.log.S": described(copies)}, told)
    assert finding.verdict == verdict
    assert text in finding.text
