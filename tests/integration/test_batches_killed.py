"""Batches while their worker is killed: each is in the log as a whole or not at all, as a plain consumer of Kafka sees it."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from railgun import PubAck, Railgun
from railgun.errors import ApiError, RailgunError
from railgun.model import headers as h
from railgun.protocol.topics import Names
from tests.chaos.rounds import SEED
from tests.support.batches import Sender
from tests.support.cell import Cell
from tests.support.naming import unique
from tests.support.worker_process import PARTITIONS, WorkerProcess

pytestmark = pytest.mark.kafka
KILLS = 4
PUBLISHERS = 3


@dataclass
class Sent:
    """What one publisher knows of its batches, by id."""

    sizes: dict[str, int] = field(default_factory=dict)
    acked: dict[str, PubAck] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)


def publish(rg: Railgun, name: str, seed: str, stop: threading.Event, sent: Sent) -> None:
    """Batches of one to forty messages until told to stop; every fourth is too large for one record."""
    chance = random.Random(seed)
    while not stop.is_set():
        count = chance.randint(1, 40)
        padding = bytes(2_500_000 // count) if chance.random() < 0.25 and count > 2 else b""
        batch = rg.batch(timeout=120)
        sent.sizes[batch.id] = count
        try:
            with batch:
                for number in range(count):
                    batch.add(f"{name}.{number % 5}", padding or b"%d" % number)
        except ApiError as error:
            sent.refused[batch.id] = error.err_code
        except RailgunError:
            continue  # its outcome is unknown
        else:
            assert batch.ack is not None
            sent.acked[batch.id] = batch.ack
        if chance.random() < 0.5:
            with suppress(RailgunError):  # its outcome is unknown: for a moment there may be no worker
                rg.publish(f"{name}.single", timeout=120)


def committed(cell: Cell, stream: str) -> dict[str, list[tuple[int, int, bool]]]:
    """By batch, as they lie in the log: (sequence of the stream, of the batch, whether it commits); singles are under no id."""
    settings = {
        "bootstrap.servers": cell.bootstrap,
        "group.id": unique("audit"),
        "enable.partition.eof": True,
    }
    reader = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
    found: dict[str, list[tuple[int, int, bool]]] = defaultdict(list)
    try:
        reader.assign([TopicPartition(Names(cell.prefix).log(stream), 0, 0)])
        while True:
            record = reader.poll(20)
            assert record is not None, "the log could not be read to its end"
            error = record.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            headers = dict(record.headers() or [])
            identity = (headers.get(h.BATCH_ID) or b"").decode()
            place = int(headers.get(h.BATCH_SEQUENCE) or 0)
            found[identity].append((int(headers[h.LOG_SEQUENCE]), place, h.BATCH_COMMIT in headers))
    finally:
        reader.close()


def restart(worker: WorkerProcess) -> None:
    worker.kill()
    worker.log.unlink()
    worker.start()
    worker.wait_for(": ready after", times=PARTITIONS)


@pytest.mark.slow
@pytest.mark.rule("BAT-12", "BAT-13", "BAT-14", "BAT-43")
def test_batches_are_whole_though_their_worker_is_killed(cell: Cell) -> None:
    print(f"seed {SEED}")
    worker, chance, stop = cell.ready_worker(), random.Random(SEED), threading.Event()
    with cell.connect(120) as rg:
        name = "BATCHES"
        stream = rg.create_stream(name, subjects=[f"{name}.*"], allow_atomic=True)
        sent = [Sent() for _ in range(PUBLISHERS)]
        threads = [
            threading.Thread(target=publish, args=(rg, name, f"{SEED} {number}", stop, one), daemon=True)
            for number, one in enumerate(sent)
        ]
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            stop.wait(chance.uniform(0.3, 3.0))  # when it is killed does not matter: any moment will do
            restart(worker)
        stop.set()
        for thread in threads:
            thread.join(150)
            assert not thread.is_alive()
        state = stream.info().state

    found = committed(cell, name)
    sequences = sorted(sequence for batch in found.values() for sequence, _, _ in batch)
    assert sequences == list(range(1, state.last_seq + 1))
    singles = found.pop("", [])
    assert len(singles) + sum(map(len, found.values())) == state.messages
    sizes = {batch: size for one in sent for batch, size in one.sizes.items()}
    for batch, messages in found.items():
        first, size = messages[0][0], sizes[batch]
        whole = [(first + place, place + 1, place + 1 == size) for place in range(size)]
        assert messages == whole, f"{batch} of {size} messages"
    for one in sent:
        assert one.acked, "a publisher has got nothing through"
        for batch, ack in one.acked.items():
            assert (found[batch][-1][0], len(found[batch])) == (ack.sequence, ack.count)
        assert not one.refused.keys() & found.keys(), "a batch that was refused is stored"
        assert set(one.refused.values()) <= {10176}


@pytest.mark.rule("BAT-25", "BAT-43")
def test_a_new_owner_knows_of_no_batch(cell: Cell) -> None:
    worker = cell.ready_worker()
    with cell.connect(60) as rg:
        name = unique("STAGED")
        stream = rg.create_stream(name, subjects=[f"{name}.*"], allow_atomic=True)
        sender = Sender(rg, stream)
        for number in range(50):
            sender.stage(f"B{number}", 1)
        assert sender.refused("MORE", 1)[0] == 10210
        restart(worker)
        assert sender.refused("B0", 2, "1")[0] == 10176
        assert sender.send("MORE", 1) is None
        assert stream.info().state.last_seq == 0
