"""What a client saw, line by line, in a file that outlives it: each line is one write, so a killed client tears none."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol

GOT: Final = "got"  # fetch handed the message over
ACKING: Final = "acking"  # a double ack is about to be sent
CONFIRMED: Final = "confirmed"  # it returned
LOOKED: Final = "looked"  # an info was asked for at that time, and said that so much was delivered


class Entry(NamedTuple):
    """``time`` is the machine's monotonic clock in nanoseconds, the same for all processes."""

    time: int
    what: str
    consumer: str  # stream/consumer
    consumer_sequence: int
    sequence: int = 0
    deliveries: int = 0
    subject: str = "-"
    body: str = "-"


class Delivery(Protocol):
    """What is noted of a message."""

    @property
    def sequence(self) -> int: ...
    @property
    def consumer_sequence(self) -> int: ...
    @property
    def deliveries(self) -> int: ...
    @property
    def subject(self) -> str: ...
    @property
    def text(self) -> str: ...


class Journal:
    """Appends to one file, from several threads. What was confirmed is on the disk before the caller goes on."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock = threading.Lock()

    def note(self, what: str, consumer: str, message: Delivery) -> None:
        place = (message.consumer_sequence, message.sequence, message.deliveries)
        self._write(Entry(time.monotonic_ns(), what, consumer, *place, message.subject, message.text))
        if what == CONFIRMED:
            os.fsync(self._file)

    def looked(self, asked: int, consumer: str, delivered: int) -> None:
        """An info that was asked for at ``asked`` said that so many deliveries were made."""
        self._write(Entry(asked, LOOKED, consumer, delivered))

    def _write(self, entry: Entry) -> None:
        with self._lock:
            os.write(self._file, (" ".join(map(str, entry)) + "\n").encode())


def read(paths: Iterable[Path]) -> list[Entry]:
    """All entries of these journals, in the order of time."""
    return sorted(entry for path in paths if path.exists() for entry in _entries(path))


def _entries(path: Path) -> Iterator[Entry]:
    for line in path.read_text(encoding="utf-8").splitlines():
        at, what, consumer, consumer_sequence, sequence, deliveries, subject, body = line.split(" ")
        yield Entry(
            int(at), what, consumer, int(consumer_sequence), int(sequence), int(deliveries), subject, body
        )
