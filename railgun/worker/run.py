"""Running a worker in this process, from its configuration to its exit code."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NoReturn

import faust

from railgun.kafka.cluster_record import prepare_cluster
from railgun.worker.faust_app import create_app
from railgun.worker.settings import load_settings


def run_worker(config: Path | None, *, data_dir: Path | None, loglevel: str) -> NoReturn:
    """Serve until SIGTERM or Ctrl-C, then exit 0; a crash exits 1.

    Raises ConfigError, ConnectionLost or NotAuthorized, in one sentence, when the worker could not serve at all.
    """
    settings = load_settings(config, data_dir=data_dir)
    # Looked at before Faust starts, so that a refusal is one line and not a traceback.
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    held = prepare_cluster(settings.kafka, settings.protected, settings.cluster.replication_factor)
    app = create_app(settings, held=held)
    app.finalize()
    app.worker_init()  # what Faust's own command line does before it starts a worker
    worker: Any = faust.Worker(app, loglevel=loglevel, daemon=True, redirect_stdouts=False)
    worker.execute_from_commandline()
    raise SystemExit(0)
