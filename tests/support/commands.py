"""The commands of ``railgun``, run in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from typer.testing import CliRunner, Result

from railgun.cli.main import app
from railgun.client.facade.railgun import Railgun, connect

Run = Callable[..., Result]  # runs a command on the test's own cluster


def invoke(*arguments: str, text: str | None = None, **environment: str) -> Result:
    """Run a command, with ``text`` as its input. Raises what the command did not turn into an exit code."""
    result = CliRunner().invoke(app, list(arguments), input=text, env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(result: Result) -> str:
    """What a command printed that must have succeeded."""
    assert result.exit_code == 0, result.output
    return result.stdout


def said(result: Result) -> str:
    """What a command said on standard error, but for where it acts."""
    return "".join(
        line for line in result.stderr.splitlines(keepends=True) if not line.startswith("acting on ")
    )


def complete(line: str) -> list[str]:
    """What bash would offer at the end of the line."""
    words = line.split(" ")
    asked = {"_RAILGUN_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return CliRunner().invoke(app, [], prog_name="railgun", env=asked).stdout.split()


@contextmanager
def meanwhile(server: str, action: Callable[[Railgun, int], object]) -> Iterator[None]:
    """Do something again and again, until the command under test has seen enough of it."""
    over = threading.Event()

    def work() -> None:
        with connect(server) as rg:
            number = 0
            while not over.wait(0.02):
                number += 1
                action(rg, number)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
