"""A pipeline under chaos: clients take messages from a consumer, publish each to another stream and confirm it."""

from __future__ import annotations

import threading

import railgun
from railgun.errors import RailgunError
from tests.chaos.publisher import subject_of

_FETCHED = 20
_WAIT = 0.5  # seconds for a fetch to fill
_PAUSE = 0.2  # seconds after trouble
_PATIENCE = 5.0  # seconds until a call has failed


class PipelineClient(threading.Thread):
    """Works until :meth:`finish`. What it cannot finish comes again, to it or another: the id of an output keeps it single (EXO-05)."""

    def __init__(self, bootstrap: str, prefix: str, stream: str, consumer: str, output: str) -> None:
        super().__init__(name=f"pipeline-{stream}-{output}", daemon=True)
        self.failure: BaseException | None = None
        self._address = (bootstrap, prefix)
        self._from, self._output = (stream, consumer), output
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
        stream, name = self._from
        try:
            with railgun.connect(bootstrap, prefix=prefix, timeout=_PATIENCE) as rg:
                consumer = rg.stream(stream).consumer(name)
                while not self._ending.is_set():
                    try:
                        self._step(rg, consumer.fetch(_FETCHED, _WAIT))
                    except RailgunError:  # whatever was not confirmed comes again
                        self._ending.wait(_PAUSE)
        except BaseException as error:  # noqa: BLE001 - raised again by finish
            self.failure = error

    def _step(self, rg: railgun.Railgun, messages: list[railgun.Message]) -> None:
        futures = [
            rg.publish_soon(
                subject_of(self._output, message.text),
                message.payload,
                msg_id=f"{message.stream}-{message.sequence}",
            )
            for message in messages
        ]
        for message, future in zip(messages, futures, strict=True):
            future.result(_PATIENCE)
            message.ack_sync()
