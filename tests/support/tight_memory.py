"""A shard that may hold next to nothing in memory: what it knows, it finds through its table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from railgun.semantics import id_digest, memory


@contextmanager
def tight_memory(held: int) -> Iterator[None]:
    """So many ids and subjects for all streams together, and digests so small that there are several."""
    with (
        mock.patch.multiple(memory, IDS=held, SUBJECTS=held, LEFT_TO_EACH=0),
        mock.patch.object(id_digest, "LARGEST", 4),
    ):
        yield
