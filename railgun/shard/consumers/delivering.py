"""Delivering: at the end of a drain, whoever wants messages gets them, as leases in the same transaction.

Only consumers that somebody waits for, and that may have got work, are looked at: those that may want what was stored, those
that were told or lost something, those that the last drain did not finish. What one drain gives out is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator

from railgun.semantics.consumers.consumer_state import ConsumerState, Taken
from railgun.semantics.consumers.delivery import waiting_pulls as pulls
from railgun.semantics.consumers.delivery.waiting_pulls import Status, Waiting, WaitingPulls
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.consumers.commands import ConsumerCommands
from railgun.shard.consumers.demand import ConsumerKey, Demand, key_of, living
from railgun.shard.consumers.leases import leases
from railgun.shard.consumers.pushing import Pushing
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams

OF_ONE_CONSUMER = 10_000  # messages in one drain
OF_ALL = 50_000


class Delivering:
    """Serves the waiting pulls and the listeners of a shard's consumers."""

    def __init__(
        self, streams: OwnedStreams, demand: Demand, commands: ConsumerCommands, pushing: Pushing
    ) -> None:
        self._streams = streams
        self._demand = demand
        self._commands = commands
        self._pushing = pushing

    def run(self, drain: OpenDrain) -> None:
        """Serve everybody who may get something, in turn from drain to drain."""
        looked_at = dict(self._demand.unfinished) | drain.ready
        for state in drain.touched.values():
            looked_at |= dict.fromkeys(self._concerned(state, drain))
        left = OF_ALL
        for key in looked_at:
            if left > 0:
                left -= self.serve(key, drain)
            else:
                self._demand.postpone(key)

    def _concerned(self, state: OwnedStream, drain: OpenDrain) -> Iterator[ConsumerKey]:
        """Those that may want what was stored, and those that may have got room because something left."""
        stored = drain.logs.get(state.name)
        if stored is not None:
            yield from self._demand.wanting(state.incarnation, set(stored.subjects))
        for consumer in state.consumers.touched:
            yield key_of(state, consumer)

    def serve(self, key: ConsumerKey, drain: OpenDrain) -> int:
        """Give one consumer's messages to those who want them; how many."""
        self._demand.finish(key)
        if not self._demand.is_wanted(key):
            return 0
        found = living(self._streams, key)
        if found is None:
            return 0
        stream, consumer = found
        drain.at = stream.incarnation
        if consumer.config.is_push:
            given, more = self._pushing.serve(key, stream, consumer, drain, OF_ONE_CONSUMER)
        else:
            line = self._demand.line(key)
            assert line is not None, "a hungry pull consumer has waiting pulls"
            given, more = self._serve_line(key, line, stream, consumer, drain)
        if given or stream.consumers.changed:
            drain.touch(stream)
        if given:
            self._demand.used(key, consumer.config, drain.moment)
        if more and self._demand.is_wanted(key):
            self._demand.postpone(key)
        return given

    def _serve_line(
        self,
        key: ConsumerKey,
        line: WaitingPulls,
        stream: OwnedStream,
        consumer: ConsumerState,
        drain: OpenDrain,
    ) -> tuple[int, bool]:
        """How many messages were given out, and whether there may be more for those who wait."""
        given = 0
        while (pull := line.first()) is not None:
            if pull.expires and pull.expires <= drain.moment:
                self.time_out(key, stream, consumer, pull, drain)
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
            if taken.stopped in ("empty", "wall"):
                return given, False
            if taken.stopped == "scan":
                return given, True
        return given, False

    def _end(
        self,
        ended: list[Waiting],
        key: ConsumerKey,
        stream: OwnedStream,
        consumer: ConsumerState,
        drain: OpenDrain,
    ) -> None:
        for pull in ended:
            self._commands.tell(stream, consumer, pull, pull.nothing_there(), drain)  # PUL-03
            self._demand.leave(key, pull.key)

    def time_out(
        self, key: ConsumerKey, stream: OwnedStream, consumer: ConsumerState, pull: Waiting, drain: OpenDrain
    ) -> None:
        """The pull has waited for as long as it wanted to (PUL-04)."""
        self._demand.leave(key, pull.key)
        self._commands.tell(stream, consumer, pull, pull.timed_out(), drain)
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
