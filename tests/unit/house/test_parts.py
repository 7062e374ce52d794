"""All tests in two parts: what the run as a whole comes to."""

from __future__ import annotations

import pytest

from tests import parts

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
