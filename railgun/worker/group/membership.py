"""The membership of a worker in the consumer group: as aiokafka believes, and as the group itself says."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import CancelledError
from typing import Any, Final, NamedTuple

from aiokafka.errors import (
    IllegalGenerationError,
    KafkaError,
    NoError,
    UnknownMemberIdError,
    for_code,
)
from aiokafka.protocol.group import HeartbeatRequest

from railgun.errors import RailgunError

log = logging.getLogger("railgun.worker")

_ASK_SECONDS: Final = 3.0


class NotAMember(RailgunError):
    """The worker is between two generations: nothing may be written in the name of the group."""


class Membership(NamedTuple):
    """One member in one generation of the workers' group."""

    group: str
    generation: int
    member: str


def membership_of(consumer: Any, group: str) -> Membership:
    """The present membership of Faust's consumer. Raises NotAMember while it has none."""
    try:
        coordinator = consumer._thread._consumer._coordinator
        found = Membership(group, int(coordinator.generation), str(coordinator.member_id))
    except AttributeError as error:
        raise NotAMember("the worker has not joined its consumer group yet") from error
    if found.generation < 0 or not found.member:
        raise NotAMember("the worker has no place in the consumer group")
    return found


def confirmed(consumer: Any, membership: Membership) -> bool | None:
    """Whether the group's coordinator knows this member in this generation; None while it is not known.

    A heartbeat asks it. Partitions are assigned for a whole generation, so a member of the present one still has its own.
    Not AdminClient.describe_consumer_groups: when brokers go away it ends the whole process, or never answers again (seen;
    librdkafka issue 4605). From any thread but the consumer's own.
    """
    thread = consumer._thread
    request = HeartbeatRequest(membership.group, membership.generation, membership.member)
    asked = asyncio.run_coroutine_threadsafe(
        asyncio.wait_for(thread._consumer._coordinator._send_req(request), _ASK_SECONDS), thread.thread_loop
    )
    try:
        answer = for_code(asked.result(_ASK_SECONDS + 1).error_code)
    except (KafkaError, TimeoutError, CancelledError) as error:
        asked.cancel()
        log.info("the consumer group could not be asked: %r", error)
        return None
    if answer in (IllegalGenerationError, UnknownMemberIdError):
        return False
    return True if answer is NoError else None


def rejoin(consumer: Any) -> None:
    """The worker joins the group again: all partitions are assigned anew, and every owner looks where to begin."""
    thread = consumer._thread
    thread.thread_loop.call_soon_threadsafe(thread._consumer._coordinator.request_rejoin)
