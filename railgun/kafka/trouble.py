"""Kafka's errors in words. librdkafka retries most of them for ever in silence; a user needs to see them within seconds."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from railgun.errors import ConnectionLost, MessageTooLarge, NotAuthorized, RailgunError
from railgun.kafka.settings import KafkaSettings

logger = logging.getLogger(__name__)

librdkafka = logging.getLogger("railgun.kafka.librdkafka")
# librdkafka logs every attempt to connect as an error; what matters comes through error_cb and is reported by railgun.
librdkafka.addFilter(lambda record: librdkafka.isEnabledFor(logging.DEBUG))

_CREDENTIALS = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
PERMISSION = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_DISTRUSTED = "certificate verify failed"  # OpenSSL's words, on our side of the connection
_CERTIFICATE_REFUSED = re.compile(
    r"alert (?:[a-z]+ )*(?:certificate|unknown ca)"
)  # and the alert that the broker sent
_UNREACHABLE = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._SSL})


def in_words(error: KafkaError | KafkaException, doing: str) -> RailgunError:
    """Kafka's error as one of railgun's: no permission, too large, or no answer."""
    reason: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    code = reason.code()
    if code in _CREDENTIALS:
        return NotAuthorized(f"Kafka refused the credentials: {reason.str()}")
    if code in PERMISSION:
        return NotAuthorized(f"Kafka refused the permission while {doing}: {reason.str()}")
    if code == KafkaError.MSG_SIZE_TOO_LARGE:
        return MessageTooLarge(f"the record does not fit into the topic: {reason.str()}")
    return ConnectionLost(f"Kafka failed while {doing}: {reason.str()}")


def reach(kafka: KafkaSettings, seconds: float) -> None:
    """Return when a broker answers. Raises NotAuthorized or ConnectionLost when waiting will not help soon."""
    troubles = Troubles(kafka.bootstrap)
    callback: dict[str, Any] = {"error_cb": troubles.told}
    admin = AdminClient({**kafka.admin(), **callback}, logger=librdkafka)
    deadline = time.monotonic() + seconds
    while True:
        try:
            admin.list_topics(timeout=0.5)
        except KafkaException as error:
            admin.poll(0)  # lets the callback run
            reason = troubles.lasting(seconds)
            if reason is None and time.monotonic() > deadline:
                reason = troubles.now() or in_words(error, f"connecting to {kafka.bootstrap}")
            if reason is not None:
                raise reason from None
        else:
            return


class Troubles:
    """The errors that librdkafka's ``error_cb`` reported, until something works again."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._refused: RailgunError | None = None  # by either side: waiting does not help
        self._unreachable = ""
        self._reason = ""
        self._since = 0.0

    def told(self, error: KafkaError) -> None:
        """The callback; it runs in the thread that polls."""
        code, text = error.code(), error.str()
        if code in _CREDENTIALS:
            self._refused = NotAuthorized(f"Kafka at {self._bootstrap} refused the credentials: {text}")
        elif _DISTRUSTED in text:
            self._refused = ConnectionLost(
                f"the certificate of Kafka at {self._bootstrap} is not trusted: "
                f"name the authority that signed it in ssl.ca.location ({text})"
            )
        elif _CERTIFICATE_REFUSED.search(text):
            self._refused = NotAuthorized(
                f"Kafka at {self._bootstrap} refused the certificate of this client, or wants one: "
                f"check ssl.certificate.location and ssl.key.location ({text})"
            )
        elif code in _UNREACHABLE:
            if not self._unreachable:
                self._since = time.monotonic()
            # librdkafka reports last that all brokers are down, which says less than the reason why one of them is
            self._unreachable = self._reason or f"{text}; if one runs there, check security.protocol"
        elif code == KafkaError._TRANSPORT:
            self._reason = text
        else:
            logger.info("kafka: %s", text)

    def worked(self) -> None:
        """A request succeeded: the errors that were reported before are over."""
        if self._unreachable or self._reason or self._refused is not None:
            self._unreachable = self._reason = ""
            self._refused = None

    def now(self) -> RailgunError | None:
        """The error that keeps the broker from answering just now."""
        if self._refused is not None:
            return self._refused
        if self._unreachable:
            return ConnectionLost(f"no broker answers at {self._bootstrap}: {self._unreachable}")
        return None

    def lasting(self, seconds: float) -> RailgunError | None:
        """The error of :meth:`now`, once it has lasted: a broker that restarts is not worth one. Refusals count at once."""
        if self._refused is None and (not self._unreachable or time.monotonic() - self._since < seconds):
            return None
        return self.now()
