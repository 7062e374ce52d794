"""A stream with very many messages, each with an id inside the de-duplication window; filled once for all rows."""

from __future__ import annotations

from typing import Final

from tests.benchmarks.arena import Arena
from tests.benchmarks.cluster import Cluster
from tests.benchmarks.rows.sides import StreamClient, many_subjects, new_ids, railgun_client
from tests.benchmarks.scale import PAYLOAD

FULL: Final = "stock"  # the cluster of the large stream
STREAM: Final = "STOCK"
_WINDOW: Final = 24 * 3600.0
_PORTION: Final = 100_000


def stocked_cluster(arena: Arena, count: int) -> Cluster:
    """The cluster whose stream STOCK holds at least so many messages."""
    cluster = arena.cluster(FULL)
    arena.once(FULL, lambda: _fill_railgun(cluster, count))
    return cluster


def stocked_nats(arena: Arena, count: int) -> None:
    """The same stream on a nats-server that holds nothing else."""

    def fill_nats() -> None:
        arena.fresh_nats()
        with arena.nats_client() as client:
            fill(client, count)

    arena.once("stock of nats", fill_nats)


def fill(client: StreamClient, count: int) -> None:
    client.create_stream(STREAM, [f"{STREAM.lower()}.>"], duplicate_window=_WINDOW)
    for start in range(0, count, _PORTION):
        portion = min(_PORTION, count - start)
        client.publish_all(many_subjects(STREAM, portion), PAYLOAD, new_ids(portion))


def _fill_railgun(cluster: Cluster, count: int) -> None:
    with railgun_client(cluster) as client:
        fill(client, count)
