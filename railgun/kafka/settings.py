"""The settings of every Kafka client that railgun opens, rendered in one place.

Owns: librdkafka's dictionaries for each role, and the same address and credentials in the form that aiokafka (under
Faust) wants. A user's ``kafka`` table passes through untouched (SASL, TLS, client.id …), except for the settings that
exactly-once depends on: giving one of those is a :class:`~railgun.errors.ConfigError`, never silently overruled. So is
one that librdkafka does not know or cannot use; it is asked at once, and not when the first client is opened.
Secrets live in here and nowhere else; ``repr`` hides them, so a logged object gives nothing away.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer

from railgun.errors import ConfigError
from railgun.model.cluster_limits import LARGEST_RECORD

MAX_MESSAGE_BYTES: Final = (
    LARGEST_RECORD  # a pack is at most 1 MiB; a reply batch or a large message may be more
)
DEFAULT_BOOTSTRAP: Final = "localhost:9092"
# librdkafka wants a group name even from a consumer that never joins one, and asks for its coordinator: users of a
# cluster with access control need Describe on it.
UNUSED_GROUP: Final = "railgun-unused"

_OURS: Final = frozenset(
    {
        "bootstrap.servers",
        "transactional.id",
        "transaction.timeout.ms",
        "enable.idempotence",
        "acks",
        "request.required.acks",
        "isolation.level",
        "group.id",
        "enable.auto.commit",
        "enable.partition.eof",
        "partitioner",
        "message.max.bytes",
        "message.timeout.ms",
        "delivery.timeout.ms",
    }
)
_ALONE: Final[dict[str, Any]] = {"bootstrap.servers": "", "log_level": 0}  # a client that connects to nothing
_SECRET_WORDS: Final = ("password", "secret", "key", "token", "jaas", "pem")

# Every client must be able to carry the largest record that the topics take.
_COMMON: Final[dict[str, Any]] = {
    "message.max.bytes": MAX_MESSAGE_BYTES,
    # A broker that was away is found again within a second; the default waits up to ten between two attempts.
    "reconnect.backoff.max.ms": 1000,
}

_PRODUCER: Final[dict[str, Any]] = {
    "enable.idempotence": True,
    "acks": "all",  # CLU-16
    # The default, consistent_random, is CRC32: keys would land elsewhere than Kafka's other clients put them (docs/design/0019).
    "partitioner": "murmur2_random",
    "linger.ms": 1,  # enough to batch a burst; a lone record must not wait for company
    "batch.size": 1024 * 1024,
    "batch.num.messages": 100_000,
    # A whole drain is queued before it is flushed: the default of 100,000 messages is less than one.
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 512 * 1024,
    # A missing topic is reported after a second; the default waits 30 for it to appear (docs/design/0019).
    "topic.metadata.propagation.max.ms": 1000,
}

_TRANSACTIONAL: Final[dict[str, Any]] = {
    **_PRODUCER,
    # Small drains leave while the offsets are sent (not so with 5); large ones still form full batches.
    "linger.ms": 1,
    "message.timeout.ms": 3000,  # below the transaction's own time-out, or a missing topic turns fatal (docs/design/0019)
    "transaction.timeout.ms": 10_000,
    # The default waits 100 ms on CONCURRENT_TRANSACTIONS, so back-to-back transactions take 100 ms instead of 4.
    "retry.backoff.ms": 1,
    "retry.backoff.max.ms": 4,
}

_CONSUMER: Final[dict[str, Any]] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 10,  # a seek at the tail costs 382 ms with the default 500 (docs/design/0019)
    "fetch.queue.backoff.ms": 1,  # the default pauses a second whenever the queue was full
    # A topic is known a moment before its partitions can be read: the default asks again after 500 ms.
    "fetch.error.backoff.ms": 20,
    "fetch.message.max.bytes": MAX_MESSAGE_BYTES,
    "fetch.max.bytes": 64 * 1024 * 1024,
}


@dataclass(frozen=True)
class KafkaSettings:
    """An address and the user's own settings; renders the dictionary of each role."""

    bootstrap: str = DEFAULT_BOOTSTRAP
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.bootstrap.strip():
            raise ConfigError("the Kafka address is empty: give bootstrap as host:port")
        for name in self.options:
            if name in _OURS:
                raise ConfigError(
                    f"the Kafka setting {name!r} is railgun's own and cannot be given: leave it out"
                )
        if self.options:
            self._try_out()

    def _try_out(self) -> None:
        """Let librdkafka read the settings, in clients that connect to nothing."""
        for name, value in self.options.items():
            if not _is_known(name):
                raise ConfigError(
                    f"the Kafka setting {name!r} is not known to librdkafka: check its spelling"
                )
            if name.endswith(".location") and value != "probe" and not os.path.exists(str(value)):
                raise ConfigError(f"the Kafka setting {name!r} names a file that does not exist: {value}")
        try:
            Producer({**self.producer(), **_ALONE})
            Consumer({**self.consumer(), **_ALONE}).close()
        except (KafkaException, TypeError, ValueError) as error:
            said = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            raise ConfigError(f"the Kafka settings cannot be used: {self._without_secrets(said)}") from None

    def _without_secrets(self, text: str) -> str:
        text = text.removeprefix("Failed to create producer: ").removeprefix("Failed to create consumer: ")
        for name, value in self.options.items():
            if _is_secret(name) and str(value):
                text = text.replace(str(value), "***")
        return text.strip()

    def __repr__(self) -> str:
        shown = {name: "***" if _is_secret(name) else value for name, value in self.options.items()}
        return f"KafkaSettings(bootstrap={self.bootstrap!r}, options={shown!r})"

    # ------------------------------------------------------------ librdkafka

    def admin(self) -> dict[str, Any]:
        return self._rendered({})

    def producer(self, **overrides: Any) -> dict[str, Any]:
        """An idempotent producer without transactions; keyword names take underscores for dots."""
        return self._rendered({**_PRODUCER, **_dotted(overrides)})

    def transactional_producer(self, transactional_id: str) -> dict[str, Any]:
        """The producer of one shard: the last one that is initialised fences the others."""
        return self._rendered({**_TRANSACTIONAL, "transactional.id": transactional_id})

    def consumer(self, **overrides: Any) -> dict[str, Any]:
        """A reader of committed records that is assigned by hand and never joins a group."""
        return self._rendered({**_CONSUMER, "group.id": UNUSED_GROUP, **_dotted(overrides)})

    def _rendered(self, role: dict[str, Any]) -> dict[str, Any]:
        return {**_COMMON, **role, **self.options, "bootstrap.servers": self.bootstrap}

    # ------------------------------------------------------------ aiokafka, under Faust

    def servers(self) -> list[str]:
        return [server.strip() for server in self.bootstrap.split(",") if server.strip()]

    def aiokafka_auth(self) -> dict[str, Any]:
        """The credentials as keyword arguments of aiokafka's clients. Raises ConfigError for what it cannot do."""
        protocol = str(self.options.get("security.protocol", "plaintext")).upper()
        auth: dict[str, Any] = {"security_protocol": protocol}
        if protocol.startswith("SASL"):
            mechanism = str(self._option("sasl.mechanism", "sasl.mechanisms", default="")).upper()
            if mechanism not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
                raise ConfigError(
                    f"a worker cannot use the SASL mechanism {mechanism or '(none given)'!r}: "
                    "use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
                )
            auth |= {
                "sasl_mechanism": mechanism,
                "sasl_plain_username": self._option("sasl.username"),
                "sasl_plain_password": self._option("sasl.password"),
            }
        if protocol.endswith("SSL"):
            auth["ssl_context"] = self._ssl_context()
        return auth

    def _option(self, *names: str, default: Any = None) -> Any:
        return next((self.options[name] for name in names if name in self.options), default)

    def _ssl_context(self) -> ssl.SSLContext:
        """TLS as librdkafka would do it with the same options."""
        try:
            context = ssl.create_default_context(
                cafile=self._option("ssl.ca.location"), cadata=self._option("ssl.ca.pem")
            )
            certificate = self._option("ssl.certificate.location")
            if certificate is not None:
                context.load_cert_chain(
                    certificate, self._option("ssl.key.location"), self._option("ssl.key.password")
                )
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ConfigError(f"the TLS files given for Kafka cannot be used: {error}") from error
        if str(self._option("ssl.endpoint.identification.algorithm", default="https")).lower() == "none":
            context.check_hostname = False
        if str(self._option("enable.ssl.certificate.verification", default="true")).lower() == "false":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _dotted(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in overrides.items()}


def _is_known(name: str) -> bool:
    """Whether librdkafka has a setting of that name, with whichever values."""
    try:
        Producer({name: None, **_ALONE})
    except KafkaException as error:
        return "No such configuration property" not in error.args[0].str()
    except (TypeError, ValueError):
        return True
    return True


def _is_secret(name: str) -> bool:
    lowered = name.lower()
    return any(word in lowered for word in _SECRET_WORDS) and not lowered.endswith(".location")
