"""Deliveries over the API by name: pulls, acknowledgements and flow control, as clients without our code send them.

Answers are frames, or None where nobody is answered here: pulls are answered by leases, and an acknowledgement of what was
never delivered not at all (ACK-17). Where no consumer listens for it, whoever asks is told so at once (CON-31, ACK-04).
"""

from __future__ import annotations

from railgun.api.deliveries import parse_acknowledgement, parse_delivery, parse_pull
from railgun.api.names import ApiName, Operation
from railgun.protocol.avro import ApiRequest, Frame
from railgun.protocol.frames import NO_RESPONDERS
from railgun.protocol.leases import AckRun
from railgun.semantics.consumers.consumer_state import ConsumerState
from railgun.semantics.consumers.delivery import waiting_pulls as pulls
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.consumers.commands import CONFIRMED, ConsumerCommands
from railgun.shard.consumers.pushing import Pushing
from railgun.shard.open_drain import OpenDrain

DELIVERIES = frozenset({Operation.CONSUMER_MSG_NEXT, Operation.ACK, Operation.FLOW_CONTROL})


class RawDeliveries:
    """Reads what such clients send, and has it done as for everybody else."""

    def __init__(self, consuming: ConsumerCommands, pushing: Pushing) -> None:
        self._consuming = consuming
        self._pushing = pushing

    def answer(
        self, request: ApiRequest, name: ApiName, time: int, now: int, work: OpenDrain
    ) -> list[Frame] | None:
        """The frames that answer the call; ``now`` is the wall clock."""
        if name.operation is Operation.CONSUMER_MSG_NEXT:
            return self._next(request, name, time, now, work)
        if name.operation is Operation.ACK:
            return self._acknowledge(request, name, time, now, work)
        return self._flow_control(name, work)

    def _next(
        self, request: ApiRequest, name: ApiName, time: int, now: int, work: OpenDrain
    ) -> list[Frame] | None:
        found = self._consuming.find(name.stream, name.consumer)
        if found is None:
            return [NO_RESPONDERS]
        self._pull(found, request, request.body, time, now, work)
        return None

    def _pull(
        self,
        found: tuple[OwnedStream, ConsumerState],
        request: ApiRequest,
        body: bytes,
        time: int,
        now: int,
        work: OpenDrain,
    ) -> None:
        stream, consumer = found
        asked = parse_pull(body)
        if isinstance(asked, str):
            refused = pulls.PUSH_BASED if consumer.config.is_push else pulls.bad_request(asked)
            waiting = pulls.Waiting(request.client, request.request, 0)
            self._consuming.tell(stream, consumer, waiting, refused, work)
            return
        pull = asked._replace(id=request.request)
        self._consuming.pull(stream, consumer, pull, request.client, time, now, work)

    def _acknowledge(
        self, request: ApiRequest, name: ApiName, time: int, now: int, work: OpenDrain
    ) -> list[Frame] | None:
        found = self._consuming.find(name.stream, name.consumer)
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
        confirmed = self._consuming.acknowledge(*found, [run], time, work)
        if said.kind == "next":  # ACK-09, ACK-10
            self._pull(found, request, said.pull, time, now, work)
            return None
        if confirmed or kind in ("nak", "progress"):  # ACK-16: these do nothing, and are confirmed
            return [CONFIRMED]
        return None  # ACK-13, ACK-17

    def _flow_control(self, name: ApiName, work: OpenDrain) -> list[Frame]:
        found = self._consuming.find(name.stream, name.consumer)
        if found is not None:
            self._pushing.flow_answered(*found, name.filter, work)
        return [CONFIRMED]
