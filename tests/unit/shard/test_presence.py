"""Who is there: silence is measured by the wall clock, and an owner that was away blames nobody for it."""

from __future__ import annotations

from railgun.semantics.consumers.undo import UndoLog
from railgun.shard.consumers.alarms import Alarms
from railgun.shard.consumers.presence import PERIOD, SILENCE, Listener, Presences


def test_who_is_silent_for_three_periods_is_gone() -> None:
    presences = Presences(UndoLog())
    presences.add("ann", 0)
    presences.add("bob", 0)
    now = 0
    gone: list[str] = []
    while presences.next_check is not None and not gone:
        now = presences.next_check
        presences.heard_from("bob", now)
        presences.heard_from("stranger", now)
        gone = presences.silent(now)
    assert gone == ["ann"]
    assert SILENCE <= now <= SILENCE + PERIOD
    presences.forget("ann")
    assert presences.silent(now + PERIOD // 2) == []


def test_an_owner_that_was_away_gives_everybody_time_again() -> None:
    presences = Presences(UndoLog())
    presences.add("ann", 0)
    assert presences.silent(100 * PERIOD) == []
    assert presences.silent(100 * PERIOD + SILENCE) == ["ann"]


def test_who_hears_what() -> None:
    presences = Presences(UndoLog())
    gained, lost = presences.listen("ann", [("a.b", ""), ("a.*", "g")])
    assert (gained, lost) == ({"a.b", "a.*"}, set())
    presences.listen("bob", [("a.>", "")])
    assert sorted(presences.listeners("a.b")) == [
        Listener("ann", ""),
        Listener("ann", "g"),
        Listener("bob", ""),
    ]
    assert sorted(presences.listeners("a.c")) == [Listener("ann", "g"), Listener("bob", "")]
    gained, lost = presences.listen("ann", [("a.b", "")])
    assert (gained, lost) == (set(), {"a.*"})
    assert presences.listeners("a.c") == [Listener("bob", "")]
    presences.listen("bob", ())
    presences.listen("ann", ())
    assert not presences.listened
    assert not presences.listeners("a.b")


def test_what_is_undone_was_never_said() -> None:
    undo = UndoLog()
    presences = Presences(undo)
    presences.add("ann", 0)
    presences.listen("ann", [("a.*", "")])
    undo.clear()
    presences.listen("ann", [("b", "")])
    presences.add("bob", 1)
    presences.forget("ann")
    undo.undo()
    assert presences.listeners("a.x") == [Listener("ann", "")]
    assert not presences.listeners("b")
    assert presences.silent(PERIOD) == []
    assert presences.silent(SILENCE) == ["ann"]


def test_alarms_count_once_and_come_back_when_undone() -> None:
    undo = UndoLog()
    alarms: Alarms[tuple[str]] = Alarms(undo)
    for at in range(1_000):
        alarms.set(("moving",), at + 10)
    alarms.set(("fixed",), 500)
    assert len(alarms._heap) < 600, "what no longer counts does not pile up"
    undo.clear()
    assert alarms.next == 500
    assert alarms.take(2_000) == [(("fixed",), 500), (("moving",), 1_009)]
    assert not len(alarms)
    undo.undo()
    assert alarms.take(2_000) == [(("fixed",), 500), (("moving",), 1_009)]


def test_alarms_of_one_moment_keep_their_order_through_an_undo() -> None:
    undo = UndoLog()
    alarms: Alarms[tuple[int]] = Alarms(undo)
    for key in (2, 1):
        alarms.set((key,), 10)
    undo.clear()
    alarms.set((1,), 20)
    undo.undo()
    assert alarms.take(10) == [((1,), 10), ((2,), 10)]
