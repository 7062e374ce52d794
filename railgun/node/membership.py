"""Who we are in the consumer group, and whether we still are.

The broker accepts offsets of a transaction only from a member of the current generation, which fences a worker that
does not know yet that it lost its partitions. aiokafka holds both; confluent-kafka wants them as opaque bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from railgun.errors import RailgunError


class NotAMember(RailgunError):
    """The worker is between two generations: nothing may be written in the name of the group."""


class Membership(NamedTuple):
    """One member in one generation of the workers' group."""

    group: str
    generation: int
    member: str

    def metadata(self) -> bytes:
        """What ``send_offsets_to_transaction`` wants: librdkafka's serialised group metadata, version 2."""
        if self.generation < 0 or not self.member:
            # The broker takes generation -1 for a consumer without a group and checks nothing: the fence would be off.
            raise NotAMember("the worker has no place in the consumer group")
        return b"".join(
            (
                b"CGMDv2:",
                struct.pack("<i", self.generation),
                self.group.encode() + b"\0",
                self.member.encode() + b"\0",
                b"\x01",  # no static instance id
            )
        )


def membership_of(consumer: Any, group: str) -> Membership:
    """The present membership of Faust's consumer. Raises NotAMember while it has none."""
    try:
        coordinator = consumer._thread._consumer._coordinator
        found = Membership(group, int(coordinator.generation), str(coordinator.member_id))
    except AttributeError as error:
        raise NotAMember("the worker has not joined its consumer group yet") from error
    found.metadata()
    return found


def still_member(consumer: Any, membership: Membership) -> Callable[[], bool]:
    """A question to ask again and again: is this still the membership that holds?"""

    def ask() -> bool:
        try:
            return membership_of(consumer, membership.group) == membership
        except NotAMember:
            return False

    return ask
