"""The workers of ``railgun up``: their configuration, and what their death looks like."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from railgun.cli.local.workers import LocalWorker, WorkerDied, worker_config
from railgun.cli.main import app
from railgun.errors import ConfigError
from railgun.worker.settings import load_settings
from tests.support.checkout import TOP
from tests.support.commands import invoke
from tests.support.waiting import process_gone, wait_until


def test_the_written_configuration_is_one_that_a_worker_reads(tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    folder = tmp_path / 'a "quoted" Ordner ü 😀'
    file.write_text(
        worker_config(number=2, bootstrap="127.0.0.1:4001", prefix="demo", data_dir=folder), encoding="utf-8"
    )
    settings = load_settings(file)
    assert settings.node.name == "worker-2"
    assert settings.node.bootstrap == "127.0.0.1:4001"
    assert settings.cluster.prefix == "demo"
    assert settings.data_dir == folder / "demo"


def test_the_configuration_of_the_compose_file_is_one_too() -> None:
    assert load_settings(TOP / "compose" / "railgun.toml").node.bootstrap == "kafka:29092"


def test_a_worker_that_still_waits_for_its_configuration_can_be_stopped(tmp_path: Path) -> None:
    worker = LocalWorker(1, "railgun", tmp_path)
    worker.start()
    process = worker._process
    assert process is not None
    worker.stop()
    assert process_gone(process.pid)
    assert worker.log_file.read_text() == ""


def test_a_worker_does_not_wait_for_ever(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(
        app, ["worker", "--config", str(tmp_path / "none.toml"), "--await-config", "0.1"]
    )
    assert isinstance(outcome.exception, ConfigError)
    assert "did not appear within" in str(outcome.exception)


def test_a_worker_that_dies_shows_its_last_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worker = LocalWorker(1, "not a prefix!", tmp_path)
    worker.config_file.write_text("[[ of an earlier run")
    worker.start()
    worker.serve("127.0.0.1:1")
    process = worker._process
    assert process is not None
    wait_until(lambda: not process.alive(), "it died", timeout=30)
    with pytest.raises(WorkerDied, match="worker 1 ended with exit code") as death:
        worker.check()
    assert death.value.exit_code != 0
    worker.stop()
    assert process_gone(process.pid)
    said = capsys.readouterr().err
    assert said.startswith("worker 1 | ")
    assert "cluster.prefix" in said, "it read its own configuration, not that of an earlier run"
    assert said.splitlines()[-1].removeprefix("worker 1 | ") in worker.log_file.read_text()


@pytest.mark.parametrize("package", ["faust", "rocksdict"])
def test_up_without_what_a_worker_needs_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    folder = tmp_path / "data"
    with pytest.raises(ConfigError) as refused:
        invoke("up", "--port", "0", "--data-dir", str(folder))
    assert str(refused.value) == (
        f"a worker needs the package {package}: pip install 'railgun[worker]', or give --broker-only"
    )
    assert not folder.exists()
