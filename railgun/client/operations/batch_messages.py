"""A batch as its publisher collects it, and its commit as steps: all messages are stored, or none is.

The messages travel in packs, with the headers of the batch protocol. One pack holds the whole batch, unless it is larger than a
pack may be: then the owner stages the first ones, which nobody sees, until the last one commits them.
"""

from __future__ import annotations

import threading
import time
import uuid
from typing import Final

from railgun.client.connection.connection import Connection
from railgun.client.publishing.arguments import Event, MessageOptions, message_headers, outgoing
from railgun.client.publishing.batch_columns import BatchColumns
from railgun.client.publishing.packs import Lane, Pack
from railgun.client.steps import Blocking, Steps, Turn, Until, waitable
from railgun.errors import ConfigError, RequestTimeout
from railgun.model import headers as h
from railgun.model.messages import PubAck

_OF_THE_PROTOCOL: Final = frozenset({h.BATCH_ID, h.BATCH_SEQUENCE, h.BATCH_COMMIT})

_WORTH_A_RECORD: Final = 800  # messages: a worker decides them while the client makes the next ones
_UNANSWERED: Final = 4  # packs of a batch on their way: a batch that is refused is not sent to its end


class BatchMessages:
    """The messages of one batch, until it is committed or given up. Several threads may add to it."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        """Raises ConfigError for a time that nobody can wait."""
        self._connection = connection
        self._timeout = waitable(timeout)
        self._lock = threading.Lock()
        self._state = "new"
        self.id = uuid.uuid4().hex
        self._messages = BatchColumns(self.id)

    def __len__(self) -> int:
        return len(self._messages.payloads)

    def open(self) -> None:
        """Begin to collect. Raises ConfigError the second time."""
        if self._state != "new":
            raise ConfigError("this batch was used before: begin another with batch()")
        self._state = "open"

    def add(self, subject: str, payload: Event, msg_id: str | None, options: MessageOptions) -> None:
        """One more message. Raises ConfigError for what no batch takes, MessageTooLarge."""
        if msg_id is not None:
            raise ConfigError("a message of a batch takes no msg_id: batches are not de-duplicated")
        headers = message_headers(options) if options else None
        if headers and any(name in _OF_THE_PROTOCOL for name, _ in headers):
            raise ConfigError("the headers Nats-Batch-… of a message are set by its batch")
        data, headers = outgoing(self._connection.events, payload, headers)
        with self._lock:  # the place of a message is drawn and taken at once
            if self._state != "open":
                raise ConfigError(
                    "messages are added inside the block of the batch: with rg.batch() as batch: …"
                )
            self._messages.add(subject, data, headers)

    def give_up(self) -> None:
        """Nothing of it was sent, and nothing will be."""
        with self._lock:
            self._state, self._messages = "over", BatchColumns(self.id)

    def commit(self) -> Steps[PubAck | None]:
        """Send the batch: its ack. None for an empty one, and where the stream answers nothing (PUB-03).

        Raises the refusal of the batch, ConfigError if its subjects belong to several streams, and what a publish raises.
        """
        with self._lock:
            messages, self._messages, self._state = self._messages, BatchColumns(self.id), "over"
        if not messages.payloads:
            return None
        self._connection.packer.check()
        if messages.unframed:
            yield Blocking(lambda: messages.finish(self._connection.events))
        lane = yield from self._lane(dict.fromkeys(messages.subjects))
        messages.end()
        packs, last = yield from self._send(lane, messages)
        bounded = self._timeout >= self._connection.timeout and not self._connection.packer.is_full
        if not last.done and not (yield Until(last, self._timeout, bounded)):
            raise last.overdue(self._timeout)
        _raise_first(packs)
        return None if last.silent else last.outcome(len(last.subjects) - 1)

    def _send(self, lane: Lane, messages: BatchColumns) -> Steps[tuple[list[Pack], Pack]]:
        """Hand the packs of the batch over; all of them, and the last. Raises what one was refused with before it left.

        Without its last message a batch is not stored.
        """
        packs = messages.packs(lane, self._timeout)
        deadline = time.monotonic() + self._timeout
        for number, pack in enumerate(packs):
            if number >= _UNANSWERED:
                before = packs[number - _UNANSWERED]
                left = max(0.0, deadline - time.monotonic())
                if not before.done and not (yield Until(before, left)):
                    raise RequestTimeout(
                        f"no answer within {self._timeout:g} s; the batch is not stored, its end was not sent"
                    )
                _raise_first(packs[:number])
            waiting = self._connection.packer.adopt(lane, pack, queue=False)
            try:
                if len(packs) == 1 and waiting < _WORTH_A_RECORD:
                    yield Turn()  # what other tasks commit now travels with it
            finally:  # a task that is cancelled meanwhile leaves nothing behind in the lane
                self._connection.packer.pump(lane)
        return packs, packs[-1]

    def _lane(self, subjects: dict[str, None]) -> Steps[Lane]:
        """The lane of the one stream that captures all subjects."""
        routing = self._connection.routing
        found: dict[str, Lane] = {}
        for subject in subjects:
            lane = routing.routes.get(subject)
            if lane is None:
                lane = yield Blocking(lambda subject=subject: routing.route(subject, self._timeout))  # type: ignore[misc]
            assert lane is not None
            found[lane.stream] = lane
        if len(found) > 1:  # BAT-15
            raise ConfigError(
                f"the subjects of a batch belong to one stream, and these to {' and '.join(sorted(found))}: "
                "nothing was sent"
            )
        if routing.stale:
            yield Blocking(routing.require_worker)
        return next(iter(found.values()))


def _raise_first(packs: list[Pack]) -> None:
    """What was refused first says why; the others only that the batch was gone by then."""
    for pack in packs:
        failure = pack.failure() if pack.done else None
        if failure is not None:
            raise failure
