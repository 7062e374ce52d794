"""A shard on Kafka: the thread that drives one :class:`~railgun.shard.core.ShardCore`.

Group commit: a drain takes all that arrived while the last one committed, and never waits for more. The thread ends by
:meth:`ShardDriver.stop`, by losing the partition, or by handing an error that has no rule to ``on_crash``; never in silence.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Final

from railgun.shard.drain import Given, Input
from railgun.state.unreadable_entries import UnreadableEntry
from railgun.worker.adopting.topic_readers import TopicReaders
from railgun.worker.context import ShardContext
from railgun.worker.group.membership import Membership
from railgun.worker.shards.inbox import Inbox
from railgun.worker.shards.owner import PartitionOwner
from railgun.worker.shards.recovery import OwnerLost, Recovery, ShardStopped, Unforeseen
from railgun.worker.shards.shard_state import ShardState

log = logging.getLogger("railgun.worker")

_STUCK_SECONDS: Final = 5.0
_LOST_SECONDS: Final = 60.0  # a lost shard waits so long for the rebalance that must follow


class ShardDriver:
    """The thread of one partition, for one stay of it at this worker; ``former`` is the last stay, if any."""

    def __init__(
        self, partition: int, context: ShardContext, membership: Membership, former: ShardDriver | None = None
    ) -> None:
        self.partition = partition
        self.name = f"shard {partition}"
        self.membership = membership
        self.inbox = Inbox(context.memory.inboxes, partition)
        self._context = context
        self._stopping = threading.Event()
        self._former = former
        self._in_hand: Sequence[Given] = ()
        self._topics = TopicReaders(context, self.inbox.put_topics)
        self.owner = PartitionOwner(partition, context, membership, self._stopping, self.inbox.call)
        self._recovery = Recovery(self.owner)
        self._end = threading.Lock()  # guards the next two: the second of thread and close() closes the table
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
        self._context.housekeeping.trims.leave(self.partition)
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def give_up(self) -> list[Input]:
        """Leave the thread to itself: it writes nothing more. Returns its uncommitted inputs, for its replacement."""
        self._stopping.set()
        # What was read of adopted topics is read again by the replacement's own readers.
        left = [one for one in (*self._in_hand, *self.inbox.take_all()) if isinstance(one, Input)]
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
        self.owner.state.close()

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
            # Without the cursor it is not known what was decided: to serve the shard might store messages twice. It is the
            # same for every worker, so no worker ends because of it.
            log.critical("%s is not served, its cursor must be mended: %s", self.name, error)
            self._stopping.wait()
        except BaseException as error:  # noqa: BLE001 - handed to the worker, which ends
            self._context.on_crash(error)
        finally:
            self._topics.end()
            self.owner.leave()
            self._context.housekeeping.trims.leave(self.partition)
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
        deadline = self.owner.state.core.next_deadline()
        if inputs or (deadline is not None and deadline <= self._context.clock()):
            self._in_hand = inputs
            self._notice_new_topics(inputs)
            self._recovery.process(inputs)
            self._in_hand = ()
            self._topics.decided(inputs)
        self._topics.follow(self.owner.state.core)

    def _notice_new_topics(self, given: Sequence[Given]) -> None:
        """Records may come from a topic that was made anew or cut back: they must not pass for those that were decided."""
        inputs = [one for one in given if isinstance(one, Input)]
        if self.owner.state.core.cursor.anew(inputs):
            self.owner.rebuild()  # which looks at the topics
            left = self.owner.state.core.cursor.anew(inputs)
            if left:
                log.error(
                    "%s: %d records from offset %d on are passed over", self.name, len(left), left[0].offset
                )

    def _seconds_to_wait(self) -> float | None:
        """Seconds until something must be done although nothing arrives; None: there is nothing."""
        deadline = self.owner.state.core.next_deadline()
        if deadline is None:
            return None
        return min(max(0.0, (deadline - self._context.clock()) / 1e9), 3600.0)

    # ------------------------------------------------------------ taking over

    def _take_over(self) -> None:
        started = time.monotonic()
        self._inherit()
        restored, kept = self.owner.take_over()
        self._topics.follow(self.owner.state.core)
        found = "its state was current" if kept else f"{restored} records restored"
        log.info("%s: ready after %.2f s, %s", self.name, time.monotonic() - started, found)

    def _inherit(self) -> None:
        """The state of the last stay at this worker is taken over; from a thread that is stuck in a call it cannot be."""
        former, self._former = self._former, None
        if former is None:
            return
        if former.stop(_STUCK_SECONDS):
            self.owner.state = former.owner.state
        else:
            log.error("%s: its former thread is stuck: the state is restored beside it", self.name)
            former.close()
            self.owner.state = ShardState(self.partition, self._context, apart=True)
