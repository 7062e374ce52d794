"""Pushing: messages of push consumers to their listeners (PSH).

A plain listener gets every message; of a queue group one member gets each.
"""

from __future__ import annotations

from collections.abc import Sequence

from railgun.protocol.leases import Lease
from railgun.protocol.statuses import FLOW_CONTROL, Status
from railgun.semantics.consumers.consumer_state import ConsumerState, Run, Taken
from railgun.semantics.consumers.delivery import pace as push
from railgun.semantics.consumers.delivery.pace import Pace
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.consumers.demand import ConsumerKey, key_of
from railgun.shard.consumers.leases import leases, status_lease
from railgun.shard.consumers.presence import Listener
from railgun.shard.consumers.push_targets import PushTargets
from railgun.shard.open_drain import OpenDrain


class Pushing:
    """Sends the messages of active push consumers, at their pace."""

    def __init__(self, push_targets: PushTargets) -> None:
        self._push_targets = push_targets

    def serve(
        self,
        key: ConsumerKey,
        stream: OwnedStream,
        consumer: ConsumerState,
        drain: OpenDrain,
        most: int,
    ) -> tuple[int, bool]:
        """Send what may be sent now. Returns how many messages, and whether more may be sent at once."""
        pace, listeners = self._push_targets.pace(key), self._push_targets.listeners(consumer.config)
        if pace is None or not listeners:
            return 0, False
        given, again, more = 0, 0, False
        while not pace.halted:
            again = _not_yet(pace, consumer, drain.moment)
            more = given >= most
            if again or more:
                break
            taken = _take(pace, consumer, drain.moment, most - given)
            if not taken.count:
                more = taken.stopped == "scan"
                break
            given += taken.count
            self._send(stream, consumer, taken, listeners, pace.turn, drain)
            before, pace = pace, _paced(pace, stream, consumer, taken, drain.moment)
            if pace.asked and pace.asked != before.asked:
                reply = _flow_control(stream, consumer, pace)
                self._send_status(stream, consumer, listeners, FLOW_CONTROL, reply, drain)
            if taken.stopped == "scan":
                more = True
                break
        self._push_targets.set_pace(key, pace, again)
        return given, more

    def _send(
        self,
        stream: OwnedStream,
        consumer: ConsumerState,
        taken: Taken,
        listeners: Sequence[Listener],
        turn: int,
        drain: OpenDrain,
    ) -> None:
        plain = [one for one in listeners if not one.group]  # PSH-02
        if plain:
            whole = _leases(stream, consumer, taken, taken.runs, "", drain)
            for one in plain:
                drain.replies(one.client).leases.extend(whole)
        for group in sorted({one.group for one in listeners if one.group}):
            members = [one for one in listeners if one.group == group]
            for number, own in push.shares(taken.runs, taken.count, len(members), turn):
                part = _leases(stream, consumer, taken, own, group, drain)
                drain.replies(members[number].client).leases.extend(part)

    # -- statuses

    def wake(self, key: ConsumerKey, stream: OwnedStream, consumer: ConsumerState, drain: OpenDrain) -> None:
        """The alarm of a consumer: a heartbeat is due (PSH-06), or it may send again."""
        pace = self._push_targets.pace(key)
        if pace is None:
            return
        if pace.beats and pace.beats <= drain.moment:
            reply = _flow_control(stream, consumer, pace)
            pace, status = push.heartbeat(pace, consumer.config, consumer.delivered, reply, drain.moment)
            self._send_status(
                stream, consumer, self._push_targets.listeners(consumer.config), status, "", drain
            )
        self._push_targets.set_pace(key, pace)
        drain.ready[key] = None

    def flow_answered(
        self, stream: OwnedStream, consumer: ConsumerState, number: str, drain: OpenDrain
    ) -> None:
        """A listener answered a flow control request (PSH-07)."""
        key = key_of(stream, consumer)
        pace = self._push_targets.pace(key)
        if pace is not None and pace.asked and number == _request_id(consumer, pace):
            self._push_targets.set_pace(key, push.answered(pace, pace.asked))
            drain.ready[key] = None

    @staticmethod
    def _send_status(
        stream: OwnedStream,
        consumer: ConsumerState,
        listeners: Sequence[Listener],
        status: Status,
        reply: str,
        drain: OpenDrain,
    ) -> None:
        """A status to every plain listener, and to one member of each group."""
        of_groups = {one.group: one for one in reversed(listeners) if one.group}
        for one in [*(one for one in listeners if not one.group), *of_groups.values()]:
            made = status_lease(stream, consumer, status)._replace(
                subject=consumer.config.deliver_subject or "", group=one.group, reply=reply
            )
            drain.replies(one.client).leases.append(made)


def _replayed(pace: Pace, consumer: ConsumerState) -> int:
    """Time at which the next message was stored, if an original replay spaces it (PSH-09); else 0."""
    if consumer.config.replay_policy != "original":
        return 0
    following = consumer.peek()
    return following.time if following is not None and following.sequence <= pace.replay_to else 0


def _not_yet(pace: Pace, consumer: ConsumerState, moment: int) -> int:
    """Moment at which the next message may be sent; 0: now."""
    stored = _replayed(pace, consumer)
    due = max(pace.not_before, push.replay_due(pace, stored) if stored else 0)
    return due if due > moment else 0


def _take(pace: Pace, consumer: ConsumerState, moment: int, most: int) -> Taken:
    asked = 1 if _replayed(pace, consumer) else most
    taken = consumer.take(asked, push.allowed_bytes(pace, consumer.config), moment)
    if taken.stopped == "bytes" and not taken.count and not pace.asked:
        # It is larger than what may be sent at once, and no answer would make room.
        return consumer.take(1, 0, moment)
    return taken


def _paced(pace: Pace, stream: OwnedStream, consumer: ConsumerState, taken: Taken, moment: int) -> Pace:
    after = push.sent(pace, consumer.config, taken.size, taken.count, moment)
    last = taken.runs[-1]
    if consumer.config.replay_policy == "original" and last.deliveries == 1:
        entry = stream.index.trace(last.sequence + last.length - 1)
        if entry is not None:
            return after._replace(replayed=entry.time, replayed_at=moment)
    return after


def _leases(
    stream: OwnedStream,
    consumer: ConsumerState,
    taken: Taken,
    runs: Sequence[Run],
    group: str,
    drain: OpenDrain,
) -> list[Lease]:
    made = leases(stream, consumer, taken, runs, drain.logs.get(stream.name))
    subject = consumer.config.deliver_subject or ""
    return [one._replace(subject=subject, group=group) for one in made]


def _request_id(consumer: ConsumerState, pace: Pace) -> str:
    return f"{consumer.number}-{pace.asked}"


def _flow_control(stream: OwnedStream, consumer: ConsumerState, pace: Pace) -> str:
    """The subject on which a flow control request is answered."""
    return f"$JS.FC.{stream.name}.{consumer.name}.{_request_id(consumer, pace)}"
