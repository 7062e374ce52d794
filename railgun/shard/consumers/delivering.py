"""Delivering: at the end of a drain waiting pulls and listeners get messages, as leases in the same transaction.

Only consumers whose messages are wanted, and that may have something to deliver, are served: those whose filter fits what was
stored, those that got a command or lost a message, those that the last drain left over. What one drain gives out is bounded,
and so is what it looks at in vain: thousands of narrow filters over a long stream are served in turn.
"""

from __future__ import annotations

from collections.abc import Iterator

from railgun.protocol.statuses import Status
from railgun.semantics.consumers.consumer_state import ConsumerState, Taken
from railgun.semantics.consumers.delivery import waiting_pulls as pulls
from railgun.semantics.consumers.delivery.waiting_pulls import Waiting, WaitingPulls
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.consumers.demand import Alarm, ConsumerKey, Demand, key_of, living
from railgun.shard.consumers.feeding import Feeding
from railgun.shard.consumers.leases import answer_pull, leases
from railgun.shard.consumers.pushing import Pushing
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams

OF_ONE_CONSUMER = 10_000  # messages in one drain
OF_ALL = 50_000
PASSED_OVER = 10  # messages that narrow filters pass over cost as much as one that is given out


class Delivering:
    """Serves the waiting pulls and the listeners of a shard's consumers."""

    def __init__(self, streams: OwnedStreams, demand: Demand, pushing: Pushing, feeding: Feeding) -> None:
        self._streams = streams
        self._demand = demand
        self._pushing = pushing
        self._feeding = feeding

    def run(self, drain: OpenDrain) -> None:
        """Serve all consumers that may have something to deliver, in turn from drain to drain.

        Those that earlier drains left over take half of what this one gives, so that new messages need not wait for them.
        """
        postponed = dict(self._demand.postponed)
        others = dict(drain.ready)
        for state in drain.touched.values():
            others |= dict.fromkeys(self._concerned(state, drain))
        others = {key: None for key in others if key not in postponed}
        left, kept = OF_ALL, OF_ALL // 2 if others else 0
        for key in postponed:
            if left <= kept:
                break
            left -= self.serve(key, drain)
        for key in others:
            if left > 0:
                left -= self.serve(key, drain)
            else:
                self._demand.postpone(key)

    def _concerned(self, state: OwnedStream, drain: OpenDrain) -> Iterator[ConsumerKey]:
        """Consumers that may deliver what was stored, and those that may have got room because a message left."""
        stored = drain.logs.get(state.name)
        if stored is not None:
            yield from self._demand.wanting(state.incarnation, set(stored.subjects))
        for consumer in state.consumers.touched:
            yield key_of(state, consumer)

    def serve(self, key: ConsumerKey, drain: OpenDrain) -> int:
        """Deliver one consumer's messages. Returns what it cost, in messages that are given out."""
        self._demand.resume(key)
        if not self._demand.is_wanted(key):
            return 0
        found = living(self._streams, key)
        if found is None:
            return 0
        stream, consumer = found
        drain.at = stream.incarnation
        if self._feeding.feeds(key):
            given, more = self._feeding.serve(key, stream, consumer, drain, OF_ONE_CONSUMER)
        elif consumer.config.is_push:
            given, more = self._pushing.serve(key, stream, consumer, drain, OF_ONE_CONSUMER)
        else:
            line = self._demand.line(key)
            assert line is not None, "a pull consumer whose messages are wanted has waiting pulls"
            given, more = self._serve_line(key, line, stream, consumer, drain)
        if given or stream.consumers.changed:
            drain.touch(stream)
        if given:
            self._demand.used(key, consumer.config, drain.moment)
        if more and self._demand.is_wanted(key):
            self._demand.postpone(key)
        return given + consumer.take_looked_at() // PASSED_OVER

    def _serve_line(
        self,
        key: ConsumerKey,
        line: WaitingPulls,
        stream: OwnedStream,
        consumer: ConsumerState,
        drain: OpenDrain,
    ) -> tuple[int, bool]:
        """Number of messages given out, and whether there may be more for the waiting pulls."""
        given = 0
        while (pull := line.first()) is not None:
            if pull.expires and pull.expires <= drain.moment:
                self._time_out(key, stream, consumer, pull, drain)
                continue
            if given >= OF_ONE_CONSUMER:
                return given, True
            asked = min(pull.left, OF_ONE_CONSUMER - given)
            taken = consumer.take(asked, pull.allowed_bytes, drain.moment)
            given += taken.count
            after, status = pulls.served(pull, taken, drain.moment)
            self._answer(stream, consumer, pull, taken, status, drain, done=after is None)
            if after is None:
                self._demand.leave(key, pull.key)
            elif taken.count and asked < pull.left:
                self._demand.change(key, after)  # cut short by our own bound: it is still its turn
            elif taken.count:
                self._demand.join(key, after, consumer.terms.filter)
            if taken.stopped in ("empty", "wall"):
                ended = line.impatient() if taken.stopped == "empty" else line.late()
                self._end(ended, key, stream, consumer, drain)
                return given, False
            if taken.stopped == "scan":
                return given, True
        return given, False

    def wake(self, alarm: Alarm, stream: OwnedStream, consumer: ConsumerState, drain: OpenDrain) -> None:
        """The alarm of a waiting pull: it has waited long enough, or a heartbeat is due (PUL-10)."""
        line = self._demand.line(alarm.consumer)
        pull = None if line is None else line.get(alarm.pull)
        if pull is None:
            return
        if pull.expires and pull.expires <= drain.moment:
            self._time_out(alarm.consumer, stream, consumer, pull, drain)
            return
        if pull.beats and pull.beats <= drain.moment:
            answer_pull(drain, stream, consumer, pull, pulls.idle_heartbeat(*consumer.delivered), done=False)
            pull = pull._replace(beats=drain.moment + pull.heartbeat)
        self._demand.change(alarm.consumer, pull)

    def _end(
        self,
        ended: list[Waiting],
        key: ConsumerKey,
        stream: OwnedStream,
        consumer: ConsumerState,
        drain: OpenDrain,
    ) -> None:
        for pull in ended:
            answer_pull(drain, stream, consumer, pull, pull.nothing_there())  # PUL-03
            self._demand.leave(key, pull.key)

    def _time_out(
        self, key: ConsumerKey, stream: OwnedStream, consumer: ConsumerState, pull: Waiting, drain: OpenDrain
    ) -> None:
        """The pull has waited for as long as it wanted to (PUL-04)."""
        self._demand.leave(key, pull.key)
        answer_pull(drain, stream, consumer, pull, pull.timed_out())
        self._demand.used(key, consumer.config, pull.expires)

    @staticmethod
    def _answer(
        stream: OwnedStream,
        consumer: ConsumerState,
        pull: Waiting,
        taken: Taken,
        status: Status | None,
        drain: OpenDrain,
        *,
        done: bool,
    ) -> None:
        if not taken.count and status is None:
            return
        *before, made = leases(stream, consumer, taken, taken.runs, drain.logs.get(stream.name))
        made = made._replace(pull=pull.id, done=done)
        if status is not None:
            made = made._replace(
                status=status.code, description=status.description, status_headers=status.headers
            )
        drain.replies(pull.client).leases.extend([*(one._replace(pull=pull.id) for one in before), made])
