"""The owner of a partition, on Kafka: takes the shard's state over, decides and commits its drains, recovers after failures.

Order at a takeover: init_transactions (fences the former owner, and ends what it left open), what Kafka itself left undecided,
restore, load, epoch, and only then the first record.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from railgun.errors import ConnectionLost
from railgun.kafka.ends import Place
from railgun.kafka.readings import Reading
from railgun.protocol import registry
from railgun.shard.drain import Drain, Given
from railgun.shard.log_bodies import LogUnreadable
from railgun.worker.context import ShardContext
from railgun.worker.group.membership import Membership
from railgun.worker.shards.claim import Claim
from railgun.worker.shards.inputs import check_inputs, read_so_far
from railgun.worker.shards.log_topics import change_topics, quarantine_missing
from railgun.worker.shards.recovery import Unforeseen
from railgun.worker.shards.shard_state import ShardState
from railgun.worker.shards.transaction import Committed, DrainWriter, Prepared, TransactionFailed, prepare
from railgun.worker.shards.undecided import Undecided, end_logs, end_state

log = logging.getLogger("railgun.worker")

# Answers may leave without a transaction only while the last one, which a successor's producer would have fenced, is
# younger than this: well below the session time-out, after which another worker may own the partition and know better.
_TRUSTED_SECONDS: Final = 3.0


class PartitionOwner:
    """One stay of a partition at this worker, as :class:`~railgun.worker.shards.recovery.Committer` needs it.

    Used by the shard's thread, except :meth:`init_producer` before that starts, and :meth:`stuck_for`.
    """

    def __init__(
        self,
        partition: int,
        context: ShardContext,
        membership: Membership,
        stopping: threading.Event,
        call: Callable[[Callable[[], None]], None],
    ) -> None:
        """``call`` has the shard's thread run something between two drains."""
        self.partition = partition
        self.name = f"shard {partition}"
        self.state = ShardState(partition, context)
        self.progress: dict[Place, Reading] = {}  # behind what this stay has decided
        self._context = context
        self._stopping = stopping
        self._call = call
        self._claim = Claim(partition, context, membership, stopping)
        self._writer: DrainWriter | None = None
        # When, by the monotonic clock, the last transaction began that was committed.
        self._proved = float("-inf")
        self._suspect = 0  # incarnation of the stream that the core worked on by itself when it failed

    def stuck_for(self) -> float:
        """Seconds since a call into librdkafka began that has not come back; 0 when none is under way. From any thread."""
        writer = self._writer
        started = self._claim.init_started if writer is None else writer.call_started
        return 0.0 if started is None else time.monotonic() - started

    # ------------------------------------------------------------ taking over

    def take_over(self) -> tuple[int, bool]:
        """Become the owner. Returns how many records were restored, and whether the state in memory was current."""
        if self._writer is None:
            self.init_producer()
        caught_up = self._catch_up()
        self._announce()
        return caught_up

    def leave(self) -> None:
        """The stay is over: nothing more is written."""
        self._writer = None

    def init_producer(self) -> None:
        """Fence the former owner. Raises OwnerLost when the partition is no longer this worker's."""
        self._give_up_producer()
        self._writer = self._claim.fence()

    def _catch_up(self) -> tuple[int, bool]:
        """The state is restored and loaded, however often the brokers have to be asked."""
        context, names = self._context, self._context.names
        while True:
            self._claim.confirm()
            try:
                with Undecided(context.kafka) as undecided:
                    end_state(undecided, names, self.partition, context.partitions, self._write_marks)
                    caught_up = self.state.catch_up(self._stopping.is_set)
                    end_logs(undecided, names, self.state.core.last_sequences(), self._write_marks)
                cursor = self.state.core.cursor
                if not check_inputs(context, self.partition, cursor):
                    self.progress = read_so_far(context, self.partition, cursor)
                return caught_up
            except (KafkaException, ConnectionLost) as error:
                log.warning("%s: it cannot take over yet, and tries again: %s", self.name, error)
                self.pause(1.0)
            except TransactionFailed as failed:
                log.warning(
                    "%s: what Kafka left undecided stays so for now: %s", self.name, failed.error.str()
                )
                self.pause(1.0)
                self.init_producer()

    def _write_marks(self, drain: Drain, commit: bool) -> None:
        self._known_writer().write(self._prepare(drain), commit=commit)

    def _known_writer(self) -> DrainWriter:
        if self._writer is None:
            raise Unforeseen(f"{self.name} has no producer")
        return self._writer

    def _announce(self) -> None:
        """All clients learn from the registry that there is an owner, and which."""
        key = registry.epoch_key(self.partition)
        value = registry.epoch_record(self.state.epoch, self._context.node, time.time_ns())
        self._context.outbox.send(self._context.names.registry, key, value, 0)

    # ------------------------------------------------------------ one drain (called by Recovery)

    def decide(self, inputs: Sequence[Given]) -> Prepared:
        """The inputs are decided, and everything that may fail to be encoded is encoded. Nothing has happened yet."""
        self._suspect = 0
        try:
            return self._prepare(self.state.core.apply(inputs, self._context.clock()))
        except LogUnreadable as error:
            self.state.core.aborted()
            raise TransactionFailed(KafkaError(KafkaError._TIMED_OUT, str(error))) from error

    def decide_refusal(self, culprit: Given, reason: str) -> Prepared:
        return self._prepare(self.state.core.refuse(culprit, reason))

    def _prepare(self, drain: Drain) -> Prepared:
        return prepare(drain, self.partition, self._context.reply_factor, self.state.epoch)

    def commit(self, prepared: Prepared) -> Committed:
        """The drain becomes durable. After an error nothing has happened; after TransactionFailed only as far as is known."""
        drain = prepared.drain
        trusted = time.monotonic() - self._proved < _TRUSTED_SECONDS
        if drain.only_answers and ((trusted and self._context.outbox.has_room) or not drain.replies):
            return Committed(drain, {}, None, prepared.answers)
        try:
            committed = self._transact(prepared)
        except TransactionFailed:
            self._abort()
            self.state.core.aborted()
            raise
        except Exception:
            self._abort()
            raise
        self.state.committed(committed.changelog)
        return committed

    def conclude(self, committed: Committed) -> None:
        """The core follows the commit. There is no way back from here: on any error the state must be restored."""
        context, drain = self._context, committed.drain
        for client, place, body in committed.unsent:
            context.outbox.send(context.names.replies, client, body, place)
        self.state.core.committed(drain, committed.first_offsets, committed.changelog)
        self.progress = read_so_far(context, self.partition, self.state.core.cursor)
        if drain.trims:
            context.housekeeping.trims.add(self.partition, drain.trims)
        for advisory in drain.advisories:
            subject = advisory.subject.encode()
            context.outbox.offer(context.names.advisories, subject, advisory.body, self.partition)

    def _transact(self, prepared: Prepared) -> Committed:
        drain = prepared.drain
        writer = self._known_writer()
        if drain.topics or drain.doomed_topics:
            change_topics(drain, self._context, self.state)
        for topic in self.state.quarantined.keys() & drain.appends.keys():
            # Removals and markers of a stream whose log is gone have no log to be written to.
            del drain.appends[topic]
        started = time.monotonic()
        committed = writer.write(prepared)
        self._proved = started
        return committed

    def _abort(self) -> None:
        """End the open transaction, if there is one; a producer that cannot even do that is given up."""
        if self._writer is None:
            return
        try:
            self._writer.abort()
        except KafkaException as error:
            log.info("%s: the transaction could not be aborted: %s", self.name, error.args[0].str())
            self._give_up_producer()

    def _give_up_producer(self) -> None:
        """The producer is discarded: what it still holds must not go out, and must not hold its end up."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.discard()

    # ------------------------------------------------------------ after a failure (called by Recovery)

    def quarantine_missing(self, topics: dict[str, KafkaError]) -> bool:
        return quarantine_missing(topics, self._context, self.state, self._call)

    def rebuild(self) -> None:
        """New producer, then the state as the changelog has it: the last transaction may have committed or not."""
        self.init_producer()
        self._proved = float("-inf")
        epoch = self.state.epoch
        self._catch_up()
        if self.state.epoch != epoch:
            self._announce()  # the state in memory is gone: clients send their pulls and presence again

    def reload(self) -> None:
        """A core that reads everything from the table again."""
        self._suspect = self.state.core.suspect
        self.state.load()
        self._catch_up()
        self._announce()

    def set_aside(self, incarnation: int | None, reason: str) -> bool:
        """Serve all streams but this one (None: the one that the core worked on when it failed). False: it is not known."""
        if not self.state.set_aside(incarnation or self._suspect, reason):
            return False
        self.reload()
        return True

    def restore(self, error: Exception) -> None:
        """Core and table are made anew from the changelog; ``error`` says why they are not trusted."""
        self.state.give_up(error)
        self.rebuild()

    def still_owner(self) -> bool:
        return self._claim.holds()

    def pause(self, seconds: float) -> None:
        self._claim.pause(seconds)
