"""A shard on Kafka: the thread that drives one :class:`~railgun.shard.core.ShardCore`.

Order at a takeover: init_transactions (fences the former owner, and ends what it left open), what Kafka itself left undecided, restore, load, epoch, and
only then the first record. Group commit: a drain takes all that arrived while the last one committed and never waits
for more. The thread ends by :meth:`ShardDriver.stop`, by losing the partition, or by handing what it did not foresee to
``on_crash``; never in silence.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from railgun.errors import ConnectionLost
from railgun.kafka.ends import Place
from railgun.kafka.readings import Reading
from railgun.shard.consumers.dead_letters import LogUnreadable
from railgun.shard.drain import Drain, Input
from railgun.state.unreadable_entries import UnreadableEntry
from railgun.worker.context import ShardContext
from railgun.worker.group.membership import Membership
from railgun.worker.shards.claim import Claim
from railgun.worker.shards.inbox import Inbox
from railgun.worker.shards.inputs import check_inputs, read_so_far
from railgun.worker.shards.log_topics import change_topics, quarantine_missing
from railgun.worker.shards.recovery import OwnerLost, Recovery, ShardStopped, Unforeseen
from railgun.worker.shards.shard_state import ShardState
from railgun.worker.shards.transaction import Committed, DrainWriter, Prepared, TransactionFailed, prepare
from railgun.worker.shards.undecided import Undecided, end_logs, end_state

log = logging.getLogger("railgun.worker")

# Answers may leave without a transaction only while the last one, which a successor's producer would have fenced, is
# younger than this: well below the session time-out, after which somebody else may own the partition and know better.
_TRUSTED_SECONDS: Final = 3.0
_STUCK_SECONDS: Final = 5.0
_LOST_SECONDS: Final = 60.0  # a lost shard waits so long for the rebalance that must follow


class ShardDriver:
    """The owner of one partition, for one stay of it at this worker; ``former`` is the last stay, if any."""

    def __init__(
        self, partition: int, context: ShardContext, membership: Membership, former: ShardDriver | None = None
    ) -> None:
        self.partition = partition
        self.name = f"shard {partition}"
        self.membership = membership
        self.inbox = Inbox(context.memory.inboxes, partition)
        self._context = context
        self._stopping = threading.Event()
        self._writer: DrainWriter | None = None
        self._former = former
        self._standing = ShardState(partition, context)
        self._in_hand: Sequence[Input] = ()
        self._claim = Claim(partition, context, membership, self._stopping)
        # When, by the monotonic clock, the last transaction began that was committed.
        self._proved = float("-inf")
        self.progress: dict[Place, Reading] = {}  # behind what this stay has decided
        self._suspect = 0  # incarnation of the stream that the core worked on by itself when it failed
        self._recovery = Recovery(self)
        self._end = threading.Lock()  # guards the next two: whoever comes second closes the table
        self._unwanted = False  # close() was called
        self._at_rest = True  # no thread works on the table
        self._thread = threading.Thread(target=self._main, name=f"railgun-shard-{partition}", daemon=True)

    # ------------------------------------------------------------ from the event loop

    def start(self) -> None:
        self._at_rest = False
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Finish or abort the drain under way and drop the inbox. False when the thread did not end in time.

        A thread that is stuck holds nothing that harms: its producer is fenced by the next owner's.
        """
        self._stopping.set()
        self.inbox.close()
        self._context.upkeep.trims.leave(self.partition)
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def stuck_for(self) -> float:
        """Seconds since a call into librdkafka began that has not come back; 0 when none is under way."""
        writer = self._writer
        started = self._claim.init_started if writer is None else writer.call_started
        return 0.0 if started is None else time.monotonic() - started

    def give_up(self) -> list[Input]:
        """Leave the thread to itself: it writes nothing more. What it had not committed, for its replacement."""
        self._stopping.set()
        left = [*self._in_hand, *self.inbox.take_all()]
        self.inbox.close()
        return left

    def close(self) -> None:
        """Give memory and locks back, after :meth:`stop`; what is on disk stays.

        Never under a thread that still works on it, in a commit that takes long: then the thread does it when it ends.
        """
        with self._end:
            self._unwanted = True
            now = self._at_rest
        if now:
            self._let_go()

    def _let_go(self) -> None:
        former, self._former = self._former, None
        if former is not None:
            former.close()
        self._standing.close()

    # ------------------------------------------------------------ the thread

    def _main(self) -> None:
        try:
            self._take_over()
            while not self._stopping.is_set():
                self._drain_once()
        except ShardStopped:
            pass
        except OwnerLost as error:
            log.warning("%s: stopped, another worker owns it: %s", self.name, error)
            if not self._stopping.wait(_LOST_SECONDS):
                self._context.on_crash(Unforeseen(f"{self.name} was lost and no rebalance followed"))
        except UnreadableEntry as error:
            # Without its cursor nobody knows what was decided: to serve the shard might store messages twice. It is the
            # same for every worker, so none of them is to end by it.
            log.critical("%s is not served, its cursor must be mended: %s", self.name, error)
            self._stopping.wait()
        except BaseException as error:  # noqa: BLE001 - handed to the worker, which ends
            self._context.on_crash(error)
        finally:
            self._writer = None
            self._context.upkeep.trims.leave(self.partition)
            with self._end:
                self._at_rest = True
                unwanted = self._unwanted
            if unwanted:
                self._let_go()

    def _drain_once(self) -> None:
        inputs, calls, room = self.inbox.take(self._seconds_to_wait())
        for call in calls:
            call()
        if room:
            self._context.on_room(self.partition)
        if self._stopping.is_set():
            raise ShardStopped
        deadline = self._standing.core.next_deadline()
        if inputs or (deadline is not None and deadline <= self._context.clock()):
            self._in_hand = inputs
            self._notice_new_topics(inputs)
            self._recovery.settle(inputs)
            self._in_hand = ()

    def _notice_new_topics(self, inputs: Sequence[Input]) -> None:
        """Records may come from a topic that was made anew or cut back: they must not pass for those that were decided."""
        if self._standing.core.cursor.anew(inputs):
            self.rebuild()  # which looks at the topics
            left = self._standing.core.cursor.anew(inputs)
            if left:
                log.error(
                    "%s: %d records from offset %d on are passed over", self.name, len(left), left[0].offset
                )

    def _seconds_to_wait(self) -> float | None:
        """Until something must be done although nothing arrives; None: nothing."""
        deadline = self._standing.core.next_deadline()
        if deadline is None:
            return None
        return min(max(0.0, (deadline - self._context.clock()) / 1e9), 3600.0)

    # ------------------------------------------------------------ taking over

    def init_producer(self) -> None:
        """Fence the former owner. Raises OwnerLost when the partition is no longer ours."""
        self._give_up_producer()
        self._writer = self._claim.fence()

    def _take_over(self) -> None:
        started = time.monotonic()
        self._inherit()
        if self._writer is None:
            self.init_producer()
        restored, kept = self._catch_up()
        self._announce()
        found = "its state was current" if kept else f"{restored} records restored"
        log.info("%s: ready after %.2f s, %s", self.name, time.monotonic() - started, found)

    def _inherit(self) -> None:
        """Take what the last stay at this worker knew; from a thread that is stuck in a call it cannot be taken."""
        former, self._former = self._former, None
        if former is None:
            return
        if former.stop(_STUCK_SECONDS):
            self._standing = former._standing
        else:
            log.error("%s: its former thread is stuck: the state is restored beside it", self.name)
            former.close()
            self._standing = ShardState(self.partition, self._context, apart=True)

    def _catch_up(self) -> tuple[int, bool]:
        """Restore and load, however often the brokers have to be asked."""
        context, names = self._context, self._context.names
        while True:
            self._claim.confirm()
            try:
                with Undecided(context.kafka) as undecided:
                    end_state(undecided, names, self.partition, context.partitions, self._write_marks)
                    caught_up = self._standing.catch_up(self._stopping.is_set)
                    end_logs(undecided, names, self._standing.core.last_sequences(), self._write_marks)
                cursor = self._standing.core.cursor
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
        """Tell every client that there is an owner, and which."""
        body = {"epoch": self._standing.epoch, "node": self._context.node, "time": time.time_ns()}
        key = f"epoch/{self.partition}".encode()
        self._context.outbox.send(self._context.names.registry, key, json.dumps(body).encode(), 0)

    # ------------------------------------------------------------ one drain (called by Recovery)

    def decide(self, inputs: Sequence[Input]) -> Prepared:
        """Decide, and encode what may fail to be. Nothing has happened yet."""
        self._suspect = 0
        try:
            return self._prepare(self._standing.core.apply(inputs, self._context.clock()))
        except LogUnreadable as error:
            self._standing.core.aborted()
            raise TransactionFailed(KafkaError(KafkaError._TIMED_OUT, str(error))) from error

    def decide_refusal(self, culprit: Input, reason: str) -> Prepared:
        return self._prepare(self._standing.core.refuse(culprit, reason))

    def _prepare(self, drain: Drain) -> Prepared:
        return prepare(drain, self.partition, self._context.reply_factor, self._standing.epoch)

    def commit(self, prepared: Prepared) -> Committed:
        """Make durable. On a TransactionFailed nothing has happened, as far as we know; on anything else nothing has."""
        drain = prepared.drain
        trusted = time.monotonic() - self._proved < _TRUSTED_SECONDS
        if drain.only_answers and ((trusted and self._context.outbox.has_room) or not drain.replies):
            return Committed(drain, {}, None, prepared.answers)
        try:
            committed = self._transact(prepared)
        except TransactionFailed:
            self._abort()
            self._standing.core.aborted()
            raise
        except Exception:
            self._abort()
            raise
        self._standing.committed(committed.changelog)
        return committed

    def conclude(self, committed: Committed) -> None:
        """What follows a commit. There is no way back from here: on any error the state must be restored."""
        context, drain = self._context, committed.drain
        for client, place, body in committed.unsent:
            context.outbox.send(context.names.replies, client, body, place)
        self._standing.core.committed(drain, committed.first_offsets, committed.changelog)
        self.progress = read_so_far(context, self.partition, self._standing.core.cursor)
        if drain.trims:
            context.upkeep.trims.add(self.partition, drain.trims)
        for advisory in drain.advisories:
            subject = advisory.subject.encode()
            context.outbox.offer(context.names.advisories, subject, advisory.body, self.partition)

    def _transact(self, prepared: Prepared) -> Committed:
        drain = prepared.drain
        writer = self._known_writer()
        if drain.topics or drain.doomed_topics:
            change_topics(drain, self._context, self._standing)
        for topic in self._standing.quarantined.intersection(drain.appends):
            # What still removes or marks messages of a stream whose log is gone has no log to say it in.
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
        """Whatever it still holds must not go out, and must not hold its end up."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.discard()

    # ------------------------------------------------------------ after a failure (called by Recovery)

    def quarantine_missing(self, topics: dict[str, KafkaError]) -> bool:
        return quarantine_missing(topics, self._context, self._standing, self.inbox.call)

    def rebuild(self) -> None:
        """New producer, then the state as the changelog has it: the last transaction may have committed or not."""
        self.init_producer()
        self._proved = float("-inf")
        epoch = self._standing.epoch
        self._catch_up()
        if self._standing.epoch != epoch:
            self._announce()  # what was only in memory is gone: clients say again what they wait for

    def reload(self) -> None:
        """A core that reads everything from the table again."""
        self._suspect = self._standing.core.suspect
        self._standing.load()
        self._catch_up()
        self._announce()

    def set_aside(self, incarnation: int | None, reason: str) -> bool:
        """Serve all streams but this one (None: the one that the core worked on when it failed). False: it is not known."""
        if not self._standing.set_aside(incarnation or self._suspect, reason):
            return False
        self.reload()
        return True

    def restore(self, error: Exception) -> None:
        """The state as the changelog has it, whatever became of table and core; ``error`` is why they are not trusted."""
        self._standing.give_up(error)
        self.rebuild()

    def still_owner(self) -> bool:
        return self._claim.holds()

    def pause(self, seconds: float) -> None:
        self._claim.pause(seconds)
