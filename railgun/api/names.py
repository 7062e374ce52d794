"""Names of the API: ``STREAM.MSG.GET.ORDERS`` and its kin, taken apart once, and who answers each.

:func:`parse` promises that the stream of a parsed name is not empty where the operation needs one, and that ``rest`` is
there where it needs more. A name that is not here has no handler: the caller is told that no one answers.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

PREFIX = "$JS.API."


class Route(Enum):
    """Whose answer a call needs."""

    REGISTRAR = "registrar"  # partition 0
    OWNER = "owner"  # the partition of the stream
    EVERY = "every"  # each shard answers for its own streams; the client merges
    ANY = "any"  # whichever shard


class Operation(Enum):
    """A call of the API; the value is the name without the stream."""

    INFO = "INFO"
    STREAM_NAMES = "STREAM.NAMES"
    STREAM_LIST = "STREAM.LIST"
    STREAM_CREATE = "STREAM.CREATE"
    STREAM_UPDATE = "STREAM.UPDATE"
    STREAM_DELETE = "STREAM.DELETE"
    STREAM_INFO = "STREAM.INFO"
    STREAM_PURGE = "STREAM.PURGE"
    MSG_GET = "STREAM.MSG.GET"
    MSG_DELETE = "STREAM.MSG.DELETE"
    DIRECT_GET = "DIRECT.GET"
    CONSUMER_CREATE = "CONSUMER.CREATE"
    CONSUMER_DURABLE_CREATE = "CONSUMER.DURABLE.CREATE"
    CONSUMER_INFO = "CONSUMER.INFO"
    CONSUMER_DELETE = "CONSUMER.DELETE"
    CONSUMER_NAMES = "CONSUMER.NAMES"
    CONSUMER_LIST = "CONSUMER.LIST"
    CONSUMER_MSG_NEXT = "CONSUMER.MSG.NEXT"
    ACK = "$JS.ACK"
    FLOW_CONTROL = "$JS.FC"
    PING = "PING"
    CLOCK_ADVANCE = "CLOCK.ADVANCE"

    @property
    def route(self) -> Route:
        return _ROUTES.get(self, Route.OWNER)

    @property
    def needs_stream(self) -> bool:
        return self in _OF_A_STREAM


_ROUTES = {
    Operation.STREAM_NAMES: Route.REGISTRAR,
    Operation.STREAM_CREATE: Route.REGISTRAR,
    Operation.STREAM_UPDATE: Route.REGISTRAR,
    Operation.STREAM_DELETE: Route.REGISTRAR,
    Operation.INFO: Route.EVERY,
    Operation.STREAM_LIST: Route.EVERY,
    Operation.PING: Route.ANY,
    Operation.CLOCK_ADVANCE: Route.ANY,
}
_ALONE = {
    Operation.INFO,
    Operation.STREAM_NAMES,
    Operation.STREAM_LIST,
    Operation.PING,
    Operation.CLOCK_ADVANCE,
}
# What may follow the stream: something of any length, exactly one token, or (not listed) nothing.
_LONGER = {Operation.DIRECT_GET, Operation.CONSUMER_CREATE, Operation.ACK, Operation.FLOW_CONTROL}
_ONE_MORE = {
    Operation.CONSUMER_DURABLE_CREATE,
    Operation.CONSUMER_INFO,
    Operation.CONSUMER_DELETE,
    Operation.CONSUMER_MSG_NEXT,
}
_NEEDS_REST = _ONE_MORE | {Operation.ACK, Operation.FLOW_CONTROL}
_OF_A_STREAM = frozenset(operation for operation in Operation if operation not in _ALONE)
_BY_NAME = {operation.value: operation for operation in _ALONE}
_LONGEST_FIRST = sorted(_OF_A_STREAM, key=lambda operation: -len(operation.value))


class ApiName(NamedTuple):
    """A name taken apart. ``rest`` is what follows the stream: the subject of a short direct get, a consumer."""

    operation: Operation
    stream: str
    rest: str

    @property
    def consumer(self) -> str:
        """The first token behind the stream: the consumer, in names that have one."""
        return self.rest.partition(".")[0]

    @property
    def filter(self) -> str:
        """What follows the consumer: the filter of a CONSUMER.CREATE, the numbers of an acknowledgement."""
        return self.rest.partition(".")[2]

    @property
    def text(self) -> str:
        """The name as requests carry it, without the prefix."""
        return ".".join(part for part in (self.operation.value, self.stream, self.rest) if part)


def parse(name: str) -> ApiName | None:
    """The name taken apart, with or without ``$JS.API.``; None if it is not a name of the API."""
    name = name.removeprefix(PREFIX)
    alone = _BY_NAME.get(name)
    if alone is not None:
        return ApiName(alone, "", "")
    for operation in _LONGEST_FIRST:
        if name.startswith(operation.value + "."):
            stream, dot, rest = name[len(operation.value) + 1 :].partition(".")
            if not stream or bool(dot) != bool(rest) or not _may_follow(operation, rest):
                return None
            return ApiName(operation, stream, rest)
    return None


def _may_follow(operation: Operation, rest: str) -> bool:
    if not rest:
        return operation not in _NEEDS_REST
    return operation in _LONGER or (operation in _ONE_MORE and "." not in rest)
