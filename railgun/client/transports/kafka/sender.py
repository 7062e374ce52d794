"""Sends commands to Kafka with an idempotent producer, and with a new one when librdkafka gives the old one up.

A fatal error (idempotence can no longer be guaranteed) ends a librdkafka producer for ever, but not what it was used for. What it had
not sent yet was not stored; what was on its way may be stored. Both end with an error that says so, and everything later goes to a new producer. A
missing permission is fatal, too, and ends the connection: a new producer would not have it either.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from railgun.client.transport import Delivered
from railgun.errors import ConnectionLost, MessageTooLarge, NotAuthorized, RailgunError
from railgun.kafka.trouble import Troubles, in_words
from railgun.model import headers as h

logger = logging.getLogger(__name__)

_POLL: Final = 0.05  # seconds: the longest that closing takes
_LAST_WORDS: Final = 1.0  # seconds for the reports of a producer that was given up
_PAUSE: Final = 1.0  # seconds between two new producers

ErrorCallback = Callable[[KafkaError], None]
MakeProducer = Callable[[ErrorCallback], Producer]


class _Line:
    """One producer, and what ended it. confluent-kafka tells no callback of a fatal error: it raises it from each call."""

    def __init__(self, producer: Producer) -> None:
        self.producer: Any = producer
        self.fault: KafkaError | None = None
        self.made = time.monotonic()

    def poll(self, seconds: float) -> None:
        """Serve callbacks. Raises what is not fatal."""
        try:
            self.producer.poll(seconds)
        except KafkaException as error:
            self.note(error)

    def flush(self, seconds: float) -> bool:
        """Whether nothing was left within the time, or when it was found to have failed. Raises what is not fatal."""
        try:
            return bool(self.producer.flush(seconds) == 0)
        except KafkaException as error:
            self.note(error)
            return False

    def note(self, error: KafkaException) -> None:
        """Keep a fatal error; raise any other."""
        reason: KafkaError = error.args[0]
        if not _is_fatal(reason):
            raise error
        if self.fault is None or self.fault.code() == KafkaError._FATAL:  # which says no more than that
            self.fault = reason


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
        self._line = self._new_line()
        self._given_up: list[_Line] = []  # whose last reports are still to come
        self._thread = threading.Thread(target=self._run, name="railgun-producer", daemon=True)
        self._thread.start()

    def send(self, partition: int, key: bytes, kind: str, value: bytes, delivered: Delivered) -> None:
        """Hand one command over; its report comes later. Raises RailgunError if it was not taken."""
        report = _delivery_report(delivered, self._troubles)
        headers = [(h.COMMAND_KIND, kind.encode("ascii"))]
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
                line.poll(0.05)
            except KafkaException as error:
                if not _is_fatal(error.args[0]):
                    raise in_words(error, "sending a command") from error
                line.note(error)
                if not self._replace(line):  # else the new producer may have what this one did not take
                    raise in_words(line.fault or error, "sending a command") from error

    def flush(self, timeout: float) -> bool:
        """Whether the broker has all that was sent within the time."""
        return self._line.flush(timeout)

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
                line.poll(_POLL)
                if line.fault is not None and not self._replace(line):
                    self._stopped.wait(_POLL)  # its calls do not wait any more
                self._bury()
        except RailgunError as error:
            self._failed(error)
        except Exception as error:
            logger.exception("the producer's thread ended")
            self._failed(RailgunError(f"the producer's thread ended: {error!r}"))

    def _new_line(self) -> _Line:
        return _Line(self._make(self._troubles.told))

    def _replace(self, broken: _Line) -> bool:
        """Go on with a new producer, unless another thread has seen to it; False where the last one is too young.

        Raises what a new one does not mend, or what keeps it from being made.
        """
        with self._lock:
            if self._line is not broken:
                return True
            assert broken.fault is not None
            reason = in_words(broken.fault, "sending commands")
            if isinstance(reason, NotAuthorized):
                raise reason
            if time.monotonic() - broken.made < _PAUSE:
                return False
            logger.error("the producer of commands cannot go on, a new one takes its place: %s", reason)
            try:
                self._line = self._new_line()
            except KafkaException as error:
                raise in_words(error, "making a new producer") from error
            self._given_up.append(broken)
            return True

    def _bury(self) -> None:
        """Let producers that were given up say what became of their commands."""
        while self._given_up:
            line = self._given_up.pop()
            line.producer.purge()
            deadline = time.monotonic() + _LAST_WORDS
            while not line.flush(_POLL):
                if time.monotonic() > deadline:
                    logger.error(
                        "a producer that was given up did not report what became of its last commands"
                    )
                    break


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
