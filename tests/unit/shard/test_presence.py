"""Who is there: silence is measured by the wall clock, and an owner that was away blames nobody for it."""

from __future__ import annotations

from railgun.semantics.consumers.undo import UndoLog
from railgun.shard.consumers.alarms import Alarms
from railgun.shard.consumers.presence import PERIOD, SILENCE, Listener, Presences


def test_who_is_silent_for_three_periods_is_gone() -> None:
    audience = Presences(UndoLog())
    audience.know("ann", 0)
    audience.know("bob", 0)
    now = 0
    gone: list[str] = []
    while audience.next_look is not None and not gone:
        now = audience.next_look
        audience.hear("bob", now)
        audience.hear("stranger", now)
        gone = audience.silent(now)
    assert gone == ["ann"]
    assert SILENCE <= now <= SILENCE + PERIOD
    audience.forget("ann")
    assert audience.silent(now + PERIOD // 2) == []


def test_an_owner_that_was_away_gives_everybody_time_again() -> None:
    audience = Presences(UndoLog())
    audience.know("ann", 0)
    assert audience.silent(100 * PERIOD) == []
    assert audience.silent(100 * PERIOD + SILENCE) == ["ann"]


def test_who_hears_what() -> None:
    audience = Presences(UndoLog())
    gained, lost = audience.listen("ann", [("a.b", ""), ("a.*", "g")])
    assert (gained, lost) == ({"a.b", "a.*"}, set())
    audience.listen("bob", [("a.>", "")])
    assert sorted(audience.listeners("a.b")) == [
        Listener("ann", ""),
        Listener("ann", "g"),
        Listener("bob", ""),
    ]
    assert sorted(audience.listeners("a.c")) == [Listener("ann", "g"), Listener("bob", "")]
    gained, lost = audience.listen("ann", [("a.b", "")])
    assert (gained, lost) == (set(), {"a.*"})
    assert audience.listeners("a.c") == [Listener("bob", "")]
    audience.listen("bob", ())
    audience.listen("ann", ())
    assert not audience.listened
    assert not audience.listeners("a.b")


def test_what_is_undone_was_never_said() -> None:
    journal = UndoLog()
    audience = Presences(journal)
    audience.know("ann", 0)
    audience.listen("ann", [("a.*", "")])
    journal.clear()
    audience.listen("ann", [("b", "")])
    audience.know("bob", 1)
    audience.forget("ann")
    journal.undo()
    assert audience.listeners("a.x") == [Listener("ann", "")]
    assert not audience.listeners("b")
    assert audience.silent(PERIOD) == []
    assert audience.silent(SILENCE) == ["ann"]


def test_deadlines_count_once_and_come_back_when_undone() -> None:
    journal = UndoLog()
    deadlines: Alarms[str] = Alarms(journal)
    for at in range(1_000):
        deadlines.set("moving", at + 10)
    deadlines.set("fixed", 500)
    assert len(deadlines._heap) < 600, "what no longer counts does not pile up"
    journal.clear()
    assert deadlines.next == 500
    assert deadlines.take(2_000) == [("fixed", 500), ("moving", 1_009)]
    assert not len(deadlines)
    journal.undo()
    assert deadlines.take(2_000) == [("fixed", 500), ("moving", 1_009)]
