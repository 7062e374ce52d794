"""The sequences of a stream that no longer exist, as runs, and rows without them.

A stream may have lost any number of messages in any pattern. The work and the memory go by the runs, not by the sequences.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

Run = tuple[int, int]  # first and last sequence, both included

_AS_LITERALS: Final = 16  # runs that are written into the query; Spark compiles each
_BLOCK: Final = (
    256  # sequences that share an entry of the join: a row meets the few runs of its own block only
)


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
    if not runs:
        return rows
    if len(runs) <= _AS_LITERALS:
        return rows.where(~reduce(Column.__or__, [F.col("sequence").between(*run) for run in runs]))
    spark = rows.sparkSession
    gone = spark.createDataFrame(runs, "first bigint, last bigint").withColumn(
        "block", F.explode(F.expr(f"sequence(first div {_BLOCK}, last div {_BLOCK})"))
    )
    # An equal block makes it a hash join: with the range alone Spark would compare each row with each run.
    here = (F.expr(f"sequence div {_BLOCK}") == F.col("block")) & F.col("sequence").between(
        F.col("first"), F.col("last")
    )
    return rows.join(F.broadcast(gone), here, "left_anti")
