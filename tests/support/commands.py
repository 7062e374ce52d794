"""The commands of ``railgun``, run in this process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from railgun.cli.main import app


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
