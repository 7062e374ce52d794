"""The tour on a cluster in memory: it shows what it says, fails loudly, and leaves nothing behind."""

from __future__ import annotations

import time
from typing import Any

import pytest
from rich.console import Console

from railgun.cli.tour import (
    MARK,
    TourFailed,
    Walk,
    buckets,
    command,
    consumers,
    copies,
    positions,
    run_tour,
    walk,
)
from railgun.client.facade.railgun import connect
from railgun.model.stream_config import SubjectTransform


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first part."""
    monkeypatch.setattr(command, "AFTER_IT", ())


@pytest.mark.rule("SEQ-03", "SEQ-04", "SEQ-05", "SEQ-06", "SEQ-07")
def test_the_tour_shows_what_it_says(capsys: pytest.CaptureFixture[str], server: str) -> None:
    run_tour(server)
    shown = capsys.readouterr().out
    for stated in ("Messages: 1\n", "Bytes: 67 B\n", "Bytes: 53 B\n", '{"val":"101"}', "That was the tour"):
        assert stated in shown
    assert '{"val":"107"}' in shown  # 102 and 5
    assert 'Nats-Counter-Sources: {"ORDERS_COUNTER":{"ORDERS_COUNTER.hits":"102"}}' in shown
    assert "DEL ORDERS_CONFIG > port revision 3" in shown
    states = shown.split("     State:\n")[1:]
    pairs = [((0, 0), (0, 0)), ((1, 1), (1, 1)), ((2, 2), (1, 1)), ((3, 2), (1, 1)), ((4, 2), (4, 2))]
    waiting = [(0, 0), (0, 0), (1, 0), (1, 1), (0, 0)]
    assert [state.splitlines()[:5] for state in states] == [
        [
            f"       Last Delivered Message: Consumer sequence: {last[0]} Stream sequence: {last[1]}",
            f"                 Next Message: Consumer sequence: {last[0] + 1} Stream sequence: {last[1] + 1}",
            f"         Acknowledgment floor: Consumer sequence: {floor[0]} Stream sequence: {floor[1]}",
            f"             Pending Messages: {pending}",
            f"         Redelivered Messages: {redelivered}",
        ]
        for (last, floor), (pending, redelivered) in zip(pairs, waiting, strict=True)
    ]
    with connect(server) as rg:
        assert rg.streams() == []


def test_a_number_that_differs_fails_the_tour(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "FRESH", consumers.FRESH._replace(pending=1))
    with connect(server) as rg, pytest.raises(TourFailed, match=r"pending=1.*: it is at .*pending=0"):
        consumers.counting(Walk(rg, Console(quiet=True), real_time=False))


def test_a_bucket_that_is_there_already_has_another_name(server: str) -> None:
    with connect(server) as rg:
        rg.create_bucket("ORDERS_CONFIG")
        mine = Walk(rg, Console(quiet=True), real_time=False)
        mine.choose_names()
        assert mine.stream == "TOUR_A"
        buckets.values(mine)
        mine.remove_own()
        assert [status.bucket for status in rg.buckets()] == ["ORDERS_CONFIG"]


def test_a_value_that_differs_fails_the_tour(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(server) as rg:
        bucket = type(rg.create_bucket("ANY"))
        update = bucket.update
        monkeypatch.setattr(bucket, "update", lambda self, key, value, revision: update(self, key, value, 2))
        with pytest.raises(TourFailed, match="an old revision was stored"):
            buckets.values(Walk(rg, Console(quiet=True), real_time=False))


def test_a_sum_that_does_not_come_fails_the_tour(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "SLACK", 0.1)
    monkeypatch.setattr(copies, "SubjectTransform", _nowhere)
    with connect(server) as rg:
        rg.create_stream("ORDERS_COUNTER", subjects=["ORDERS_COUNTER.*"], allow_msg_counter=True)
        with pytest.raises(TourFailed, match="the sum is 6"):
            copies.sums(Walk(rg, Console(quiet=True), real_time=False))


def test_a_late_first_message_does_not_fail_the_replay(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(self: Walk, *given: Any) -> Any:
        message = receive(self, *given)
        if message.text == "order 1":
            time.sleep(2 * positions.SHORT_GAP.total_seconds())  # the others have come meanwhile
        return message

    receive = Walk.receive
    monkeypatch.setattr(Walk, "receive", late)
    with connect(server) as rg:
        rg.create_stream("ORDERS", subjects=["ORDERS.*"])
        positions.replay(Walk(rg, Console(quiet=True), real_time=False))


def test_a_replay_without_the_gaps_fails_the_tour(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(server) as rg:
        orders = rg.create_stream("ORDERS", subjects=["ORDERS.*"])
        create = type(orders).create_consumer

        def instant(self: Any, name: str, **fields: Any) -> Any:
            return create(self, name, **(fields | {"replay_policy": "instant"}))

        monkeypatch.setattr(type(orders), "create_consumer", instant)
        with pytest.raises(TourFailed, match="comes no sooner"):
            positions.replay(Walk(rg, Console(quiet=True), real_time=False))


def _nowhere(src: str, dest: str) -> SubjectTransform:
    """Copies that land elsewhere."""
    return SubjectTransform(src=src, dest=f"elsewhere.{dest}")


@pytest.mark.usefixtures("short")
def test_the_tour_can_run_again_after_it_was_interrupted(server: str) -> None:
    with connect(server) as rg:
        rg.create_stream("ORDERS", subjects=["ORDERS.*"], metadata=MARK, max_msgs=7)
        for _ in range(2):
            run_tour(server)
            assert rg.streams() == []


def test_the_tour_leaves_a_users_streams_alone(capsys: pytest.CaptureFixture[str], server: str) -> None:
    with connect(server) as rg:
        rg.create_stream("SHOP", subjects=["ORDERS.>"])
        rg.publish("ORDERS.new", "mine")
        run_tour(server)
        assert [info.config.name for info in rg.streams()] == ["SHOP"]
        assert rg.stream("SHOP").info().state.messages == 1
    shown = capsys.readouterr().out
    assert "67 B" in shown
    assert "53 B" in shown
