"""What commands of pipelines say on standard error while they run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.console import Console

from railgun.cli.pipelines import judging


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
    assert "[/samples]stopped" not in said
