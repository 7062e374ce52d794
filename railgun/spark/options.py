"""Settings of librdkafka as options of Spark's Kafka source and sink, whose client is Kafka's own in Java.

The same ``kafka=`` that opens a facade is given here. A setting that Java's client does not know in the same sense is refused by
name, before anything is read or sent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from railgun.errors import ConfigError
from railgun.kafka.settings import DEFAULT_BOOTSTRAP

SERVER_VARIABLE: Final = "RAILGUN_SERVER"
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOGIN: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
# Same name, same meaning, same unit.
_SAME: Final = frozenset(
    {
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "fetch.max.bytes",
        "linger.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "ssl.key.password",
    }
)
_TOGETHER: Final = frozenset(  # translated by the functions below
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)


def server_address(given: str | None) -> str:
    """The address of Kafka: as given, else ``RAILGUN_SERVER``, else localhost:9092. Raises ConfigError."""
    address = given or os.environ.get(SERVER_VARIABLE) or DEFAULT_BOOTSTRAP
    if "://" in address:
        raise ConfigError(
            f"{address!r} is not a valid address for Spark: give host:port of a Kafka broker, which also holds the log"
        )
    return address


def kafka_options(server: str, kafka: Mapping[str, Any] | None) -> dict[str, str]:
    """The options ``kafka.…`` of source and sink. Raises ConfigError, which names the setting and no secret."""
    given = {name: str(value) for name, value in (kafka or {}).items()}
    for name in given:
        if name not in _SAME and name not in _TOGETHER:
            raise ConfigError(
                f"the Kafka setting {name!r} cannot be translated for Spark: leave it out, or set its counterpart on the session"
            )
    java = {name: value for name, value in given.items() if name in _SAME}
    java |= _protocol(given) | _sasl(given) | _trust(given) | _own_certificate(given)
    return {f"kafka.{name}": value for name, value in {"bootstrap.servers": server, **java}.items()}


def _protocol(given: Mapping[str, str]) -> dict[str, str]:
    if "security.protocol" not in given:
        return {}
    protocol = given["security.protocol"].upper()
    if protocol not in _PROTOCOLS:
        raise ConfigError(
            f"{protocol!r} is not a valid security.protocol: use one of {', '.join(_PROTOCOLS)}"
        )
    return {"security.protocol": protocol}


def _sasl(given: Mapping[str, str]) -> dict[str, str]:
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms"))
    if mechanism is None:
        if "sasl.username" in given or "sasl.password" in given:
            raise ConfigError("sasl.username and sasl.password need a sasl.mechanism")
        return {}
    mechanism = mechanism.upper()
    if mechanism not in _LOGIN:
        raise ConfigError(
            f"the sasl.mechanism {mechanism!r} cannot be translated for Spark: use {', '.join(_LOGIN)}"
        )
    try:
        user, password = given["sasl.username"], given["sasl.password"]
    except KeyError as missing:
        raise ConfigError(f"the sasl.mechanism {mechanism} needs {missing.args[0]}") from None
    login = f"{_LOGIN[mechanism]} required username={_quoted(user)} password={_quoted(password)};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _trust(given: Mapping[str, str]) -> dict[str, str]:
    """The certificates that brokers are known by. As text, as all of them: executors need no files."""
    java: dict[str, str] = {}
    authorities = _pem(given, "ssl.ca")
    if authorities is not None:
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}
    algorithm = given.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm.lower() == "none" else algorithm
    if given.get("enable.ssl.certificate.verification", "true").lower() not in ("true", "1"):
        raise ConfigError(
            "'enable.ssl.certificate.verification' cannot be turned off for Spark: give ssl.ca.location instead"
        )
    return java


def _own_certificate(given: Mapping[str, str]) -> dict[str, str]:
    """Certificate and key of this client."""
    chain = _pem(given, "ssl.certificate")
    key = _pem(given, "ssl.key")
    if chain is None and key is None:
        return {}
    if chain is None or key is None:
        raise ConfigError(
            "a certificate of your own needs both ssl.certificate.location and ssl.key.location"
        )
    if "RSA PRIVATE KEY" in key or "EC PRIVATE KEY" in key:
        raise ConfigError(
            "the key of ssl.key.location is not a valid key for Spark: convert it with `openssl pkcs8 -topk8 -nocrypt`"
        )
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": chain,
        "ssl.keystore.key": key,
    }


def _pem(given: Mapping[str, str], name: str) -> str | None:
    if f"{name}.location" in given:
        try:
            return Path(given[f"{name}.location"]).read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            raise ConfigError(f"the Kafka setting '{name}.location' cannot be read: {error}") from error
    return given.get(f"{name}.pem")
