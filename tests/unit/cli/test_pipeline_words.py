"""What commands of pipelines say on standard error, and how they end, whatever Spark does."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

import railgun.spark
from railgun.cli.pipelines import judging
from railgun.cli.pipelines.starting import Job, SparkFlags
from railgun.errors import RailgunError
from topologies.pipelines.parts.words import in_words


def interrupted(tell: Callable[[str], None]) -> None:
    tell("counting [/samples]")
    raise KeyboardInterrupt


@pytest.mark.parametrize("terminal", [True, False])
def test_an_interrupt_is_answered_on_a_line_of_its_own(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        judging, "Console", lambda **given: Console(**given, force_terminal=terminal, width=80, _environ={})
    )
    with pytest.raises(KeyboardInterrupt), judging._telling("reading [/samples]") as tell:
        interrupted(tell)
    said = capsys.readouterr().err
    assert said.endswith("stopped\n")
    assert ("[/samples]" in said) == terminal
    assert "]stopped" not in said


class Query:
    """A query that ends when it is stopped."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.stop = self.stopped.set


class FakeSpark:
    """A Spark session without Java."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.running: list[Query] = []
        self.stopped = False
        self._fault = fault
        self.streams: Any = self
        self.sparkContext = SimpleNamespace(setLogLevel=lambda _: None, cancelAllJobs=lambda: None)

    @property
    def active(self) -> list[Query]:
        return [query for query in self.running if not query.stopped.is_set()]

    def stop(self) -> None:
        self.stopped = True
        if self._fault is not None:
            raise self._fault


def test_an_interrupt_ends_what_a_job_begins_behind_what_was_cut_off() -> None:
    spark, queries = FakeSpark(), [Query(), Query(), Query()]

    def work(*_: object) -> None:
        for number, query in enumerate(queries):
            spark.running.append(query)
            if not number:
                _thread.interrupt_main()
            query.stopped.wait(20)

    with pytest.raises(KeyboardInterrupt):
        Job(None, spark, None).run(work)  # type: ignore[arg-type]
    assert [query.stopped.is_set() for query in queries] == [True] * 3


def made_by(monkeypatch: pytest.MonkeyPatch, start: Callable[..., FakeSpark]) -> None:
    """Sessions are made by this, and none is there, whatever other tests have left."""
    monkeypatch.setattr(railgun.spark, "session", start)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)


def test_an_interrupt_while_spark_starts_comes_behind_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that is cut off leaves Java behind."""
    spark = FakeSpark()

    def start(*_: object, **__: object) -> FakeSpark:
        _thread.interrupt_main()
        return spark

    made_by(monkeypatch, start)
    with pytest.raises(KeyboardInterrupt), SparkFlags().session():
        pytest.fail("it was interrupted")
    assert spark.stopped


def test_a_java_that_has_ended_is_said_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = FakeSpark(ConnectionRefusedError())
    made_by(monkeypatch, lambda *_, **__: spark)
    with pytest.raises(RailgunError, match=r"its Java has ended: .*spark\.driver\.memory"):
        with SparkFlags().session(), in_words():
            raise ConnectionRefusedError
    assert spark.stopped
