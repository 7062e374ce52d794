"""The sequences of a stream that no longer exist, as runs, and rows without them.

A stream may have lost any number of messages in any pattern. The longest runs are part of the query; of the others, which are many and
short, a row meets only those of its own block of sequences.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

Run = tuple[int, int]  # first and last sequence, both included

_AS_LITERALS: Final = 8  # runs that are written into the query; Spark compiles each
_BLOCK: Final = 256  # sequences that share an entry of the join


def runs_of(sequences: Iterable[int]) -> list[Run]:
    """The runs of ascending sequences."""
    runs: list[Run] = []
    first = last = None
    for sequence in sequences:
        if last is not None and first is not None and sequence != last + 1:
            runs.append((first, last))
            first = None
        if first is None:
            first = sequence
        last = sequence
    if first is not None and last is not None:
        runs.append((first, last))
    return runs


def runs_between(sequences: Iterable[int], first: int, last: int) -> list[Run]:
    """The runs of what is missing among ascending sequences, from ``first`` to ``last``."""
    runs: list[Run] = []
    expected = first
    for sequence in sequences:
        if sequence > expected:
            runs.append((expected, sequence - 1))
        expected = sequence + 1
    if expected <= last:
        runs.append((expected, last))
    return runs


def without(rows: DataFrame, runs: list[Run]) -> DataFrame:
    """The rows whose ``sequence`` lies in none of the runs. In a streaming query, too."""
    by_length = sorted(runs, key=lambda run: run[0] - run[1])
    for run in by_length[:_AS_LITERALS]:
        rows = rows.where(~F.col("sequence").between(*run))
    if len(runs) <= _AS_LITERALS:
        return rows
    gone = rows.sparkSession.createDataFrame(
        by_length[_AS_LITERALS:], "first bigint, last bigint"
    ).withColumn("block", F.explode(F.expr(f"sequence(first div {_BLOCK}, last div {_BLOCK})")))
    # An equal block makes it a hash join: with the range alone Spark would compare each row with each run.
    here = (F.expr(f"sequence div {_BLOCK}") == F.col("block")) & F.col("sequence").between(
        F.col("first"), F.col("last")
    )
    return rows.join(F.broadcast(gone), here, "left_anti")
