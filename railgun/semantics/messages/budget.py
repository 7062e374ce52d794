"""The memory of a worker: what its shards, and their streams, may hold together. What is beyond is found through the table.

Limits are in bytes of the process, as near as they can be told, and hold for all shards of a worker together: how many shards
and streams there are has no bound of its own. A holder that has grown gives up its own oldest; half of each pool is left to all in
equal parts, so that a large stream does not slow all others down.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from railgun.model.headers import Headers

MEGABYTE: Final = 1024 * 1024
IDS: Final = 80 * MEGABYTE  # of the de-duplication windows
SUBJECTS: Final = 80 * MEGABYTE
CACHES: Final = 128 * MEGABYTE  # newest messages, blocks and bodies that were read back
INBOXES: Final = 128 * MEGABYTE
STAGED: Final = 64 * MEGABYTE  # messages of batches that wait for their commit

ID_BYTES: Final = 160  # what an id costs beside its characters: a string, its places in a dict and a list
SUBJECT_BYTES: Final = 180
SEQUENCES_BYTES: Final = 800  # of a subject whose sequences are kept


Holder = tuple[int, Hashable]  # a shard, and what of it


class Pool:
    """Bytes that many holders share."""

    def __init__(self, limit: int, guard: AbstractContextManager[Any] | None = None) -> None:
        """``guard``: a lock, where several threads use the pool."""
        self._limit = limit
        self._guard = nullcontext() if guard is None else guard
        self._held: dict[Holder, int] = {}
        self._total = 0

    @property
    def total(self) -> int:
        """Bytes that all hold."""
        return self._total

    def excess(self, holder: Holder, held: int) -> int:
        """How many bytes the holder is to give up, now that it has this many."""
        with self._guard:
            self._total += held - self._held.get(holder, 0)
            self._held[holder] = held
            return max(0, min(self._total - self._limit, held - self._left_to_each()))

    @property
    def limit(self) -> int:
        """Bytes that all may hold."""
        return self._limit

    def room(self, holder: Holder) -> int:
        """How many bytes the holder may have, whatever it has."""
        with self._guard:
            others = self._total - self._held.get(holder, 0)
            return max(self._limit - others, self._left_to_each())

    def forget(self, holder: Holder) -> None:
        """The holder is gone."""
        with self._guard:
            self._total -= self._held.pop(holder, 0)

    def leave(self, shard: int) -> None:
        """All holders of the shard are gone."""
        with self._guard:
            for holder in [one for one in self._held if one[0] == shard]:
                self._total -= self._held.pop(holder)

    def _left_to_each(self) -> int:
        return self._limit // (2 * max(len(self._held), 1))


class Share:
    """The part of a pool that belongs to the streams of one shard."""

    def __init__(self, pool: Pool, shard: int) -> None:
        self._pool = pool
        self._shard = shard

    def excess(self, incarnation: int, held: int) -> int:
        """How many bytes the stream is to give up, now that it has this many."""
        return self._pool.excess((self._shard, incarnation), held)

    def forget(self, incarnation: int) -> None:
        """The stream is gone."""
        self._pool.forget((self._shard, incarnation))


class Caches:
    """What a shard has read from its table, and may read again: the oldest is let go where the pool is used up."""

    def __init__(self, pool: Pool, shard: int) -> None:
        self._pool = pool
        self._holder = (shard, "caches")
        self._kept: dict[tuple[int, Hashable], tuple[int, Callable[[], None]]] = {}  # oldest first
        self._of: dict[int, set[Hashable]] = {}  # by incarnation
        self._total = 0

    def keep(self, incarnation: int, what: Hashable, size: int, let_go: Callable[[], None]) -> None:
        """The stream holds this, of ``size`` bytes, until it is told to let go. What was kept last never is."""
        self.drop(incarnation, what)
        self._kept[incarnation, what] = (size, let_go)
        self._of.setdefault(incarnation, set()).add(what)
        self._total += size
        excess = self._pool.excess(self._holder, self._total)
        while excess > 0 and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            freed, forget = self._kept[oldest]
            self.drop(*oldest)
            forget()
            excess -= freed
        self._pool.excess(self._holder, self._total)

    def drop(self, incarnation: int, what: Hashable) -> None:
        """The stream does not hold it any more."""
        kept = self._kept.pop((incarnation, what), None)
        if kept is not None:
            self._total -= kept[0]
            own = self._of[incarnation]
            own.discard(what)
            if not own:
                del self._of[incarnation]

    def forget(self, incarnation: int) -> None:
        """The stream is gone."""
        for what in list(self._of.get(incarnation, ())):
            self.drop(incarnation, what)


class Totals:
    """A number of each stream of a shard, and their sum at hand."""

    def __init__(self) -> None:
        self.total = 0
        self._noted: dict[int, int] = {}  # by incarnation

    def note(self, incarnation: int, value: int) -> None:
        """The stream's number is this now."""
        self.total += value - self._noted.get(incarnation, 0)
        self._noted[incarnation] = value

    def forget(self, incarnation: int) -> None:
        """The stream is gone."""
        self.total -= self._noted.pop(incarnation, 0)


class WorkerMemory:
    """The pools of one worker."""

    def __init__(self, make_guard: Callable[[], AbstractContextManager[Any]] = nullcontext) -> None:
        """``make_guard``: makes a lock for each pool, where the shards run in threads of their own."""
        self.ids = Pool(IDS, make_guard())
        self.subjects = Pool(SUBJECTS, make_guard())
        self.caches = Pool(CACHES, make_guard())
        self.inboxes = Pool(INBOXES, make_guard())
        self.staged = Pool(STAGED, make_guard())
        self.batches = Pool(0, make_guard())  # how many wait for their commit: the limit is a setting

    def leave(self, shard: int) -> None:
        """What the shard held is gone: it is another worker's, or is read anew."""
        for pool in (self.ids, self.subjects, self.caches, self.staged, self.batches):
            pool.leave(shard)


class ShardMemory:
    """What the streams of one shard share: memory, where they are, the bytes of all, and which of them have something to tidy up."""

    def __init__(self, worker: WorkerMemory | None = None, shard: int = 0, origin: Headers = ()) -> None:
        """``origin``: headers that say where messages are stored, for streams that want them."""
        worker = worker or WorkerMemory()
        worker.leave(shard)  # a former core's part, if there was one
        self.ids = Share(worker.ids, shard)
        self.subjects = Share(worker.subjects, shard)
        self.caches = Caches(worker.caches, shard)
        self.stored_bytes = Totals()
        self.origin = origin
        self.untidy: set[int] = set()  # incarnations whose table holds bodies that nobody needs
        self.behind: set[int] = set()  # incarnations that have messages left to remove

    def forget(self, incarnation: int) -> None:
        """The stream is gone."""
        for part in (self.ids, self.subjects, self.caches, self.stored_bytes):
            part.forget(incarnation)
        self.untidy.discard(incarnation)
        self.behind.discard(incarnation)
