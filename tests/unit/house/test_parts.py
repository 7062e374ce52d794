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
    assert parts.run([]) == whole
    assert next(codes, None) is None


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
