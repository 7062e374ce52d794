"""A worker whose disk is full after its commits: everything that was acknowledged is stored once, on real Kafka."""

from __future__ import annotations

import pytest

from railgun.model.headers import LOG_SEQUENCE, MSG_ID
from railgun.protocol.routing import partition_of
from tests.support.cell import Cell
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS

pytestmark = pytest.mark.kafka


@pytest.mark.rule("CLU-11")
def test_what_was_committed_on_a_full_disk_is_stored_once(cell: Cell) -> None:
    worker = cell.worker(program="tests.support.full_disk_worker")
    worker.wait_for(": ready after", times=PARTITIONS)
    client = cell.client
    client.create_stream("ORDERS")
    full, shard, sent = worker.folder / "full", partition_of("ORDERS", PARTITIONS), 0

    def publish(count: int) -> int:
        nonlocal sent
        ids = [str(number) for number in range(sent, sent + count)]
        sent += count
        return client.send_pack("ORDERS", [b"x"] * count, ids=ids)

    for round_ in range(5):  # the disk is full for a moment, every second time
        full.write_text(f"{shard} {round_ % 2}")
        assert client.pack_reply(publish(50)).runs == [(0, 50, 1 + 50 * round_)]
        wait_until(lambda: full.read_text() == f"{shard} 0", "that the disk was full")
    full.write_text(f"{shard} 1000")
    last = publish(50)
    assert worker.await_end() != 0
    assert "make room or replace the disk" in worker.text()
    full.unlink()
    worker.start()
    assert client.pack_reply(last).runs == [(0, 50, 251)]
    again = client.publish("ORDERS", *[b"x"] * 300, ids=[str(number) for number in range(300)])
    assert (again.runs, len(again.duplicates)) == ([], 300)
    log = [dict(record.headers() or []) for record in client.records(client.names.log("ORDERS"))]
    found = [(headers[MSG_ID], headers[LOG_SEQUENCE]) for headers in log]
    assert found == [(b"%d" % number, b"%d" % (number + 1)) for number in range(300)]
    assert client.info("ORDERS")["state"]["messages"] == 300
