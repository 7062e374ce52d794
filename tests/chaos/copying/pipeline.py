"""Pipelines under chaos: clients take messages from a consumer, publish each to another stream and are done with it."""

from __future__ import annotations

import threading
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor

import railgun
from railgun.errors import NotPending, RailgunError
from tests.chaos.publisher import subject_of

_FETCHED = 20  # messages that are worked on together
_WAIT = 0.5  # seconds for a fetch to fill
_PAUSE = 0.2  # seconds after trouble
_PATIENCE = 5.0  # seconds until a call has failed


class PipelineClient(threading.Thread):
    """Works until :meth:`finish`. What it cannot finish comes again, to it or to another."""

    def __init__(self, bootstrap: str, prefix: str, stream: str, consumer: str, output: str) -> None:
        super().__init__(name=f"pipeline-{consumer}", daemon=True)
        self.failure: BaseException | None = None
        self._address = (bootstrap, prefix)
        self._stream, self._consumer, self._output = stream, consumer, output
        self._ending = threading.Event()

    def finish(self, timeout: float) -> None:
        """Stop after what is begun. Raises what made it fail."""
        self._ending.set()
        self.join(timeout)
        if self.failure is not None:
            raise self.failure
        assert not self.is_alive(), f"{self.name} did not end within {timeout:.0f} s"

    def run(self) -> None:
        bootstrap, prefix = self._address
        try:
            with (
                railgun.connect(bootstrap, prefix=prefix, timeout=_PATIENCE) as rg,
                ThreadPoolExecutor(_FETCHED) as pool,
            ):
                consumer = rg.stream(self._stream).consumer(self._consumer)
                while not self._ending.is_set():
                    try:
                        messages = consumer.fetch(_FETCHED, _WAIT)
                        list(pool.map(lambda message: self._step(rg, message), messages))
                    except RailgunError:  # whatever was not finished comes again
                        self._ending.wait(_PAUSE)
        except BaseException as error:  # noqa: BLE001 - raised again by finish
            self.failure = error

    @abstractmethod
    def _step(self, rg: railgun.Railgun, message: railgun.Message) -> None:
        """Work on one message."""


class PublishAndConfirm(PipelineClient):
    """A publish with an id, then a double ack: a message that comes again is a duplicate in the output (EXO-05)."""

    def _step(self, rg: railgun.Railgun, message: railgun.Message) -> None:
        identity = f"{message.stream}-{message.sequence}"
        rg.publish(subject_of(self._output, message.text), message.payload, msg_id=identity)
        message.ack_sync()


class HandOver(PipelineClient):
    """The publish and the ack in one transaction: the output needs no ids (EXO-08)."""

    def _step(self, rg: railgun.Railgun, message: railgun.Message) -> None:
        try:
            with message.transaction() as transaction:
                transaction.publish(subject_of(self._output, message.text), message.payload)
        except NotPending:
            return  # done before, or another delivery's by now
