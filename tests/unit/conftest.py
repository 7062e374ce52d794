"""Fixtures of the commands' tests: a cluster in memory, and ``railgun`` on it."""

from __future__ import annotations

import pytest
from typer.testing import Result

from tests.support.commands import Run, done, invoke
from tests.support.naming import unique


@pytest.fixture
def server() -> str:
    """A cluster that lives as long as this process: each command connects to it anew."""
    return f"memory://{unique('cli')}"


@pytest.fixture
def run(server: str) -> Run:
    def on_server(*arguments: str, text: str | None = None) -> Result:
        return invoke(*arguments, "--server", server, text=text)

    return on_server


@pytest.fixture
def orders(run: Run) -> Run:
    """The same, with a stream ORDERS."""
    done(run("stream", "add", "ORDERS", "--subjects", "ORDERS.*"))
    return run
