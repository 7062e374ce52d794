"""The start of a pipeline: Spark, the module of the job, and how either ends.

Spark is started when a job runs, and not before: every other command does without it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from railgun.cli.options.cluster import Cluster
from railgun.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")

_PACKAGES = ("railgun._topologies", "topologies")  # inside an installed package, or of the checkout
_LOOK = 0.5  # seconds: a wait without an end would not hear Ctrl-C on every system
_PATIENCE = 30.0  # seconds for a job that was cancelled
_START = 120.0  # seconds for a start of Spark that nobody wants any more
_LEAST_TIMEOUT = 30.0  # seconds: an owner looks through millions of messages beside its other work
# Loggers of pyspark that print a failing query with all its traces, before the command says the same in one sentence.
_PAGES: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@dataclass(frozen=True)
class SparkFlags:
    """Where Spark runs."""

    master: Annotated[str, typer.Option(help="Spark's master: local[*], spark://host:7077, yarn …")] = (
        "local[*]"
    )
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; repeatable.")
    ] = None

    def settings(self) -> dict[str, str]:
        """The settings that were given; in one process, with as many shuffle tasks as it has use for."""
        given: dict[str, str] = {}
        if self.master.startswith("local"):
            given["spark.sql.shuffle.partitions"] = "4"  # 200 is for a cluster: here each takes its time
        for text in self.conf or ():
            name, separator, value = text.partition("=")
            if not separator or not name.strip():
                raise ConfigError(f"--conf {text!r} is not KEY=VALUE, such as spark.driver.memory=2g")
            given[name.strip()] = value.strip()
        return given

    @contextmanager
    def session(self) -> Iterator[SparkSession]:
        """A Spark session; one that was there before stays. Raises ConfigError where pyspark is not installed."""
        settings = self.settings()
        require_spark()
        from pyspark.logger import PySparkLogger
        from pyspark.sql import SparkSession

        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # calls that Ctrl-C cuts off are not errors
        for name in _PAGES:
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
        there = SparkSession.getActiveSession()
        with _in_words():  # of a master or a setting that is not one, too
            spark = self._started(settings, stays=there is not None)
        try:
            yield spark
        finally:
            if there is None:
                _stop(spark)

    def _started(self, settings: dict[str, str], *, stays: bool) -> SparkSession:
        """A session, made in a thread of its own: a start that Ctrl-C cuts off would leave Java behind, which nobody ends."""
        from railgun.spark import session

        made: Future[SparkSession] = Future()
        try:
            _run(lambda: session("railgun pipeline", master=self.master, config=settings), made)
        except BaseException:
            if not made.cancel() and wait([made], _START).done and made.exception() is None and not stays:
                _stop(made.result())
            raise
        return made.result()


@dataclass(frozen=True)
class Job:
    """A pipeline that can run: its module, Spark, and the cluster in the form that jobs want."""

    module: Any
    spark: SparkSession
    place: Any

    def run(self, function: Callable[..., Result], *given: Any, **more: Any) -> Result:
        """What the function of the module returns, or raises.

        It runs in a thread of its own, because Ctrl-C comes to this one: in the middle of a call to the JVM it would be lost, or leave
        the connection unusable. What it interrupts is cancelled, and given some time to end.
        """
        done: Future[Result] = Future()
        try:
            _run(lambda: function(self.spark, self.place, *given, **more), done)
        except BaseException:
            self._cancel(done)
            raise
        return done.result()

    def _cancel(self, done: Future[Any]) -> None:
        """End what runs, and what is begun behind it until the job notices, within some time."""
        from py4j.protocol import Py4JError

        deadline = time.monotonic() + _PATIENCE
        with suppress(Py4JError, ConnectionError):  # it has ended by itself
            self.spark.sparkContext.setLogLevel("OFF")  # what is cut off now is not an error
            while not (done.cancel() or done.done()) and time.monotonic() < deadline:
                for query in self.spark.streams.active:
                    query.stop()
                self.spark.sparkContext.cancelAllJobs()
                wait([done], _LOOK)


@contextmanager
def job(name: str, cluster: Cluster, flags: SparkFlags, *, stopped: str = "") -> Iterator[Job]:
    """A job, ready to run. ``stopped`` is said after Ctrl-C.

    Raises ConfigError where it cannot run here, and RailgunError with Spark's own sentence where it fails.
    """
    address = cluster.settings().bootstrap  # raises for memory://, which has no log that Spark could read
    with flags.session() as spark, _in_words():
        module = topology(name)
        place = topology("parts.place").Place(
            address, cluster.prefix, cluster.kafka_options(), max(cluster.timeout, _LEAST_TIMEOUT)
        )
        try:
            yield Job(module, spark, place)
        except KeyboardInterrupt:
            if stopped:
                typer.echo(stopped, err=True)
            raise


def _in_words() -> AbstractContextManager[None]:
    """Raises RailgunError with Spark's own sentence where it fails in the block."""
    found: AbstractContextManager[None] = topology("parts.words").in_words()
    return found


def require_spark() -> None:
    """Raises ConfigError where pyspark is not installed."""
    if find_spec("pyspark") is None:
        raise ConfigError("pipelines need Spark: pip install 'railgun[spark]'")


def topology(name: str) -> Any:
    """A module of the pipelines: inside an installed package, or of the checkout."""
    for package in _PACKAGES:
        wanted = f"{package}.pipelines.{name}"
        try:
            return import_module(wanted)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{wanted}.".startswith(f"{error.name}."):
                raise
    raise ConfigError(f"the pipeline {name} is not part of this installation: install railgun as a wheel")


def _run(function: Callable[[], Result], done: Future[Result]) -> None:
    """Run the function in a thread of its own, and wait for its end; what it returns or raises is in ``done``.

    Ctrl-C comes to the main thread, in which this waits.
    """

    def work() -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            done.set_result(function())
        except BaseException as error:  # noqa: BLE001  the other thread raises it
            done.set_exception(error)

    threading.Thread(target=work, name="railgun-pipeline", daemon=True).start()
    while not wait([done], _LOOK).done:
        pass


def _stop(spark: SparkSession) -> None:
    from py4j.protocol import Py4JError

    with suppress(Py4JError, ConnectionError):  # it has ended by itself: that is said already
        spark.stop()
