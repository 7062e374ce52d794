"""Hand-overs on their way: one that is alone leaves at once, those that come while another is under way leave together.

They wait in their consumer's box for the thread of the hub, which takes all that are there, as one command. So a program that works on
many messages at once sends few records, and one that works on a single message does not wait for a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from railgun.errors import RailgunError
from railgun.model.cluster_limits import HANDED_OVER_AT_ONCE
from railgun.protocol.commands import PublishPack
from railgun.protocol.hand_overs import HAND_OVERS, HandOverPack, PackOfHandOvers

if TYPE_CHECKING:
    from railgun.client.consuming.ack_box import AckBox
    from railgun.client.link import Link
    from railgun.client.transport import Delivered

LARGEST_TOGETHER: Final = 64 * 1024  # bytes of a hand-over that travels with others
_BYTES: Final = 512 * 1024  # of all that travel together
_MOST: Final = 500


class WaitingHandOver(NamedTuple):
    """A hand-over that waits to be sent with others."""

    request: int
    delivered: Delivered
    sequence: int
    consumer_sequence: int
    deliveries: int
    packs: list[PublishPack]
    size: int  # bytes of its publishes


def send_together(box: AckBox, link: Link) -> None:
    """Send all hand-overs that wait in the box; what keeps one from being sent is told to its caller.

    The caller holds ``sending`` of the box: what was said first is sent first.
    """
    for group in _groups(_taken(box)):
        _send(box, group, link)


def _taken(box: AckBox) -> Iterator[WaitingHandOver]:
    while box.handed:
        yield box.handed.popleft()


def _groups(waiting: Iterable[WaitingHandOver]) -> Iterator[list[WaitingHandOver]]:
    """Groups that one command may carry."""
    group: list[WaitingHandOver] = []
    messages = size = 0
    for one in waiting:
        own = sum(len(pack.payloads) for pack in one.packs)
        if group and (
            len(group) == _MOST or messages + own > HANDED_OVER_AT_ONCE or size + one.size > _BYTES
        ):
            yield group
            group, messages, size = [], 0, 0
        group.append(one)
        messages += own
        size += one.size
    if group:
        yield group


def _send(box: AckBox, group: list[WaitingHandOver], link: Link) -> None:
    def report(error: RailgunError | None) -> None:
        for one in group:
            one.delivered(error)

    address = box.address
    try:
        value = HandOverPack(
            *(address.stream, address.incarnation, address.consumer, address.number, link.client),
            [one.request for one in group],
            [one.sequence for one in group],
            [one.consumer_sequence for one in group],
            [one.deliveries for one in group],
            list(_merged(group)),
        ).encode()
        link.send(address.partition, address.stream.encode("utf-8"), HAND_OVERS, value, report)
    except RailgunError as error:
        report(error)
    except Exception as error:  # noqa: BLE001 - no caller may wait for ever for what never left
        if len(group) == 1:
            report(RailgunError(f"the transaction could not be sent: {error!r}"))
            return
        for one in group:
            _send(box, [one], link)


def _merged(group: list[WaitingHandOver]) -> Iterator[PackOfHandOvers]:
    """The publishes of all of them, in one pack for each stream, in their order."""
    columns: dict[str, tuple[PublishPack, list[int]]] = {}
    for place, one in enumerate(group):
        for pack in one.packs:
            found = columns.get(pack.stream)
            if found is None:
                found = columns[pack.stream] = (PublishPack(pack.stream, "", 0, [], [], [], []), [])
            whole, of = found
            whole.subjects.extend(pack.subjects)
            whole.ids.extend(pack.ids or [""] * len(pack.payloads))
            whole.headers.extend(pack.headers or [[]] * len(pack.payloads))
            whole.payloads.extend(pack.payloads)
            of.extend([place] * len(pack.payloads))
    for whole, of in columns.values():
        ids, headers = whole.ids if any(whole.ids) else [], whole.headers if any(whole.headers) else []
        yield PackOfHandOvers(of, whole._replace(ids=ids, headers=headers).encode())
