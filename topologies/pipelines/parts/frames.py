"""Frames that are computed once and looked at several times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame, kept in memory and on disk once it is computed, until the end of the block."""
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()
