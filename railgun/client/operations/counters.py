"""Counters: where the total of a subject is found, and how its increments are read."""

from __future__ import annotations

from railgun.client.connection.connection import Connection
from railgun.client.operations import flows, reading, streams
from railgun.client.steps import Blocking, Steps
from railgun.errors import ConfigError, CounterRefused, MessageNotFound
from railgun.model import headers as h
from railgun.model.counters import LEAST, MOST, Increment
from railgun.model.headers import HeaderList
from railgun.model.messages import StoredMessage
from railgun.model.refusals import COUNTER_BROKEN
from railgun.model.transforms import Transform
from railgun.protocol.columnar.read_records import LAST


def increment_headers(number: object) -> HeaderList:
    """The headers of an increment. Raises ConfigError for what is not a number of 64 bits (CTR-07)."""
    if not isinstance(number, int) or isinstance(number, bool) or not LEAST <= number <= MOST:
        raise ConfigError(f"{number!r} is not a valid increment: give an int between -2**63 and 2**63 - 1")
    return [(h.INCREMENT, b"%+d" % number)]


def place_of(connection: Connection, subject: str, timeout: float) -> Steps[tuple[str, str]]:
    """The stream of a counter, and the subject that it is stored under. Raises NoStreamResponse, ConfigError, NoWorker."""
    lane = yield Blocking(lambda: connection.routing.route(subject, timeout))
    info = yield from flows.call(connection, streams.stream_info(lane.stream), timeout)
    change = info.config.subject_transform
    stored = None if change is None else Transform(change).apply(subject)  # CTR-29
    return lane.stream, stored or subject


def newest(connection: Connection, stream: str, subject: str) -> Steps[Increment | None]:
    """The newest increment of a subject; None if it has no message. Raises CounterRefused if it is not a counter."""
    try:
        message = yield from reading.get(connection, stream, LAST, subject=subject)
    except MessageNotFound:
        return None
    return increment_of(message, stream)


def increment_of(message: StoredMessage, stream: str) -> Increment:
    """The increment that a message is. Raises CounterRefused if it is not one (CTR-11)."""
    found = Increment.of(message.sequence, message)
    if found is None:
        raise CounterRefused(*COUNTER_BROKEN, stream=stream)
    return found
