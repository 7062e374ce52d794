"""``railgun worker``: one worker in the foreground, the same as ``faust -A railgun worker`` with a file of your choice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from railgun.errors import ConfigError

_LOOK_EVERY: Final = 0.02
LEVELS = ("debug", "info", "warn", "error", "crit")


def worker(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Configuration file; else ./railgun.toml, else defaults."),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", help="Where the tables are kept; else node.data_dir of the file."),
    ] = None,
    loglevel: Annotated[
        str, typer.Option("--loglevel", "-l", help="debug, info, warn, error or crit.")
    ] = "info",
    await_config: Annotated[
        float,
        typer.Option(
            "--await-config", min=0, hidden=True, help="Seconds to wait for the configuration file to appear."
        ),
    ] = 0.0,
) -> None:
    """Own a share of the cluster's partitions and serve them until Ctrl-C. Start several to share the work."""
    if loglevel.lower() not in LEVELS:
        raise ConfigError(f"{loglevel!r} is not a valid log level: use one of {', '.join(LEVELS)}")
    try:
        from railgun.worker.run import run_worker
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a worker needs the package {error.name}: pip install 'railgun[worker]'"
        ) from error
    if config is not None and await_config:
        _await(config, await_config)
    run_worker(config, data_dir=data_dir, loglevel=loglevel.upper())


def _await(file: Path, seconds: float) -> None:
    """Return when the file is there. ``railgun up`` writes it when its broker answers; until then this process loads."""
    deadline = time.monotonic() + seconds
    while not file.exists():
        if time.monotonic() > deadline:
            raise ConfigError(f"the configuration file {file} did not appear within {seconds:.0f} seconds")
        time.sleep(_LOOK_EVERY)
