"""Dead letters: how they are found in their stream, sent back to where they came from, and dropped.

A letter goes back under an id of its own (the dead-letter stream, when that was made, the sequence) and is removed from
the dead-letter stream only after its publish is confirmed. A run that was interrupted in between can be repeated: by the id
the stream that a letter went to takes it once, as long as its duplicate window is not over.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from railgun.errors import (
    ConnectionClosed,
    ConnectionLost,
    MessageNotFound,
    NotAuthorized,
    NoWorker,
    RailgunError,
    RequestTimeout,
    StreamNotFound,
)
from railgun.model import headers as h
from railgun.model import subjects
from railgun.model.messages import PubAck, StoredMessage, StreamInfo

if TYPE_CHECKING:
    from railgun.client.facade.railgun import Railgun

_AT_ONCE: Final = 16  # requests in flight: they share the drains of one shard
_WINDOW: Final = (
    100  # letters between two rounds of removals, and so what an interruption can leave to do again
)
# Conditions and commands of the first publish: it was decided then, and must not be decided by them again.
_SPENT: Final = ("Railgun-", "Nats-Expected-", "Nats-Batch-")
_SPENT_NAMES: Final = (h.MSG_ID, h.ROLLUP)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message of a dead-letter stream."""

    message: StoredMessage

    @property
    def sequence(self) -> int:
        return self.message.sequence

    @property
    def stream(self) -> str:
        """The stream that the letter came from."""
        return self.origin("Stream")

    @property
    def consumer(self) -> str:
        """The consumer that gave the message up."""
        return self.origin("Consumer")

    def origin(self, field: str) -> str:
        """``Sequence``, ``Deliveries``, ``Reason``, ``Time`` …; empty if it was not noted."""
        return (h.first(self.message.headers, h.ORIGIN + field) or b"").decode("utf-8", "replace")

    def own_headers(self) -> list[tuple[str, bytes]]:
        """The headers that it had as an ordinary message, without those that were conditions of its publish."""
        return [
            (name, value)
            for name, value in self.message.headers
            if not name.startswith(_SPENT) and name not in _SPENT_NAMES
        ]

    def as_object(self) -> dict[str, Any]:
        """The letter's origin and reason, for machines."""
        return {
            "seq": self.sequence,
            "subject": self.message.subject,
            "origin": {
                "stream": self.stream,
                "seq": _number(self.origin("Sequence")),
                "consumer": self.consumer,
                "deliveries": _number(self.origin("Deliveries")),
                "reason": self.origin("Reason"),
                "time": self.origin("Time"),
            },
        }


def _number(text: str) -> int:
    """The number in a header; 0 if the header holds something else."""
    return int(text) if text.isdecimal() and len(text) < 20 else 0


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of letters; a field that is None does not restrict the choice."""

    sequences: list[int] | None = None
    origin: str | None = None
    consumer: str | None = None
    subject: str | None = None

    def takes(self, letter: DeadLetter) -> bool:
        return (
            (self.origin is None or letter.stream == self.origin)
            and (self.consumer is None or letter.consumer == self.consumer)
            and (self.subject is None or subjects.matches(self.subject, letter.message.subject))
        )


@dataclass
class Outcome:
    """The result of sending letters back or dropping them."""

    done: list[int] = field(default_factory=list)
    before: int = 0  # of those: already sent back by a run that was interrupted
    failed: dict[int, str] = field(default_factory=dict)


class DeadLetters:
    """The letters of one stream. Raises StreamNotFound at its making."""

    def __init__(self, rg: Railgun, stream: str) -> None:
        self._rg = rg
        self._stream = rg.stream(stream)
        self._info: StreamInfo = self._stream.info(deleted=True)
        self._silent: dict[str, bool] = {}  # streams, and whether they answer no publisher

    @property
    def messages(self) -> int:
        """The number of messages, which may include some that are not dead letters."""
        return self._info.state.messages

    def get(self, sequence: int) -> DeadLetter | None:
        """The letter of that sequence; None if there is no such message, or if it is not a dead letter."""
        try:
            letter = DeadLetter(self._stream.get(sequence))
        except MessageNotFound:
            return None
        return letter if letter.stream else None

    def find(self, choice: Choice) -> Iterator[DeadLetter]:
        """The letters that are meant, in order, as they were when this was made."""
        wanted = iter(self._sequences() if choice.sequences is None else sorted(set(choice.sequences)))
        with ThreadPoolExecutor(_AT_ONCE, "railgun-dead-letters") as pool:
            while batch := list(itertools.islice(wanted, _WINDOW)):
                for letter in pool.map(self.get, batch):
                    if letter is not None and choice.takes(letter):
                        yield letter

    def _sequences(self) -> Iterator[int]:
        state = self._info.state
        gaps = set(state.deleted or ())
        if state.messages:
            yield from (n for n in range(state.first_seq, state.last_seq + 1) if n not in gaps)

    def redrive(self, letters: Iterable[DeadLetter], step: Callable[[int], None]) -> Outcome:
        """Publish each on its own subject again and remove it here. Raises what makes going on senseless."""
        outcome = Outcome()
        remaining = iter(letters)
        while window := list(itertools.islice(remaining, _WINDOW)):
            stored = self._publish(window, outcome)
            self._remove(stored)
            outcome.done += stored
            step(len(window))
        return outcome

    def drop(self, letters: Iterable[DeadLetter], step: Callable[[int], None]) -> Outcome:
        """Remove them for good."""
        outcome = Outcome()
        remaining = (letter.sequence for letter in letters)
        while window := list(itertools.islice(remaining, _WINDOW)):
            self._remove(window)
            outcome.done += window
            step(len(window))
        return outcome

    def _publish(self, window: list[DeadLetter], outcome: Outcome) -> list[int]:
        sent: list[tuple[int, Callable[[], PubAck]]] = []
        for letter in window:
            target = self._rg.connection.captured_by(letter.message.subject) or letter.stream
            if self._unconfirmed(target):
                outcome.failed[letter.sequence] = (
                    f"stream {target} does not answer publishers (no_ack), so it cannot be known whether the letter went back"
                )
                continue
            try:
                future = self._rg.publish_soon(
                    letter.message.subject,
                    letter.message.payload,
                    headers=letter.own_headers() or None,
                    msg_id=self._id(letter),
                )
            except RailgunError as error:
                self._failed(letter.sequence, error, outcome)
            else:
                sent.append((letter.sequence, future.result))
        stored = []
        for sequence, result in sent:
            try:
                ack = result()
            except RailgunError as error:
                self._failed(sequence, error, outcome)
            else:
                stored.append(sequence)
                outcome.before += ack.duplicate
        return stored

    def _unconfirmed(self, stream: str) -> bool:
        if stream not in self._silent:
            try:
                self._silent[stream] = self._rg.stream(stream).info().config.no_ack
            except StreamNotFound:
                self._silent[stream] = (
                    False  # another may capture the subject by now; if none does, that is said
                )
        return self._silent[stream]

    def _failed(self, sequence: int, error: RailgunError, outcome: Outcome) -> None:
        if isinstance(
            error, RequestTimeout | ConnectionLost | ConnectionClosed | NoWorker | NotAuthorized
        ):  # what is true of this letter is true of the next
            raise error
        outcome.failed[sequence] = str(error)

    def _id(self, letter: DeadLetter) -> str:
        return f"redrive {self._stream.name} {self._info.created} {letter.sequence}"

    def _remove(self, sequences: list[int]) -> None:
        with ThreadPoolExecutor(_AT_ONCE, "railgun-dead-letters") as pool:
            list(pool.map(self._remove_one, sequences))

    def _remove_one(self, sequence: int) -> None:
        with contextlib.suppress(MessageNotFound):  # another process was faster
            self._stream.delete_message(sequence)


def dead_letter_streams(rg: Railgun) -> dict[str, list[str]]:
    """The streams that consumers name for their dead letters, and who names them."""
    found: dict[str, list[str]] = {}
    for info in rg.streams():
        if not info.state.consumer_count:
            continue
        for consumer in rg.stream(info.config.name).consumers():
            if consumer.config.dead_letter:
                found.setdefault(consumer.config.dead_letter, []).append(
                    f"{info.config.name} > {consumer.name}"
                )
    return dict(sorted(found.items()))
