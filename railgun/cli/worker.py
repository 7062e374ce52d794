"""``railgun worker``: one worker in the foreground, the same as ``faust -A railgun worker`` with a file of your choice."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railgun.errors import ConfigError

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
) -> None:
    """Own a share of the cluster's partitions and serve them until Ctrl-C. Start several to share the work."""
    if loglevel.lower() not in LEVELS:
        raise ConfigError(f"{loglevel!r} is not a log level: use one of {', '.join(LEVELS)}")
    try:
        from railgun.node.run import run_worker
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a worker needs the package {error.name}: pip install 'railgun[worker]'"
        ) from error
    run_worker(config, data_dir=data_dir, loglevel=loglevel.upper())
