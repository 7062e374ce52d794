"""The operations on single shards: a ping, and the test clock."""

from __future__ import annotations

from typing import NamedTuple

from railgun.api.names import ApiName, Operation
from railgun.client.operations.call import Call, json_body, parse_object
from railgun.model.messages import Reply


class Pong(NamedTuple):
    """When the broker received a ping, what its owner's clock showed when it was answered (ns), and what it cannot serve.

    ``moment`` is the time that messages are stored and expire by.
    """

    received: int
    now: int
    unreadable: dict[str, str] = {}  # noqa: RUF012 - never changed; what is set aside: why
    moment: int = 0


def ping(partition: int) -> Call[Pong]:
    return Call(ApiName(Operation.PING, "", ""), _pong, partition=partition)


def advance_clock(nanos: int, partition: int) -> Call[int]:
    """The shard's time afterwards, ns. Only a worker whose test clock is on moves it; any other refuses."""
    return Call(
        ApiName(Operation.CLOCK_ADVANCE, "", ""), _now, json_body({"nanos": nanos}), partition=partition
    )


def _now(replies: list[Reply]) -> int:
    return int(parse_object(replies)["now"])


def _pong(replies: list[Reply]) -> Pong:
    found = parse_object(replies)
    now = int(found["now"])
    return Pong(int(found["received"]), now, found.get("unreadable") or {}, int(found.get("moment", now)))
