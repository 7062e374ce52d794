"""The shards of one worker: started, stopped and handed over as the consumer group says (docs/design/0010).

All of it runs in the event loop; what blocks runs in threads of its own. Rebalances are eager: every shard stops, and
one that comes back finds its state in memory, current unless another worker owned the partition in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from railgun.errors import ConfigError
from railgun.kafka.ends import Place
from railgun.kafka.readings import Reading
from railgun.kafka.topic_admin import topic_ids
from railgun.shard.drain import Input
from railgun.worker.context import ShardContext
from railgun.worker.group.group_offsets import commit_regularly
from railgun.worker.group.membership import Membership, NotAMember, confirmed, membership_of, rejoin
from railgun.worker.shards.driver import ShardDriver
from railgun.worker.shards.recovery import OwnerLost, ShardStopped
from railgun.worker.skew import SkewWatch

log = logging.getLogger("railgun.worker")

_STOP_SECONDS: Final = 4.0  # below the session time-out of 6 s
_WATCH_SECONDS: Final = 2.0
_STUCK_SECONDS: Final = 20.0  # longer than any call is allowed to take
_TOPICS_SECONDS: Final = 3.0
_PARALLEL: Final = 32  # an init takes up to 2 s on an open transaction: never one after the other


class ShardPool:
    """Every partition that this worker owns, by number."""

    def __init__(self, group: str, admin: AdminClient) -> None:
        self._group = group
        self._admin = admin
        self._consumer: Any = None
        self._context: ShardContext | None = None
        self._running: dict[int, ShardDriver] = {}
        self._dormant: dict[int, ShardDriver] = {}
        self._paused: set[int] = set()
        self._skew = SkewWatch()
        self._threads = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="railgun-takeover")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def use(self, context: ShardContext) -> None:
        """The context is known only after the worker has looked at the cluster."""
        self._context = context
        self._loop = asyncio.get_running_loop()
        duties = (
            self._watch(context),
            self._watch_topics(context),
            commit_regularly(self._progress, lambda: self._consumer),
        )
        self._tasks = [self._loop.create_task(self._ended_by_errors(duty, context)) for duty in duties]

    async def _ended_by_errors(self, duty: Coroutine[Any, Any, None], context: ShardContext) -> None:
        """An error in a duty of the worker ends the worker."""
        try:
            await duty
        except Exception as error:  # noqa: BLE001 - handed to the worker, which ends
            context.on_crash(error)

    async def _watch(self, context: ShardContext) -> None:
        """Replace shards whose thread does not come back from librdkafka, whatever time-out it was given (seen)."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            for shard in list(self._running.values()):
                if shard.owner.stuck_for() > _STUCK_SECONDS:
                    self._replace(shard, context)

    def _progress(self) -> dict[Place, Reading]:
        """The reading of each partition, of the shards that decided something in this generation."""
        return {
            place: reading
            for shard in self._running.values()
            if self.is_current(shard.membership)
            for place, reading in shard.owner.progress.items()
        }

    async def _watch_topics(self, context: ShardContext) -> None:
        """Notice topics that were deleted and made anew: a reader may be anywhere in them, so all begin again."""
        names = context.names
        known: dict[str, str] = {}
        while True:
            await asyncio.sleep(_TOPICS_SECONDS)
            try:
                found = await asyncio.to_thread(topic_ids, self._admin, (names.commands, names.forwards))
            except KafkaException as error:
                log.info("the topics could not be looked at: %s", error)
                continue
            for topic in (names.commands, names.forwards):
                if topic not in found:
                    log.error(
                        "the topic %s is gone: make it again with railgun init, or restart a worker", topic
                    )
            changed = [topic for topic, number in found.items() if known.get(topic, number) != number]
            known |= found
            if changed and self._consumer is not None:
                log.error(
                    "%s was deleted and made anew: all shards are taken over again", " and ".join(changed)
                )
                rejoin(self._consumer)

    def _replace(self, stuck: ShardDriver, context: ShardContext) -> None:
        log.error("%s: a call to the brokers does not return, its thread is replaced", stuck.name)
        fresh = ShardDriver(stuck.partition, context, stuck.membership, stuck)
        fresh.inbox.put(stuck.give_up())
        self._running[stuck.partition] = fresh
        fresh.start()

    # ------------------------------------------------------------ records

    def receive(self, partition: int, forwarded: bool, generation: int, records: Iterable[Any]) -> None:
        """Hand records of one fetch over. Those fetched for a former assignment are dropped: they come again."""
        shard = self._running.get(partition)
        came = list(records)
        if shard is None or shard.membership.generation != generation or not came or self._context is None:
            return
        arrived, newest = self._context.clock(), came[-1].timestamp * 1_000_000
        self._skew.note(newest, arrived)
        inputs: Sequence[Input] = [
            Input(
                forwarded,
                record.offset,
                record.timestamp * 1_000_000,
                record.key,
                record.headers,
                record.value,
                arrived,
                newest,
            )
            for record in came
        ]
        if not shard.inbox.put(inputs) and partition not in self._paused:
            self._paused.add(partition)
            for tp in self._places(partition):
                self._consumer.on_buffer_full(tp)
            if shard.inbox.has_room:
                self._resume(partition)  # the shard took everything before it could see the pause

    def on_room(self, partition: int) -> None:
        """From a shard's thread: its inbox can take more."""
        if partition in self._paused and self._loop is not None:
            self._loop.call_soon_threadsafe(self._resume, partition)

    def _resume(self, partition: int) -> None:
        if partition in self._paused:
            self._paused.discard(partition)
            for tp in self._places(partition):
                self._consumer.on_buffer_drop(tp)

    def _places(self, partition: int) -> list[Any]:
        return [tp for tp in self._consumer.assignment() if tp.partition == partition]

    # ------------------------------------------------------------ rebalances

    async def assigned(self, consumer: Any, commands: set[int], forwards: set[int]) -> None:
        """Take the partitions over: all producers at once, then every shard restores in its own thread."""
        if self._context is None:
            raise RuntimeError("partitions were assigned before the worker was prepared")
        self._consumer = consumer
        if commands != forwards:
            raise ConfigError(
                f"the consumer group gave this worker partitions {sorted(commands)} of the commands but "
                f"{sorted(forwards)} of the forwards: all workers of a group must be railgun workers"
            )
        await self.revoked()  # nothing, after an orderly rebalance
        try:
            membership = membership_of(consumer, self._group)
        except NotAMember:
            log.warning("the assignment was out of date before it could be taken up")
            return
        taken = [
            ShardDriver(partition, self._context, membership, self._dormant.pop(partition, None))
            for partition in sorted(commands)
        ]
        for shard in self._dormant.values():
            shard.close()
        self._dormant.clear()
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(self._threads, self._fence, shard) for shard in taken))
        if not self.is_current(membership):
            self._dormant = {shard.partition: shard for shard in taken}
            log.warning("the assignment was out of date before its shards could start")
            return
        for shard in taken:
            self._running[shard.partition] = shard
            shard.start()

    def _fence(self, shard: ShardDriver) -> None:
        try:
            shard.owner.init_producer()
        except (ShardStopped, OwnerLost) as error:
            # Its thread finds out for itself, if it is started.
            log.info("%s: not initialised: %s", shard.name, error)

    async def revoked(self) -> None:
        """Finish or abort every drain under way; keep the states, they may come back."""
        running, self._running = self._running, {}
        self._paused.clear()
        loop = asyncio.get_running_loop()
        stops = (loop.run_in_executor(self._threads, shard.stop, _STOP_SECONDS) for shard in running.values())
        for shard, ended in zip(running.values(), await asyncio.gather(*stops), strict=True):
            if not ended:
                log.warning(
                    "%s: still busy after %.0f s, its last drain will be fenced", shard.name, _STOP_SECONDS
                )
        self._dormant |= running

    async def close(self) -> None:
        """The worker ends."""
        for task in self._tasks:
            task.cancel()
        await self.revoked()
        for shard in self._dormant.values():
            shard.close()
        self._dormant.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------ asked by the shards' threads

    def is_current(self, membership: Membership) -> bool:
        """Whether the worker still believes to be this member of this generation."""
        try:
            return membership_of(self._consumer, self._group) == membership
        except NotAMember:
            return False

    def confirmed(self, membership: Membership) -> bool | None:
        """Whether the broker says that this member is part of the present generation; None while it is not known."""
        return confirmed(self._consumer, membership)
