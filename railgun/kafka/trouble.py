"""Kafka's errors in words. librdkafka retries most of them for ever in silence; a user wants to hear of them in seconds."""

from __future__ import annotations

import logging
import time

from confluent_kafka import KafkaError, KafkaException

from railgun.errors import ConnectionLost, MessageTooLarge, NotAuthorized, RailgunError

logger = logging.getLogger(__name__)

librdkafka = logging.getLogger("railgun.kafka.librdkafka")
# It logs every attempt to connect as an error; what matters comes through error_cb and is said by us.
librdkafka.addFilter(lambda record: librdkafka.isEnabledFor(logging.DEBUG))

_CREDENTIALS = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
_PERMISSION = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_UNREACHABLE = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._SSL})


def in_words(error: KafkaError | KafkaException, doing: str) -> RailgunError:
    """The error as one of ours: no permission, too large, or no answer."""
    reason: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    code = reason.code()
    if code in _CREDENTIALS:
        return NotAuthorized(f"Kafka refused the credentials: {reason.str()}")
    if code in _PERMISSION:
        return NotAuthorized(f"Kafka refused the permission while {doing}: {reason.str()}")
    if code == KafkaError.MSG_SIZE_TOO_LARGE:
        return MessageTooLarge(f"the record does not fit into the topic: {reason.str()}")
    return ConnectionLost(f"Kafka failed while {doing}: {reason.str()}")


class Troubles:
    """What librdkafka's ``error_cb`` told, until something works again."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._refused: NotAuthorized | None = None
        self._unreachable = ""
        self._reason = ""
        self._since = 0.0

    def told(self, error: KafkaError) -> None:
        """The callback; it runs in whichever thread polls."""
        code = error.code()
        if code in _CREDENTIALS:
            self._refused = NotAuthorized(
                f"Kafka at {self._bootstrap} refused the credentials: {error.str()}"
            )
        elif code in _UNREACHABLE:
            if not self._unreachable:
                self._since = time.monotonic()
            # that all brokers are down is told last, and says less than why one of them is
            self._unreachable = self._reason or error.str()
        elif code == KafkaError._TRANSPORT:
            self._reason = error.str()
        else:
            logger.info("kafka: %s", error.str())

    def worked(self) -> None:
        """Something came through: whatever was told before is over."""
        if self._unreachable or self._reason or self._refused is not None:
            self._unreachable = self._reason = ""
            self._refused = None

    def now(self) -> RailgunError | None:
        """What keeps the broker from answering just now."""
        if self._refused is not None:
            return self._refused
        if self._unreachable:
            return ConnectionLost(f"no broker answers at {self._bootstrap}: {self._unreachable}")
        return None

    def lasting(self, seconds: float) -> RailgunError | None:
        """The same, once it has lasted: a broker that restarts is not worth an error. Refusals count at once."""
        if self._refused is None and (not self._unreachable or time.monotonic() - self._since < seconds):
            return None
        return self.now()
