"""A Spark session that reads and writes railgun's topics: pinned jars, a fitting Java, quiet logs, UTC.

What Spark takes only from its environment is set while its JVM starts. Nothing here talks to Kafka.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from railgun.errors import ConfigError
from railgun.kafka.embedded.java import find_java
from railgun.kafka.processes import process_alive
from railgun.model.cluster_limits import LARGEST_MESSAGE
from railgun.spark.jars import SPARK_VERSION, spark_jars

JAVA_VERSIONS: Final = (17, 21)
_LOOPBACK: Final = "127.0.0.1"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # set by spark-submit: the JVM is there before this program
_FOLDER: Final = re.compile(r"railgun-spark-(\d+)-.+")
_LOG: Final = Path(__file__).with_name("log4j2.properties")
_PROVIDER: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_JARS: Final = "spark.jars"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_EXECUTORS_OPTIONS: Final = "spark.executor.extraJavaOptions"
_LOCAL_DIR: Final = "spark.local.dir"
# Avro makes room for as many items, characters or bytes as a payload claims to have: a damaged one of a few bytes would end the JVM for want
# of memory.
_AVRO_LIMITS: Final = {
    f"org.apache.avro.limits.{name}.maxLength": str(LARGEST_MESSAGE)
    for name in ("bytes", "collectionItems", "string")
}

# These may be changed while a session runs.
_SQL: Final[dict[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",  # headers of one name are data, not an error of the query
    # What plans and logs do not show. Spark knows a password by that word; a private key is under the name of a key store.
    "spark.sql.redaction.options.regex": "(?i)url|jaas|keystore",
}


def session(
    name: str = "railgun", *, master: str = "local[*]", config: Mapping[str, str] | None = None
) -> SparkSession:
    """The Spark session of this process, which has Kafka's source and sink. ``config`` goes over railgun's own settings.

    A session that runs already is given as it is, if it fits. Under spark-submit the master and the jars are those of its
    arguments (:func:`submit_args`). Raises ConfigError, JarsUnavailable and NoJava, each in one sentence.
    """
    _check_version(pyspark.__version__)
    given = dict(config or {})
    if SparkContext._active_spark_context is not None:
        return _fitting(SparkSession.builder.config(map={**_SQL, **given}).getOrCreate())
    builder = SparkSession.builder.appName(name)
    if _SUBMITTED in os.environ:
        return _fitting(builder.config(map={**_SQL, **given}).getOrCreate())
    with _environment(local=master.startswith("local")):
        return _fitting(builder.master(master).config(map={**_settings(given)}).getOrCreate())


def submit_args() -> list[str]:
    """The arguments for spark-submit, which takes no jars from a program: ``spark-submit <these> job.py``."""
    _check_version(pyspark.__version__)
    settings = {
        **_SQL,
        "spark.ui.showConsoleProgress": "false",
        _JAVA_OPTIONS: _java_options(),
        _EXECUTORS_OPTIONS: _executors_options(),
    }
    arguments = ["--jars", ",".join(map(str, spark_jars()))]
    for name, value in settings.items():
        arguments += ["--conf", f"{name}={value}"]
    return arguments


def _check_version(installed: str, what: str = "pyspark") -> None:
    if installed != SPARK_VERSION:
        raise ConfigError(
            f"{what} {installed} does not fit the jars, which are of Spark {SPARK_VERSION}: "
            f"pip install 'pyspark=={SPARK_VERSION}'"
        )


def _fitting(spark: SparkSession) -> SparkSession:
    """The session, if it is of the jars' version (``SPARK_HOME`` may have led to another) and can read Kafka."""
    _check_version(spark.version, "the Spark that runs, of version")
    jvm: Any = spark._jvm
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(_PROVIDER):
        raise ConfigError(
            "this Spark session has no Kafka source: make it with railgun.spark.session(), "
            "or start the program with spark-submit and railgun.spark.submit_args()"
        )
    properties = jvm.java.lang.System  # of the driver; Avro looks at them when it is first used
    for name, limit in _AVRO_LIMITS.items():
        if properties.getProperty(name) is None:
            properties.setProperty(name, limit)
    return spark


def _settings(given: Mapping[str, str]) -> dict[str, str]:
    """The configuration of a session that is started here; lists that both give are joined."""
    settings = {
        **_SQL,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **given,
        _JARS: ",".join([*map(str, spark_jars()), *filter(None, [given.get(_JARS)])]),
        _JAVA_OPTIONS: " ".join([_java_options(), *filter(None, [given.get(_JAVA_OPTIONS)])]),
        _EXECUTORS_OPTIONS: " ".join([_executors_options(), *filter(None, [given.get(_EXECUTORS_OPTIONS)])]),
    }
    if _LOCAL_DIR not in given:
        settings[_LOCAL_DIR] = str(_local_folder())
    return settings


def _java_options() -> str:
    return f"-Dlog4j2.configurationFile={_LOG.as_uri()}"


def _executors_options() -> str:
    return " ".join(f"-D{name}={limit}" for name, limit in _AVRO_LIMITS.items())


def _local_folder() -> Path:
    """A folder for what Spark spills, gone with this process. What a killed driver left goes with the next one."""
    top = Path(tempfile.gettempdir())
    for left in top.glob("railgun-spark-*"):
        owner = _FOLDER.fullmatch(left.name)
        if owner is not None and not process_alive(int(owner.group(1))):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"railgun-spark-{os.getpid()}-", dir=top))
    atexit.register(_clear, folder, os.getpid())
    return folder


def _clear(folder: Path, owner: int) -> None:
    if os.getpid() != owner:  # a forked child: the session is not its own
        return
    context = SparkContext._active_spark_context
    if context is not None:
        with suppress(Py4JError, ConnectionError):  # its JVM has ended by itself
            context.stop()
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _environment(*, local: bool) -> Iterator[None]:
    """What the JVM and its Python workers inherit. The Java is this process's own business again afterwards."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    before = os.environ.get("JAVA_HOME")
    java = find_java(JAVA_VERSIONS, "Spark")
    os.environ["JAVA_HOME"] = str(java.resolve().parent.parent)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before
