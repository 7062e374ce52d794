"""Sessions that fit, sessions that do not, and the settings of Kafka as Spark's client wants them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from pyspark.sql import SparkSession

from railgun.errors import ConfigError
from railgun.spark import jars, read, submit_args
from railgun.spark import session as session_of_this_process
from railgun.spark.cluster import Cluster
from railgun.spark.options import SERVER_VARIABLE, kafka_options, server_address
from tests.support.certificates import Authority
from tests.support.secured_broker import sasl

pytestmark = pytest.mark.timeout(600)  # the first test waits for the JVM

PASSWORD = 'pass"word\\ ;ä'


# ------------------------------------------------------------ sessions


def test_a_session_that_runs_is_given_again(spark: SparkSession) -> None:
    again = session_of_this_process(config={"spark.sql.session.timeZone": "Europe/Paris"})
    try:
        assert again.sparkContext is spark.sparkContext
        assert again.conf.get("spark.sql.session.timeZone") == "Europe/Paris"
    finally:
        session_of_this_process()
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.version == jars.SPARK_VERSION


def test_what_does_not_fit_is_refused_in_a_sentence(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = (
        r"pyspark 3\.5\.1 does not fit the jars, which are of Spark 4\.0\.0: pip install 'pyspark==4\.0\.0'$"
    )
    with monkeypatch.context() as patched:
        patched.setattr(pyspark, "__version__", "3.5.1")
        for call in (session_of_this_process, submit_args):
            with pytest.raises(ConfigError, match=f"^{says}"):
                call()
    with monkeypatch.context() as patched:
        patched.setattr(sys.modules["railgun.spark.session"], "_PROVIDER", "org.example.NoSource")
        with pytest.raises(ConfigError, match=r"^this Spark session has no Kafka source: make it with"):
            session_of_this_process()


def test_arguments_for_spark_submit_name_files_that_are_there() -> None:
    arguments = submit_args()
    named = arguments[arguments.index("--jars") + 1].split(",")
    assert len(named) == len(jars.SPARK_JARS) == 5
    assert all(Path(jar).is_file() for jar in named)
    assert "spark.sql.session.timeZone=UTC" in arguments


# ------------------------------------------------------------ settings


def test_the_address_is_given_or_in_the_environment_or_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SERVER_VARIABLE, raising=False)
    assert server_address(None) == "localhost:9092"
    monkeypatch.setenv(SERVER_VARIABLE, "broker:1")
    assert server_address(None) == "broker:1"
    assert server_address("other:2") == "other:2"
    with pytest.raises(ConfigError, match="'memory://' is not a valid address for Spark"):
        server_address("memory://")


def _in_java(spark: SparkSession, options: dict[str, str]) -> None:
    """A client of Java with the options; it reads passwords, certificates and keys when it is made."""
    jvm: Any = spark._jvm
    given = jvm.java.util.Properties()
    for name, value in options.items():
        given.put(name.removeprefix("kafka."), value)
    jvm.org.apache.kafka.clients.admin.AdminClient.create(given).close()


def test_credentials_and_certificates_are_taken_by_javas_client(spark: SparkSession, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = authority.options("alice")
    key = Path(tls["ssl.key.location"])
    with pytest.raises(ConfigError, match="is not a valid key for Spark: convert it with `openssl"):
        kafka_options("127.0.0.1:1", tls)
    read_key = load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(read_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    options = kafka_options("127.0.0.1:1", tls | {"ssl.endpoint.identification.algorithm": "none"})
    assert options["kafka.bootstrap.servers"] == "127.0.0.1:1"
    assert options["kafka.security.protocol"] == "SSL"
    assert options["kafka.ssl.endpoint.identification.algorithm"] == ""
    assert not any(str(tmp_path) in value for value in options.values()), "executors have no such files"
    _in_java(spark, options)

    scram = sasl("bob", PASSWORD) | {
        "security.protocol": "sasl_ssl",
        "ssl.ca.pem": authority.trust_store.read_text(),
    }
    options = kafka_options("127.0.0.1:1", scram)
    assert (options["kafka.security.protocol"], options["kafka.sasl.mechanism"]) == (
        "SASL_SSL",
        "SCRAM-SHA-512",
    )
    _in_java(spark, options)
    jvm: Any = spark._jvm
    password = jvm.org.apache.kafka.common.config.types.Password(options["kafka.sasl.jaas.config"])
    properties = jvm.java.util.HashMap()
    properties.put("sasl.jaas.config", password)
    jaas = jvm.org.apache.kafka.common.security.JaasContext.loadClientContext(properties)
    login = jaas.configurationEntries()[0].getOptions()
    assert (login["username"], login["password"]) == ("bob", PASSWORD)


@pytest.mark.parametrize(
    "kafka,says",
    [
        ({"queue.buffering.max.kbytes": 5}, "'queue.buffering.max.kbytes' cannot be translated for Spark"),
        ({"security.protocol": "tls"}, "'TLS' is not a valid security.protocol"),
        ({"sasl.username": "bob"}, "need a sasl.mechanism"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "bob"}, "PLAIN needs sasl.password"),
        ({"sasl.mechanism": "GSSAPI"}, "'GSSAPI' cannot be translated"),
        ({"enable.ssl.certificate.verification": False}, "cannot be turned off"),
        ({"ssl.ca.location": "/no/such/file"}, "'ssl.ca.location' cannot be read"),
        ({"ssl.certificate.pem": "x"}, "needs both"),
    ],
)
def test_settings_without_a_counterpart_are_refused_by_name(kafka: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        kafka_options("127.0.0.1:1", kafka)
    secret = {"sasl.mechanism": "SCRAM-SHA-1", "sasl.username": "bob", "sasl.password": PASSWORD}
    with pytest.raises(ConfigError) as refused:
        kafka_options("127.0.0.1:1", secret)
    assert PASSWORD not in str(refused.value)


def test_a_wrong_prefix_is_refused_before_anything_is_asked(spark: SparkSession) -> None:
    with pytest.raises(ConfigError):
        read(spark, "ORDERS", server="127.0.0.1:1", prefix="not a prefix")


def test_no_plan_shows_a_password(spark: SparkSession) -> None:
    frame = Cluster("127.0.0.1:1", "railgun", sasl("bob", PASSWORD)).batch(spark, "topic", 0, 0, 1)
    plan = frame._jdf.queryExecution().logical().toString() + repr(frame)
    assert "topic" in plan
    assert "pass" not in plan


def test_no_plan_of_a_streaming_query_shows_a_password_or_a_key(spark: SparkSession, tmp_path: Path) -> None:
    tls = Authority(tmp_path).options("alice")
    key = Path(tls["ssl.key.location"])
    read_key = load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(read_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    secret = key.read_text().splitlines()[1]
    frames = [
        Cluster("127.0.0.1:1", "railgun", given).stream(spark, "topic", 0, None)
        for given in (sasl("bob", PASSWORD), tls)
    ]
    plans = "".join(frame._jdf.queryExecution().toString() for frame in frames)
    assert "127.0.0.1:1" in plans
    assert "bob" not in plans
    assert secret not in plans
