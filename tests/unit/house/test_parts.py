"""All tests in two parts: what the run as a whole comes to, and which process gets which file."""

from __future__ import annotations

import pytest

from tests import parts
from tests.support.checkout import TOP
from tests.support.sharing import SUITES, next_file

PASSED, FAILED, INTERRUPTED, EMPTY = 0, 1, 2, 5


@pytest.mark.parametrize(
    "together, alone, whole",
    [
        (PASSED, PASSED, PASSED),
        (FAILED, PASSED, FAILED),
        (PASSED, FAILED, FAILED),
        (PASSED, EMPTY, PASSED),  # "-k publish" leaves no chaos
        (EMPTY, PASSED, PASSED),
        (EMPTY, FAILED, FAILED),
        (FAILED, EMPTY, FAILED),
        (EMPTY, EMPTY, EMPTY),
    ],
)
def test_both_parts_must_pass_and_one_may_be_empty(
    together: int, alone: int, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = iter([together, alone])
    monkeypatch.setattr(parts, "_pytest", lambda *_: next(codes))
    monkeypatch.setattr(parts, "_failed", lambda: [])
    assert parts.run([]) == whole
    assert next(codes, None) is None


@pytest.mark.parametrize(
    "failed, again, alone, whole",
    [
        (1, PASSED, PASSED, PASSED),
        (parts.MOST_AGAIN, PASSED, FAILED, FAILED),
        (1, FAILED, PASSED, FAILED),
        (parts.MOST_AGAIN + 1, None, PASSED, FAILED),  # that is no accident
    ],
)
def test_a_few_tests_that_fail_are_run_once_more_and_named_if_they_pass(
    failed: int,
    again: int | None,
    alone: int,
    whole: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = [f"tests/unit/a.py::test_{number}" for number in range(failed)]
    began: list[tuple[str, ...]] = []
    codes = iter([FAILED, *([] if again is None else [again]), alone])

    def run(*arguments: str) -> int:
        began.append(arguments)
        return next(codes)

    monkeypatch.setattr(parts, "_pytest", run)
    monkeypatch.setattr(parts, "_failed", lambda: names)
    assert parts.run([]) == whole
    assert ((*parts.AGAIN, *names) in began) == (again is not None)
    assert (names[0] in capsys.readouterr().out) == (again == PASSED)


@pytest.mark.parametrize("code", [INTERRUPTED, -15])
def test_an_interrupted_run_goes_no_further(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[tuple[str, ...]] = []

    def interrupted(*arguments: str) -> int:
        began.append(arguments)
        return code

    monkeypatch.setattr(parts, "_pytest", interrupted)
    assert parts.run(["-k", "publish"]) == code
    assert began == [(*parts.TOGETHER, "-k", "publish")]


SPARK, PIPELINES, SINKS, UNIT = (
    "tests/spark/a.py",
    "tests/pipelines/a.py",
    "tests/sinks/a.py",
    "tests/unit/a.py",
)


@pytest.mark.parametrize(
    "waiting, begun, begun_by_others, given",
    [
        ([UNIT, SINKS, SPARK], set(), set(), SPARK),  # in the order of the suites
        ([UNIT, SINKS, SPARK, PIPELINES], {1}, set(), SINKS),  # it goes on with its own
        ([UNIT, SINKS, SPARK, PIPELINES], set(), {0}, SINKS),  # which no other has begun
        ([UNIT, SPARK, PIPELINES], {1}, {0}, SPARK),  # it helps, before what is short
        ([UNIT, SPARK, SINKS], {2}, {0, 1}, SINKS),  # first where beginning is cheaper
        ([UNIT, "tests/unit/b.py"], {0}, {1}, UNIT),
    ],
)
def test_a_process_goes_on_with_its_suite_then_begins_one_then_helps(
    waiting: list[str], begun: set[int], begun_by_others: set[int], given: str
) -> None:
    assert next_file(waiting, begun, begun_by_others) == given


def test_suites_are_folders_that_exist() -> None:
    assert all((TOP / folder).is_dir() for folders in SUITES for folder in folders)
