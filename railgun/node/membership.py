"""Who we are in the consumer group, as aiokafka believes."""

from __future__ import annotations

from typing import Any, NamedTuple

from railgun.errors import RailgunError


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


def rejoin(consumer: Any) -> None:
    """Join the group again: it gives all partitions out anew, and every owner looks where to begin."""
    thread = consumer._thread
    thread.thread_loop.call_soon_threadsafe(thread._consumer._coordinator.request_rejoin)
