"""The cluster under chaos that copies: a chain of sources, a mirror, a counter that adds up twenty, and two pipelines."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import railgun
from railgun.errors import MessageNotFound
from railgun.model import headers as h
from tests.chaos.cluster import PREFIX, SESSION, TAKEOVER, WINDOW, Torment, TormentedCluster
from tests.chaos.copying import sourcing_audit as check
from tests.chaos.copying.counting import KINDS, Batches, CountingPublisher, counter_of, stream_of
from tests.chaos.copying.logs import Record, read_logs
from tests.chaos.copying.pipeline import HandOver, PipelineClient, PublishAndConfirm
from tests.chaos.publisher import Publisher
from tests.chaos.rounds import SEED
from tests.support.sourcing import lag
from tests.support.waiting import wait_until

ORDERS, SECOND, THIRD, MIRROR = "ORDERS", "SECOND", "THIRD", "MIRROR"  # in three shards
DONE, HANDED = "DONE", "HANDED"
PIPELINES = {DONE: PublishAndConfirm, HANDED: HandOver}  # by output, which is also the name of the consumer
SUM = "SUM"
UPSTREAMS = [f"C{number}" for number in range(20)]
COUNTING: dict[str, Any] = {"allow_msg_counter": True, "allow_atomic": True}
CLIENTS = 2
ACK_WAIT = 5.0

Source, Transform = railgun.StreamSource, railgun.SubjectTransform


def copying() -> dict[str, dict[str, Any]]:
    """The streams that copy. Those of the chain have no window: it would hide that a message was copied twice."""
    added = [
        Source(name=name, subject_transforms=[Transform(src=f"{name}.*", dest=f"{SUM}.$1")])
        for name in UPSTREAMS
    ]
    return {
        SECOND: {"sources": [Source(name=ORDERS)]},
        THIRD: {"sources": [Source(name=SECOND)]},
        MIRROR: {"mirror": Source(name=ORDERS)},
        SUM: {**COUNTING, "subjects": [f"{SUM}.*"], "sources": added, "duplicate_window": WINDOW},
    }


class CopyingCluster(TormentedCluster):
    """As its base, with clients of pipelines that work all the while."""

    pause = 0.15
    silence = (1.0, SESSION + 2.0)  # shorter than a session: the worker goes on as the owner

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {ORDERS: {}, DONE: {}, **dict.fromkeys(UPSTREAMS, COUNTING)})
        self.counted: dict[str, int] = {}  # the sequence of each increment that was acked, by its id
        self.batches = {name: Batches() for name in [*UPSTREAMS, SUM]}
        self.names_of_all = [*self.streams, *copying(), HANDED]
        self._clients: list[PipelineClient] = []

    def start(self) -> None:
        super().start()
        with self.connect() as rg:
            for name, fields in copying().items():
                rg.create_stream(name, **fields)
            rg.create_stream(
                HANDED, subjects=[f"{HANDED}.*"]
            )  # without a window that would hide a second hand-over
            for output in PIPELINES:
                rg.stream(ORDERS).create_consumer(output, ack_wait=ACK_WAIT)
        for output, kind in PIPELINES.items():
            for _ in range(CLIENTS):
                client = kind(self.broker.bootstrap, PREFIX, ORDERS, output, output)
                client.start()
                self._clients.append(client)

    def stop(self) -> None:
        try:
            for client in self._clients:
                client.finish(TAKEOVER)
        finally:
            super().stop()

    # ------------------------------------------------------------ one round

    def publishers(self, number: int) -> Sequence[Publisher]:
        address = self.broker.bootstrap, PREFIX
        counting = CountingPublisher(
            *address, list(self.batches), f"r{number}", f"{SEED} counting {number}", pause=self.pause
        )
        return [Publisher(*address, ORDERS, f"r{number}", pause=self.pause), counting]

    def finished(self, publisher: Publisher) -> None:
        if not isinstance(publisher, CountingPublisher):
            super().finished(publisher)
            return
        self.counted |= publisher.acked
        for name, batches in publisher.batches.items():
            self.batches[name].sizes |= batches.sizes
            self.batches[name].acked |= batches.acked
            self.batches[name].refused |= batches.refused

    def round(self, number: int, action: Torment, dice: random.Random) -> str:
        """As :meth:`torment`; then everything comes to rest."""
        self.muster()
        done = self.torment(number, action, dice)
        self.await_rest(done)
        return done

    def await_rest(self, after: str) -> None:
        """Until nothing is left to copy, to add up or to work on."""
        with self.connect(60.0) as rg:
            resting = {
                "the chain and the mirror": lambda: _all_copied(rg),
                "the pipelines": lambda: self._all_worked_off(rg),
                "the sum": lambda: _all_added_up(rg),
            }
            for what, rests in resting.items():
                wait_until(rests, f"{what} came to rest after: {after}", TAKEOVER, pause=0.3)

    def _all_worked_off(self, rg: railgun.Railgun) -> bool:
        for client in self._clients:
            if client.failure is not None:
                raise client.failure
        orders, wanted = rg.stream(ORDERS), rg.stream(ORDERS).info().state.messages
        for output in PIPELINES:
            info = orders.consumer(output).info()
            if info.num_pending or info.num_ack_pending or rg.stream(output).info().state.messages < wanted:
                return False
        return True

    def kill_both(self, dice: random.Random) -> str:
        """Nobody is left who knows anything that is not in Kafka."""
        lost = dice.randrange(2)
        for worker in self.workers:
            worker.kill()
        self.workers[lost].wipe()
        for worker in self.workers:
            worker.start()
        return f"kill -9 of both workers and the loss of the state folder of worker {lost}"

    @property
    def torments(self) -> list[Torment]:
        return [*super().torments, self.kill_both]

    # ------------------------------------------------------------ what came of it

    def audit(self) -> list[str]:
        """Everything that differs between acks, logs and infos."""
        topics = {self.names.log(name): name for name in self.names_of_all}
        logs = {topics[topic]: log for topic, log in read_logs(self.broker.bootstrap, topics).items()}
        found = {
            ORDERS: check.id_differences(logs[ORDERS], self.acked[ORDERS]),
            SECOND: check.source_differences(ORDERS, logs[ORDERS], logs[SECOND]),
            THIRD: check.source_differences(SECOND, logs[SECOND], logs[THIRD]),
            MIRROR: check.mirror_differences(logs[ORDERS], logs[MIRROR]),
            DONE: check.output_differences(logs[ORDERS], logs[DONE]),
            HANDED: check.output_differences(logs[ORDERS], logs[HANDED]),
            SUM: check.sum_differences(logs[SUM], {name: logs[name] for name in UPSTREAMS}),
        }
        for name, batches in self.batches.items():
            acked = {one: place for one, place in self.counted.items() if stream_of(one) == name}
            found[name] = [
                *found.get(name, []),
                *check.counter_differences(logs[name]),
                *check.id_differences(logs[name], acked),
                *check.batch_differences(logs[name], batches.sizes, batches.acked, batches.refused),
            ]
        with self.connect() as rg:
            for name, log in logs.items():
                found.setdefault(name, []).extend(_misstated(rg.stream(name), log))
        return [f"{name}: {one}" for name, wrong in found.items() for one in wrong]

    def infos(self) -> dict[str, object]:
        """What the owners say of all streams, but for what changes with time."""
        with self.connect() as rg:
            return {name: rg.stream(name).info(subjects=">").state for name in self.names_of_all}


def _misstated(stream: railgun.Stream, log: Sequence[Record]) -> list[str]:
    """What the owner says of a stream against what its log holds."""
    info = stream.info()
    state, told = info.state, [*([info.mirror] if info.mirror else []), *(info.sources or [])]
    said = (state.messages, state.last_seq, state.num_deleted)
    wrong = [f"{one.name}: {one.error}" for one in told if one.error is not None]
    seen = (len(log), log[-1].sequence if log else 0, 0)
    return wrong + ([f"info says {said}, the log {seen} (messages, last, deleted)"] if said != seen else [])


def _all_copied(rg: railgun.Railgun) -> bool:
    streams = [rg.stream(name) for name in (ORDERS, SECOND, THIRD, MIRROR)]
    return len({stream.info().state.messages for stream in streams}) == 1 and not any(map(lag, streams))


def _all_added_up(rg: railgun.Railgun) -> bool:
    """The ledgers tell how far each upstream was seen; a total tells how far it is."""
    return lag(rg.stream(SUM)) == 0 and asyncio.run(_ledgers_are_current(railgun.AsyncRailgun(rg.connection)))


async def _ledgers_are_current(rg: railgun.AsyncRailgun) -> bool:
    counters = [(name, number) for name in [SUM, *UPSTREAMS] for number in range(KINDS)]
    newest = await asyncio.gather(*[_newest(rg, name, counter_of(name, number)) for name, number in counters])
    found = dict(zip(counters, newest, strict=True))
    return all(_ledger(found[SUM, number]) == _totals(found, number) for number in range(KINDS))


async def _newest(rg: railgun.AsyncRailgun, stream: str, subject: str) -> railgun.StoredMessage | None:
    try:
        return await rg.stream(stream).get_last(subject)
    except MessageNotFound:
        return None


def _ledger(newest: railgun.StoredMessage | None) -> Mapping[str, Mapping[str, str]]:
    ledger: Mapping[str, Mapping[str, str]] = json.loads(
        (newest and newest.header(h.COUNTER_SOURCES)) or "{}"
    )
    return ledger


def _totals(
    newest: Mapping[tuple[str, int], railgun.StoredMessage | None], number: int
) -> Mapping[str, Mapping[str, str]]:
    found = {name: newest[name, number] for name in UPSTREAMS}
    return {name: {one.subject: one.json()["val"]} for name, one in found.items() if one is not None}
