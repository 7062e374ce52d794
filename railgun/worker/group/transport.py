"""Faust's transport ``railgun://``: aiokafka for the group, librdkafka for the records, one event for many of them.

Faust's own path costs 165 µs a record; here an event carries a list of them for the topics that the app names in
``batch_topics``, which a :class:`~railgun.worker.group.record_reader.RecordReader` reads. Every other topic goes Faust's ordinary
way. The consumer reads committed records only, and is pinned to Faust's own assignor, the only one that keeps two topics
co-partitioned.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import aiokafka
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from confluent_kafka import KafkaException
from faust.exceptions import ImproperlyConfigured
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

from railgun.kafka.ends import Place
from railgun.kafka.readings import Reading, go_on, look_from_worker
from railgun.worker.group.record_reader import RecordReader

log = logging.getLogger("railgun.worker")

_FETCH_WAIT_MS: Final = 50  # Faust's 1,500 delays every pause and seek by over a second
_FETCH_BYTES: Final = 4 * 1024 * 1024  # of one partition; a larger record still comes, alone
_POLL_SECONDS: Final = 1.0
_INTEREST_SECONDS: Final = 30.0
_LOG_APPEND_TIME: Final = 1
_PAUSED_SECONDS: Final = 0.02
_LOOK_SECONDS: Final = 30.0


class BatchMessage(ConsumerMessage):
    """A message that stands for many: ``records`` are aiokafka's, in order."""

    __slots__ = ("records",)

    records: Sequence[Any]


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """The thread that talks to the brokers."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        conf = self.app.conf
        if conf.table_standby_replicas < 1:
            raise ImproperlyConfigured(
                "table_standby_replicas must be 1 or more: it keeps the topics co-partitioned"
            )
        self._assignor = self.app.assignor
        return aiokafka.AIOKafkaConsumer(
            client_id=conf.broker_client_id,
            group_id=conf.id,
            bootstrap_servers=driver.server_list(transport.url, transport.default_port),
            partition_assignment_strategy=[self._assignor],
            enable_auto_commit=False,
            auto_offset_reset=conf.consumer_auto_offset_reset,
            max_poll_interval_ms=int(conf.broker_max_poll_interval * 1000),
            max_partition_fetch_bytes=_FETCH_BYTES,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            request_timeout_ms=int(conf.broker_request_timeout * 1000),
            session_timeout_ms=int(conf.broker_session_timeout * 1000),
            rebalance_timeout_ms=int(conf.broker_rebalance_timeout * 1000),
            heartbeat_interval_ms=int(conf.broker_heartbeat_interval * 1000),
            isolation_level="read_committed",
            metadata_max_age_ms=conf.consumer_metadata_max_age_ms,
            **transport.auth(),
        )

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Partitions that the reader reads are not fetched here too."""
        app: Any = self.app
        ours = [TopicPartition(*tp) for tp in assigned if tp.topic in app.batch_topics]
        self._ensure_consumer().pause(*ours)
        await super().on_partitions_assigned(assigned, generation_id)

    async def seek_to_committed(self) -> Any:
        """Seek to the offsets that the group has committed, if they are of the same topic; without one, to the beginning.

        aiokafka leaves a partition without a commit where it is: records that a rebalance dropped would never come again.
        """
        return await self.call_thread(self._seek_everywhere)

    async def _seek_everywhere(self) -> dict[Any, int | None]:
        consumer = self._ensure_consumer()
        assigned = list(consumer.assignment())
        committed = await consumer._coordinator.fetch_committed_offsets(assigned)
        told = {
            (place.topic, place.partition): Reading.from_metadata(known.offset, known.metadata or "")
            for place, known in committed.items()
            if known.offset >= 0
        }
        starts = await self._starts(told)
        found = {place: starts.get((place.topic, place.partition)) for place in assigned}
        for place, offset in found.items():
            if offset is not None:
                consumer.seek(place, offset)
        fresh = [place for place, offset in found.items() if offset is None]
        if fresh:
            await consumer.seek_to_beginning(*fresh)
        return found

    async def _starts(self, told: Mapping[Place, Reading]) -> dict[Place, int]:
        """The offsets from which to read. A start that is too early does no harm: the cursor knows what was decided."""
        app: Any = self.app
        deadline = time.monotonic() + _LOOK_SECONDS
        while True:
            try:
                found = await asyncio.to_thread(look_from_worker, app.kafka_settings, app.kafka_admin, told)
            except KafkaException as error:
                log.warning("the topics cannot be looked at yet: %s", error)
                if time.monotonic() > deadline:
                    log.error(
                        "the topics are read from the group's offsets on, without having looked at them"
                    )
                    return {place: reading.offset for place, reading in told.items()}
                await asyncio.sleep(1.0)
            else:
                return {place: go_on(told[place], one).offset for place, one in found.items()}


class Consumer(driver.Consumer):
    """The consumer as the app sees it."""

    _reader: RecordReader | None = None
    _others: asyncio.Future[Any] | None = None  # a fetch of topics that are not ours
    _asked = 0.0  # when aiokafka was last asked for records

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Faust's watch over acknowledged offsets says nothing about us: shards commit, and watch, themselves."""

    # -- where records come from

    async def perform_seek(self) -> None:
        """Begin where the group's offsets are."""
        await super().perform_seek()
        app: Any = self.app
        if self._reader is None:
            self._reader = RecordReader(app.kafka_settings, app.on_thread_crash)
        self._reader.assign(
            {
                (tp.topic, tp.partition): at
                for tp, at in self._read_offset.items()
                if tp.topic in app.batch_topics
            }
        )

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Read no more until the group has decided."""
        if self._reader is not None:
            self._reader.assign({})
        await super().on_partitions_revoked(revoked)

    async def on_stop(self) -> None:
        """End the reader with the consumer."""
        if self._reader is not None:
            await asyncio.to_thread(self._reader.close)
        await super().on_stop()

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:
        app: Any = self.app
        active = active_partitions or set()
        ours = {tp for tp in active if tp.topic in app.batch_topics}
        others = active - ours
        if self._reader is None or not ours:
            return await super()._getmany(active_partitions=active_partitions, timeout=timeout)
        if not others and self._others is None:
            await self._show_interest()
            return _by_tp(await self._reader.take(ours, timeout))
        if self._others is None:
            self._others = asyncio.ensure_future(super()._getmany(active_partitions=others, timeout=timeout))
        taking = asyncio.ensure_future(self._reader.take(ours, timeout))
        await asyncio.wait({taking, self._others}, return_when=asyncio.FIRST_COMPLETED)
        if not taking.done():
            taking.cancel()
        found = _by_tp(taking.result()) if taking.done() and not taking.cancelled() else {}
        if self._others.done():
            fetched, self._others = self._others, None
            found |= fetched.result()
        return found

    async def _show_interest(self) -> None:
        """aiokafka leaves the group if it is not asked for records for long."""
        now = time.monotonic()
        if now - self._asked > _INTEREST_SECONDS:
            self._asked = now
            await super()._getmany(active_partitions=set(), timeout=0.0)

    # -- to the agents

    async def _drain_messages(self, fetcher: Any) -> None:
        app: Any = self.app
        batched = app.batch_topics
        try:
            while not (self.should_stop or fetcher.should_stop):
                await asyncio.sleep(0)
                if self.flow_active and not self._get_active_partitions():
                    # Every partition is paused because its inbox is full: Faust would sleep a whole second here.
                    await self.sleep(_PAUSED_SECONDS)
                    continue
                generation = self.app.consumer_generation_id
                records, active = await self._wait_next_records(_POLL_SECONDS)
                if not records:
                    continue
                if self._moved_on(generation):
                    # A rebalance came during the fetch. What was fetched is dropped, so the position must go back.
                    await self._seek_back()
                    continue
                for tp, found in records.items():
                    if self._moved_on(generation):
                        break
                    if active is None or tp in active or tp in self._buffered_partitions:
                        if tp.topic in batched:
                            await self._deliver_batch(tp, found, generation)
                        else:
                            await self._deliver_each(tp, found)
        except self.consumer_stopped_errors:
            if not self.transport.app.should_stop:
                raise
        except asyncio.CancelledError:
            if not self.transport.app.should_stop:
                raise

    def _moved_on(self, generation: int) -> bool:
        return not self.flow_active or self.app.consumer_generation_id != generation

    async def _seek_back(self) -> None:
        try:
            await self.perform_seek()
        except KafkaError as error:  # the rebalance under way seeks again
            self.log.info("the position could not be reset during a rebalance: %r", error)

    async def _deliver_batch(self, tp: TP, found: Sequence[Any], generation: int) -> None:
        # Offsets may be lower than before: librdkafka goes to the beginning of a topic that was made anew or cut back.
        last = found[-1]
        message = BatchMessage(
            tp.topic, tp.partition, last.offset, last.timestamp / 1000.0, _LOG_APPEND_TIME, None,
            b"", b"", None, 0, 0, TP(tp.topic, tp.partition), generation_id=generation,
        )  # fmt: skip
        message.records = found
        # Before the wait: a rebalance during it seeks back, and what it then expects must stand.
        self._read_offset[tp] = last.offset + 1
        await self.callback(message)  # at once: the agent only hands it on, so its queue is never full

    async def _deliver_each(self, tp: TP, found: Sequence[Any]) -> None:
        """Faust's own way, for topics that are not ours."""
        for record in found:
            expected = self._read_offset.get(tp)
            if expected is not None and record.offset < expected:
                continue
            if expected and record.offset - expected > 1 and self.app.topics.acks_enabled_for(tp.topic):
                await self._add_gap(tp, expected + 1, record.offset)
            await self.wait_first(self.callback(self._to_message(tp, record)), self.suspend_flow.wait())
            self._read_offset[tp] = record.offset


def _by_tp(records: Mapping[tuple[str, int], Sequence[Any]]) -> dict[TP, Sequence[Any]]:
    return {TP(*place): found for place, found in records.items()}


class Producer(driver.Producer):
    """Faust's own producer: it opens a connection and railgun sends nothing through it."""

    def _settings_auth(self) -> dict[str, Any]:
        transport: Any = self.transport
        auth: dict[str, Any] = transport.auth()
        return auth


class Transport(driver.Transport):
    """The transport of ``railgun://host:port``."""

    Consumer: ClassVar[type] = Consumer
    Producer: ClassVar[type] = Producer

    def auth(self) -> dict[str, Any]:
        """Credentials and TLS, rendered from the same settings that the shards use."""
        app: Any = self.app
        auth: dict[str, Any] = app.kafka_settings.aiokafka_auth()
        return auth
