"""Deliveries over the API by name: pulls, acknowledgements and flow control, as clients without railgun's code send them.

Answers are frames, or None where nothing is answered here: pulls are answered by leases, and an acknowledgement of a message
that was never delivered gets no answer (ACK-17). Where no consumer handles the call, it is answered so at once (CON-31, ACK-04).
"""

from __future__ import annotations

from railgun.api.deliveries import parse_acknowledgement, parse_delivery, parse_pull
from railgun.api.names import ApiName, Operation
from railgun.protocol import statuses
from railgun.protocol.commands import AckRun, ApiRequest
from railgun.protocol.replies import Frame
from railgun.protocol.statuses import NO_RESPONDERS
from railgun.semantics.consumers.consumer_state import ConsumerState
from railgun.semantics.consumers.delivery import waiting_pulls as pulls
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.consumers.commands import CONFIRMED, ConsumerCommands
from railgun.shard.consumers.leases import answer_pull
from railgun.shard.consumers.pushing import Pushing
from railgun.shard.open_drain import OpenDrain

DELIVERIES = frozenset({Operation.CONSUMER_MSG_NEXT, Operation.ACK, Operation.FLOW_CONTROL})


class RawDeliveries:
    """Reads such calls, and applies them as the commands of other clients."""

    def __init__(self, commands: ConsumerCommands, pushing: Pushing) -> None:
        self._commands = commands
        self._pushing = pushing

    def answer(self, request: ApiRequest, name: ApiName, drain: OpenDrain) -> list[Frame] | None:
        """The frames that answer the call, None where nothing is answered here."""
        if name.operation is Operation.CONSUMER_MSG_NEXT:
            return self._next(request, name, drain)
        if name.operation is Operation.ACK:
            return self._acknowledge(request, name, drain)
        return self._flow_control(name, drain)

    def _next(self, request: ApiRequest, name: ApiName, drain: OpenDrain) -> list[Frame] | None:
        found = self._commands.find(name.stream, name.consumer)
        if found is None:
            return [NO_RESPONDERS]
        self._pull(found, request, request.body, drain)
        return None

    def _pull(
        self,
        found: tuple[OwnedStream, ConsumerState],
        request: ApiRequest,
        body: bytes,
        drain: OpenDrain,
    ) -> None:
        stream, consumer = found
        asked = parse_pull(body)
        if isinstance(asked, str):
            refused = statuses.PUSH_BASED if consumer.config.is_push else statuses.bad_pull(asked)
            waiting = pulls.Waiting(request.client, request.request, 0)
            answer_pull(drain, stream, consumer, waiting, refused)
            return
        pull = asked._replace(id=request.request)
        self._commands.pull(stream, consumer, pull, request.client, drain)

    def _acknowledge(self, request: ApiRequest, name: ApiName, drain: OpenDrain) -> list[Frame] | None:
        found = self._commands.find(name.stream, name.consumer)
        if found is None or not found[1].terms.acks:
            return [NO_RESPONDERS]
        delivery = parse_delivery(name.filter)
        if delivery is None:
            return None
        said = parse_acknowledgement(request.body)
        if said.kind == "unknown":
            return [CONFIRMED]  # ACK-12
        kind = "ack" if said.kind == "next" else said.kind
        run = AckRun(
            kind,
            delivery.sequence,
            1,
            delivery.consumer_sequence,
            0,  # as nats-server has it, the address of any delivery speaks of the message
            said.delay,
            said.reason,
        )
        confirmed = self._commands.acknowledge(*found, [run], drain)
        if said.kind == "next":  # ACK-09, ACK-10
            self._pull(found, request, said.pull, drain)
            return None
        if confirmed or kind in ("nak", "progress"):  # ACK-16: these do nothing, and are confirmed
            return [CONFIRMED]
        return None  # ACK-13, ACK-17

    def _flow_control(self, name: ApiName, drain: OpenDrain) -> list[Frame]:
        found = self._commands.find(name.stream, name.consumer)
        if found is not None:
            self._pushing.flow_answered(*found, name.filter, drain)
        return [CONFIRMED]
