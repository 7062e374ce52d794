"""The inbox of a shard: bounded drains, and consumers that do not wait behind publishes."""

from __future__ import annotations

import pytest

from railgun.model import headers as h
from railgun.protocol.commands import AckRun, ConsumerCommand, PublishPack, Pull
from railgun.shard.cursor import Cursor
from railgun.shard.drain import Input
from railgun.worker.shards import inbox
from railgun.worker.shards.inbox import Inbox
from tests.support.shards import Shards


def record(offset: int, kind: str = "pack", size: int = 100, *, forwarded: bool = False) -> Input:
    return Input(forwarded, offset, 1, b"A", [(h.COMMAND_KIND, kind.encode())], b"x" * size)


def offsets(taken: list[Input]) -> list[tuple[int, bool]]:
    return [(one.offset, one.early) for one in taken]


def test_what_consumers_are_told_does_not_wait_behind_publishes() -> None:
    box = Inbox()
    box.put([record(number, size=600_000) for number in range(40)])
    box.put([record(40, "consume"), record(41, size=600_000), record(42, "presence"), record(43, "request")])
    taken, _, _ = box.take(0)
    assert offsets(taken) == [(0, False), (40, True), (42, True)]
    seen = [number for number, _ in offsets(taken)]
    while (taken := box.take(0)[0]) != []:
        assert not any(early for _, early in offsets(taken))
        seen += [number for number, _ in offsets(taken)]
    assert sorted(seen) == sorted([*range(44), 40, 42]), "their turn comes, and the core passes them over"


def test_drains_are_short_only_while_somebody_waits_for_a_consumer() -> None:
    now = 5.0
    box = Inbox(now=lambda: now)
    box.put([record(number, size=600_000) for number in range(40)])
    assert len(box.take(0)[0]) == 14
    box.put([record(40, "consume")])
    assert offsets(box.take(0)[0]) == [(14, False), (40, True)]
    now += 0.9
    assert offsets(box.take(0)[0]) == [(15, False)], "more will come of whoever works on messages"
    now += 0.2
    assert len(box.take(0)[0]) == 14


def test_no_more_go_ahead_than_a_cursor_can_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "EARLY_RECORDS", 3)
    box = Inbox()
    box.put([record(number, size=600_000) for number in range(4)])
    box.put([record(number, "consume") for number in range(4, 10)])
    assert offsets(box.take(0)[0])[1:] == [(4, True), (5, True), (6, True)]
    assert [offsets(box.take(0)[0]) for _ in range(3)] == [[(number, False)] for number in (1, 2, 3)]
    assert offsets(box.take(0)[0]) == [(number, False) for number in range(4, 10)]


def test_a_cursor_passes_over_what_was_decided_early_also_after_it_was_stored() -> None:
    cursor = Cursor()
    assert all(cursor.decide(record(number)) for number in (0, 1))
    assert cursor.decide(record(7, "consume")._replace(early=True))
    assert cursor.decide(record(9, "consume")._replace(early=True))
    assert (cursor.commands, cursor.stored()["ahead"]) == (2, [5, 2])
    again = Cursor()
    again.load(cursor.stored())
    again.begin()
    assert [again.decide(record(number)) for number in range(10)] == [
        *[False] * 2,
        *[True] * 5,
        False,
        True,
        False,
    ]
    assert (again.commands, again.stored()["ahead"]) == (10, [])
    again.aborted()
    assert again.stored() == cursor.stored()


@pytest.mark.rule("ACK-06", "PUL-15")
@pytest.mark.parametrize("reload", [False, True])
def test_what_was_decided_early_is_not_decided_again(reload: bool) -> None:
    """A nak that was taken early, and comes again after a crash, does not take the next delivery away."""
    shards = Shards(partitions=1)
    shards.request("STREAM.CREATE.A", {"name": "A", "subjects": ["A.*"]})
    shards.settle()
    config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 3_600 * 10**9}
    shards.request("CONSUMER.CREATE.A.C", {"stream_name": "A", "config": config}, stream="A")
    shards.publish("A", ["A.x"])
    shards.command("A", "C", pull=Pull(1, 1))
    shards.settle()
    pack = PublishPack("A", "client", 50, ["A.y"], [], [], [b"later"]).encode()
    waiting = shards.record(0, pack, "pack")
    nak = ConsumerCommand("A", 0, "C", 0, "client", acks=[AckRun("nak", 1, 1, 1, 1)], pull=Pull(2, 1))
    hasty = shards.record(0, nak.encode(), "consume")
    shards.inboxes[0].clear()
    shards.inboxes[0].append(hasty._replace(early=True))
    shards.step(0)
    given = [lease for lease in shards.leases.pop("client") if lease.pull == 2]
    assert [(lease.sequences, lease.deliveries) for lease in given] == [([1], [2])]
    if reload:
        shards.restart(0)
    shards.inboxes[0].extend([waiting, hasty])
    shards.settle()
    assert shards.outcomes[50] == 2, "what it overtook is decided after it"
    assert not shards.leases["client"]
    asked = shards.request("CONSUMER.INFO.A.C", stream="A")
    shards.settle()
    info = shards.answer(asked)
    assert (info["num_ack_pending"], info["num_pending"], info["num_redelivered"]) == (1, 1, 1)
