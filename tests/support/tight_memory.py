"""A shard that may hold next to nothing in memory: what it knows, it finds through its table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from railgun.semantics.messages import budget as memory
from railgun.semantics.messages import id_digest
from railgun.semantics.messages.budget import Pool, Share


@contextmanager
def tight_memory(held: int) -> Iterator[None]:
    """Room for so many ids and subjects of all streams together, and digests so small that there are several."""
    with (
        mock.patch.multiple(memory, IDS=held * memory.ID_BYTES, SUBJECTS=held * memory.SUBJECT_BYTES),
        mock.patch.object(id_digest, "LARGEST", 4),
    ):
        yield


def room_for_ids(count: int) -> Share:
    """Room for about so many short ids."""
    return Share(Pool(count * memory.ID_BYTES), 0)


def room_for_subjects(count: int) -> Share:
    """Room for about so many short subjects."""
    return Share(Pool(count * memory.SUBJECT_BYTES), 0)
