"""``railgun up``: a broker and its workers in the foreground, for development."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import typer

from railgun.cli.local.workers import LocalWorker, await_workers
from railgun.cli.options.context import forget_up, remember_up
from railgun.cli.pipelines.starting import require_spark
from railgun.cli.tour import run_tour
from railgun.errors import ConfigError, EmbeddedBrokerError
from railgun.kafka.embedded import EmbeddedBroker, EmbeddedConnect
from railgun.kafka.embedded.connect_jars import connect_cached
from railgun.kafka.embedded.jars import jars_cached
from railgun.kafka.embedded.pinned import KAFKA_VERSION
from railgun.kafka.embedded.ports import LAST_PORT, is_free

USUAL_PORT: Final = 9092
CONNECT_PORT: Final = 8083
PREFIX: Final = "railgun"
READY_SECONDS: Final = 60.0
_LOOK_EVERY: Final = 0.2
_OF_A_WORKER: Final = ("faust", "rocksdict")  # the packages of the extra "worker"
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

Show = Callable[[str], None]  # a tour of the cluster at this address


class Stopped(BaseException):
    """Ctrl-C or SIGTERM: not an error. A BaseException, so that no handler of errors on the way takes it for one."""


def up(
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=LAST_PORT,
            help=f"Port of the broker; 0 for a free one. By default {USUAL_PORT} if it is free.",
        ),
    ] = None,
    data_dir: Annotated[
        Path, typer.Option(help="Folder of the broker's data, the workers' state and logs.")
    ] = Path(".railgun"),
    workers: Annotated[int, typer.Option(min=1, help="How many workers share the partitions.")] = 1,
    broker_only: Annotated[
        bool, typer.Option("--broker-only", help="Start the broker and no worker.")
    ] = False,
    connect: Annotated[
        bool, typer.Option("--connect", help="Start Kafka Connect too, with a JDBC sink, for `railgun sink`.")
    ] = False,
    connect_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=LAST_PORT,
            help=f"Port of Connect; 0 for a free one. By default {CONNECT_PORT} if it is free.",
        ),
    ] = None,
    tour: Annotated[
        bool, typer.Option("--tour", help="Show a short tour when ready, then go on serving.")
    ] = False,
    real_time: Annotated[
        bool, typer.Option("--real-time", help="The tour waits as long as its story says.")
    ] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="The tour ends with an archive and an audit, on Spark.")
    ] = False,
) -> None:
    """Run a local Kafka and workers until Ctrl-C; prints `ready: ADDRESS` once a publish would be answered."""
    if broker_only and tour:
        raise ConfigError("--tour needs a worker: leave out --broker-only")
    if spark:
        if not tour:
            raise ConfigError("--spark is a part of the tour: give --tour as well")
        require_spark()
    if not broker_only:
        _require_worker()
    with _stop_signals():
        try:
            show = partial(run_tour, real_time=real_time, spark=spark) if tour else None
            wanted = _free_or_any(connect_port, CONNECT_PORT) if connect or connect_port is not None else None
            _serve(port, data_dir, 0 if broker_only else workers, wanted, show)
        except Stopped:
            typer.echo("stopped", err=True)


def _require_worker() -> None:
    """Raises ConfigError before anything is started, if no worker could."""
    for package in _OF_A_WORKER:
        if not _is_installed(package):
            raise ConfigError(
                f"a worker needs the package {package}: pip install 'railgun[worker]', or give --broker-only"
            )


def _is_installed(package: str) -> bool:
    """Whether the package can be imported. Of one that is imported already, the import system may say nothing (faust)."""
    if package in sys.modules:
        return sys.modules[package] is not None
    return find_spec(package) is not None


def _free_or_any(port: int | None, usual: int) -> int:
    """The port that was asked for, else the usual one, else any."""
    if port is not None:
        return port
    return usual if is_free(usual) else 0


def _serve(
    port: int | None, data_dir: Path, workers: int, connect_port: int | None, show: Show | None
) -> None:
    port = _free_or_any(port, USUAL_PORT)
    if not jars_cached():
        typer.echo(f"fetching Kafka {KAFKA_VERSION} (45 MB, once per user) …", err=True)
    if connect_port is not None and not connect_cached():
        typer.echo("fetching Kafka Connect and its JDBC sink (73 MB, once per user) …", err=True)
    typer.echo(f"starting Kafka {KAFKA_VERSION}, data in {data_dir} …", err=True)
    with ExitStack() as running:
        broker = EmbeddedBroker(data_dir / "broker", port)
        crew = [LocalWorker(number, PREFIX, data_dir) for number in range(1, workers + 1)]
        running.callback(broker.stop)
        running.callback(_stop_all, crew)
        broker.start(meanwhile=lambda: _start_all(crew))
        for worker in crew:
            worker.serve(broker.bootstrap)
        connect = None
        if connect_port is not None:
            connect = EmbeddedConnect(broker.bootstrap, data_dir / "connect", connect_port, prefix=PREFIX)
            running.callback(connect.stop)
            connect.begin()  # gets ready beside the workers
        if crew:
            await_workers(crew, broker.bootstrap, PREFIX, READY_SECONDS)
        if connect is not None:
            connect.await_ready()
            typer.echo(f"connect: {connect.url}", err=True)
        _announce(broker.bootstrap, connect, running)
        if show is not None:
            _tour(crew, broker.bootstrap, show)
        while True:
            _check(broker, crew, connect)
            time.sleep(_LOOK_EVERY)


def _announce(bootstrap: str, connect: EmbeddedConnect | None, running: ExitStack) -> None:
    """Say that it is ready, and leave a note for the commands of this folder until it ends."""
    try:
        folder = remember_up(bootstrap, None if connect is None else connect.url)
    except OSError as error:
        typer.echo(f"note: other commands need --server {bootstrap} ({error})", err=True)
    else:
        running.callback(forget_up, folder)
        typer.echo(f"commands in {folder} use it; elsewhere they need --server {bootstrap}", err=True)
    typer.echo(f"ready: {bootstrap}")


def _tour(crew: list[LocalWorker], bootstrap: str, show: Show) -> None:
    try:
        show(bootstrap)
    except Exception:
        for worker in crew:
            worker.check()  # a dead worker explains the failure better than what the tour saw of it
        raise
    typer.echo(f"serving at {bootstrap}; Ctrl-C stops", err=True)


def _check(broker: EmbeddedBroker, crew: list[LocalWorker], connect: EmbeddedConnect | None) -> None:
    for worker in crew:
        worker.check()
    if connect is not None and not connect.running:
        raise EmbeddedBrokerError(f"the local Kafka Connect ended (log: {connect.log_file})")
    if not broker.running:
        raise EmbeddedBrokerError(f"the local Kafka broker ended (log: {broker.log_file})")


def _start_all(crew: list[LocalWorker]) -> None:
    for worker in crew:
        worker.start()


def _stop_all(crew: list[LocalWorker]) -> None:
    for worker in crew:
        worker.ask_to_stop()
    for worker in crew:
        worker.stop()


@contextmanager
def _stop_signals() -> Iterator[None]:
    """Turn SIGINT and SIGTERM into :class:`Stopped` in the main thread, and give the signals back at the end."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in _STOP_SIGNALS:  # a second Ctrl-C must not interrupt the stop, which is bounded anyway
            signal.signal(number, signal.SIG_IGN)
        raise Stopped

    old = {number: signal.signal(number, stop) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
