"""Sends commands to Kafka with an idempotent producer, and with a new one when librdkafka gives the old one up.

A fatal error (idempotence can no longer be guaranteed) ends a librdkafka producer for ever, but not what it was used for. What it had
not sent yet was not stored; of what was on its way nobody knows. Both are told so, and everything later goes to a new producer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from railgun.client.transport import Delivered
from railgun.errors import ConnectionLost, MessageTooLarge, RailgunError
from railgun.kafka.trouble import Troubles, in_words
from railgun.model import headers as h

logger = logging.getLogger(__name__)

_POLL: Final = 0.2  # seconds
_LAST_WORDS: Final = 1.0  # seconds for the reports of a producer that was given up
_PAUSE: Final = 1.0  # seconds between two new producers

ErrorCallback = Callable[[KafkaError], None]
MakeProducer = Callable[[ErrorCallback], Producer]


class _Line:
    """One producer, and what ended it."""

    def __init__(self, make: MakeProducer, troubles: Troubles) -> None:
        self._troubles = troubles
        self.fault: KafkaError | None = None
        self.made = time.monotonic()
        self.producer: Any = make(self._told)

    def _told(self, error: KafkaError) -> None:
        if error.fatal():
            self.fault = error
        else:
            self._troubles.told(error)


class KafkaSender:
    """The sending side of a connection. Thread-safe; reports come from its own thread, or from one that waits for room."""

    def __init__(
        self,
        make: MakeProducer,
        topic: str,
        troubles: Troubles,
        failed: Callable[[RailgunError], None],
    ) -> None:
        self._make = make
        self._topic = topic
        self._troubles = troubles
        self._failed = failed
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._line = _Line(make, troubles)
        self._given_up: list[_Line] = []  # whose last reports are still to come
        self._thread = threading.Thread(target=self._run, name="railgun-producer", daemon=True)
        self._thread.start()

    def send(self, partition: int, key: bytes, kind: bytes, value: bytes, delivered: Delivered) -> None:
        """Hand one command over; its report comes later. Raises RailgunError if it was not taken."""
        report = _delivery_report(delivered, self._troubles)
        headers = [(h.COMMAND_KIND, kind)]
        while True:
            line = self._line
            try:
                line.producer.produce(self._topic, value, key, partition, on_delivery=report, headers=headers)
                return
            except BufferError:  # the local queue is full: give it time to drain
                if self._stopped.is_set():
                    raise ConnectionLost(
                        "the transport was closed before the command could be sent"
                    ) from None
                line.producer.poll(0.05)
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if not _is_fatal(reason) or time.monotonic() - line.made < _PAUSE:
                    raise in_words(error, "sending a command") from error
                line.fault = reason
                self._replace(line)  # it was not taken: the new producer may have it

    def flush(self, timeout: float) -> bool:
        """Whether the broker has all that was sent within the time."""
        return bool(self._line.producer.flush(timeout) == 0)

    def close(self) -> None:
        """End the thread."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join(5.0)

    # -- the thread

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                line = self._line
                line.producer.poll(_POLL)
                if line.fault is not None and time.monotonic() - line.made >= _PAUSE:
                    self._replace(line)
                self._bury()
        except Exception as error:
            logger.exception("the producer's thread ended")
            self._failed(RailgunError(f"the producer's thread ended: {error!r}"))

    def _replace(self, broken: _Line) -> None:
        """Go on with a new producer, unless another thread has seen to it. Raises what keeps it from being made."""
        with self._lock:
            if self._line is not broken:
                return
            assert broken.fault is not None
            logger.error(
                "the producer of commands cannot go on, and a new one takes its place: %s",
                broken.fault.str(),
            )
            try:
                self._line = _Line(self._make, self._troubles)
            except KafkaException as error:
                raise in_words(error, "making a new producer") from error
            self._given_up.append(broken)

    def _bury(self) -> None:
        """Let producers that were given up say what became of their commands."""
        while self._given_up:
            line = self._given_up.pop()
            line.producer.purge()
            if line.producer.flush(_LAST_WORDS):
                logger.error("a producer that was given up has not said what became of its last commands")


def _is_fatal(error: KafkaError) -> bool:
    return bool(error.fatal()) or error.code() == KafkaError._FATAL


def _delivery_report(
    delivered: Delivered, troubles: Troubles
) -> Callable[[KafkaError | None, Message], None]:
    def report(error: KafkaError | None, _message: Message) -> None:
        if error is None:
            troubles.worked()
            delivered(None)
        else:
            delivered(_in_words(error, troubles))

    return report


def _in_words(error: KafkaError, troubles: Troubles) -> RailgunError:
    """Why a command was not stored, or may not have been."""
    code = error.code()
    if code == KafkaError._PURGE_QUEUE:
        return ConnectionLost("the producer failed before the command was sent: it is not stored")
    if code == KafkaError._PURGE_INFLIGHT or _is_fatal(error):
        return ConnectionLost(
            f"the producer failed while the command was on its way, its outcome is unknown: {error.str()}"
        )
    reason = in_words(error, "storing the command")
    if not isinstance(reason, MessageTooLarge) and code == KafkaError._MSG_TIMED_OUT:
        return troubles.now() or ConnectionLost(
            "no broker confirmed the command in time: its outcome is unknown"
        )
    return reason
