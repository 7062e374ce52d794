"""The Faust application of a worker: command line, life cycle, group membership, and the agent that receives commands.

Faust decides which partitions are ours and brings the records; everything else is the shards' (docs/design/0010). Not used:
Faust's transactions, tables and topic creation. ``faust -A railgun worker`` finds the app as ``railgun.app``.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import threading
from pathlib import Path
from typing import Any, Final

import faust
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from faust.app.base import BootStrategy
from faust.transport import drivers

from railgun.errors import RailgunError
from railgun.kafka.cluster_record import prepare_cluster
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.topic_admin import Topics
from railgun.protocol.registry import Protected
from railgun.semantics.messages.budget import WorkerMemory
from railgun.semantics.streams.publishing.origin import origin_headers
from railgun.shard.clock import SteadyClock
from railgun.state.folder import StateFolder
from railgun.worker.context import ShardContext
from railgun.worker.group.log_noise import limit_repeats
from railgun.worker.group.resumption import NoTables
from railgun.worker.housekeeping import Housekeeping
from railgun.worker.log_reading import LogReading
from railgun.worker.outbox import Outbox
from railgun.worker.settings import NodeSettings, load_settings
from railgun.worker.shards.pool import ShardPool

log = logging.getLogger("railgun.worker")

SESSION_SECONDS: Final = 6.0  # a dead worker's partitions are taken over after this
_CRASH_SECONDS: Final = 20.0  # for an orderly end after a crash; then a hard one


class _Boot(BootStrategy):
    """Faust's start-up, with a web server only where the configuration names a port."""

    def web_server(self) -> Any:
        app: Any = self.app
        return super().web_server() if app.settings.node.web_port else []


class RailgunApp(faust.App):
    """One worker. An error that it cannot recover from ends the process with an exit code other than 0."""

    BootStrategy = _Boot

    def __init__(self, settings: NodeSettings, held: Protected | None, **options: Any) -> None:
        self.settings = settings
        self._held = held
        self.kafka_settings: KafkaSettings = settings.kafka
        names = settings.names
        self.batch_topics = frozenset({names.commands, names.forwards})
        self.kafka_admin = AdminClient(settings.kafka.admin())
        self.pool = ShardPool(names.group, self.kafka_admin)
        self._folder: StateFolder | None = None
        self._housekeeping: Housekeeping | None = None
        self._log_reading = LogReading(settings.kafka)
        self._main_loop: asyncio.AbstractEventLoop | None = None
        super().__init__(names.group, **options)

    # ------------------------------------------------------------ life

    async def on_start(self) -> None:
        """Look at the cluster before joining the group; a worker that cannot serve must not take partitions."""
        try:
            self.pool.use(await asyncio.to_thread(self._prepare, asyncio.get_running_loop()))
        except RailgunError as error:
            log.critical("the worker cannot start: %s", error)
            raise
        # Ids and subjects are millions of long-lived objects without cycles: the collector would walk them for nothing.
        gc.freeze()
        gc.set_threshold(100_000, 50, 50)
        await super().on_start()

    def _prepare(self, loop: asyncio.AbstractEventLoop) -> ShardContext:
        settings = self.settings
        replicas = settings.cluster.replication_factor
        held = self._held or prepare_cluster(settings.kafka, settings.protected, replicas)
        topics = Topics(self.kafka_admin, replicas)
        folder = self._folder = StateFolder(settings.data_dir)

        self._main_loop = loop
        producer = Producer(settings.kafka.producer())
        outbox = Outbox(producer)
        housekeeping = self._housekeeping = Housekeeping(
            self.kafka_admin, topics, outbox, self.on_thread_crash
        )
        housekeeping.start()
        node = settings.node.name or f"{socket.gethostname()}-{os.getpid()}"
        return ShardContext(
            kafka=settings.kafka,
            names=settings.names,
            partitions=held.partitions,
            reply_factor=held.reply_factor,
            limits=settings.limits,
            test_clock=settings.node.test_clock,
            node=node,
            origin=origin_headers(node, settings.cluster.name),
            folder=folder.path,
            identity=topics.identity(settings.names.changelog),
            admin=self.kafka_admin,
            topics=topics,
            housekeeping=housekeeping,
            outbox=outbox,
            clock=SteadyClock(guard=threading.Lock()),
            memory=WorkerMemory(threading.Lock),
            read_log=self._log_reading.read,
            is_current=self.pool.is_current,
            confirmed=self.pool.confirmed,
            on_room=self.pool.on_room,
            on_crash=self.on_thread_crash,
        )

    def on_thread_crash(self, error: BaseException) -> None:
        """A thread has failed; called from that thread."""
        assert self._main_loop is not None, "threads are started after the worker has looked at the cluster"
        self._main_loop.call_soon_threadsafe(self._on_crash, error)

    def _on_crash(self, error: BaseException) -> None:
        """A thread failed for a reason that has no rule: the worker ends, in order if that works, else by force."""
        log.critical("the worker ends: %s", error, exc_info=error)
        last_resort = threading.Timer(_CRASH_SECONDS, lambda: os._exit(70))
        last_resort.daemon = True  # it does not hold up an orderly end, and goes on while other threads do
        last_resort.start()
        self._crash_task = asyncio.ensure_future(self.crash(error))

    async def release(self) -> None:
        """Stop the shards and give back what they held."""
        await self.pool.close()
        if self._housekeeping is not None:
            await asyncio.to_thread(self._housekeeping.stop)
        await asyncio.to_thread(self._log_reading.close)
        if self._folder is not None:
            self._folder.release()
            self._folder = None

    # ------------------------------------------------------------ the group's decisions

    async def take_assignment(self) -> None:
        names = self.settings.names
        held = self.consumer.assignment()
        of = {topic: {tp.partition for tp in held if tp.topic == topic} for topic in self.batch_topics}
        await self.pool.assigned(self.consumer, of[names.commands], of[names.forwards])


def create_app(
    settings: NodeSettings | None = None,
    *,
    config: Path | None = None,
    data_dir: Path | None = None,
    held: Protected | None = None,
) -> RailgunApp:
    """The app of a worker, configured by ``./railgun.toml`` unless told otherwise. Raises ConfigError.

    ``held`` is what :func:`prepare_cluster` found; without it the worker looks when it starts.
    """
    if settings is None:
        settings = load_settings(config, data_dir=data_dir)
    limit_repeats()
    # An installed railgun is found by its entry point; this also serves a checkout that is only on the path.
    drivers.TRANSPORTS.aliases["railgun"] = "railgun.worker.group.transport:Transport"
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    app = RailgunApp(settings, held, **_faust_options(settings))
    _receive_records(app)
    _follow_the_group(app)
    return app


def _faust_options(settings: NodeSettings) -> dict[str, Any]:
    """Settings of Faust: what it does for a worker, and what it must leave to railgun."""
    return {
        "broker": ";".join(f"railgun://{server}" for server in settings.kafka.servers()),
        "autodiscover": False,
        "datadir": str(settings.data_dir / "faust"),
        "store": "memory://",
        "TableManager": NoTables,
        # Its own assignor keeps commands and forwards together only while this is 1 or more (docs/design/0010).
        "table_standby_replicas": 1,
        "topic_allow_declare": False,  # topics are made by railgun, with their own settings
        "topic_disable_leader": True,
        "broker_session_timeout": SESSION_SECONDS,
        "broker_heartbeat_interval": 1.0,
        "broker_request_timeout": 30.0,
        "broker_rebalance_timeout": 15.0,
        "broker_commit_interval": 60.0,  # nothing is ever acknowledged to Faust: group_offsets commits
        "consumer_auto_offset_reset": "earliest",  # expired offsets: the cursor in the changelog drops what was done
        "stream_wait_empty": False,
        "stream_recovery_delay": 0.0,
        "web_port": settings.node.web_port or 6066,
        "web_enabled": bool(settings.node.web_port),
    }


def _receive_records(app: RailgunApp) -> None:
    """The one agent: it hands commands and forwards to their shard."""
    names, pool = app.settings.names, app.pool
    topic = app.topic(
        names.commands, names.forwards, key_serializer="raw", value_serializer="raw", acks=False
    )
    forwards = names.forwards

    @app.agent(topic, name="receive")
    async def receive(stream: Any) -> None:
        async for event in stream.events():
            message = event.message
            pool.receive(message.partition, message.topic == forwards, message.generation_id, message.records)


def _follow_the_group(app: RailgunApp) -> None:
    """Shards begin and end as the group says; all of them end with the worker."""

    @app.on_rebalance_complete.connect(weak=False)
    async def take(*_: Any, **__: Any) -> None:
        await app.take_assignment()

    @app.on_partitions_revoked.connect(weak=False)
    async def give(*_: Any, **__: Any) -> None:
        await app.pool.revoked()

    @app.on_before_shutdown.connect(weak=False)
    async def end(*_: Any, **__: Any) -> None:
        await app.release()
