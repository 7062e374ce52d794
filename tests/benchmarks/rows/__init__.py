"""The rows of the table, in the order in which they are measured."""

from __future__ import annotations

from tests.benchmarks.contest import Row
from tests.benchmarks.rows.buckets import (
    CachedGet,
    Contention,
    FanOut,
    KeyGetAtOnce,
    KeyGetOne,
    KeyGrowth,
    KeyMemory,
    KeyRestart,
    ListKeys,
    PutAtOnce,
    PutOne,
)
from tests.benchmarks.rows.catching_up import CatchUp, FetchGrowth, FloorGrowth
from tests.benchmarks.rows.consuming import (
    Competing,
    Fetching,
    Filtered,
    Handling,
    Idle,
    InFlight,
    Iterating,
    Pushing,
)
from tests.benchmarks.rows.growth import GetGrowth, LastGrowth, PublishGrowth
from tests.benchmarks.rows.memory import Memory
from tests.benchmarks.rows.pipeline import HandingOver
from tests.benchmarks.rows.publishing import OneAtATime, Pipelined, PipelinedIds, PipelinedSubjects
from tests.benchmarks.rows.reading import GetAtOnce, GetOne, LastAtOnce, LastOne, ReadAll, ReadFew
from tests.benchmarks.rows.recovery import Restart, RestoreRate, Takeover
from tests.benchmarks.rows.sinks import JdbcRows
from tests.benchmarks.rows.sourcing import Backfill, Copying, CopyLag, Following, SourcedPublish
from tests.benchmarks.rows.spark import SparkArchive, SparkRead
from tests.benchmarks.rows.special_publishing import (
    BatchesOf100,
    BatchesOf1000,
    Counting,
    CountingMany,
    FewBatchesOf100,
    PipelinedConditions,
    PipelinedHeaders,
)
from tests.benchmarks.rows.typed import TypedFetch, TypedPublish
from tests.benchmarks.rows.updates import RestartAfterUpdates

ROWS: tuple[Row, ...] = (
    Pipelined(),
    PipelinedIds(),
    PipelinedSubjects(),
    PipelinedHeaders(),
    PipelinedConditions(),
    TypedPublish(),
    Counting(),
    CountingMany(),
    BatchesOf100(),
    FewBatchesOf100(),
    BatchesOf1000(),
    OneAtATime(),
    GetAtOnce(),
    LastAtOnce(),
    GetOne(),
    LastOne(),
    ReadFew(),
    Fetching(),
    TypedFetch(),
    Iterating(),
    Pushing(),
    Handling(),
    Competing(),
    Filtered(),
    InFlight(),
    Idle(),
    PutAtOnce(),
    PutOne(),
    KeyGetAtOnce(),
    KeyGetOne(),
    CachedGet(),
    Contention(),
    FanOut(),
    HandingOver(),
    SourcedPublish(),
    Copying(),
    Following(),
    Backfill(),
    CopyLag(),
    JdbcRows(),
    Memory(),  # first on its cluster: nothing but the stock is in the worker's memory
    PublishGrowth(),
    GetGrowth(),
    LastGrowth(),
    CatchUp(),
    ReadAll(),
    FetchGrowth(),
    FloorGrowth(),
    SparkRead(),
    SparkArchive(),
    Restart(),  # before the keys, which want a nats-server without the stock
    KeyMemory(),  # first on its cluster
    KeyGrowth(),
    ListKeys(),
    KeyRestart(),
    RestartAfterUpdates(),
    RestoreRate(),
    Takeover(),
)
GOALS = {(row.name, peer): goal for row in ROWS for peer, goal in row.goals.items()}
