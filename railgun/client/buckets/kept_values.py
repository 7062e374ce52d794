"""The values that a cache holds, and which of them it may serve (KV-50 … KV-54).

Two sides change it: the feed tells what was stored in the bucket, in the order of revisions, and the handle tells what it writes
and reads. The rule is: what is served is never older than this client's last write of the key, and what is not known for sure is
not served but read from the store (docs/design/0028-caches-of-buckets.md).
"""

from __future__ import annotations

import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from railgun.errors import ConfigError
from railgun.model import headers as h
from railgun.model.bucket_entry import Entry

#: Types of values that can be handed out again: nobody can change them.
UNCHANGING: Final = frozenset({bytes, str, int, float, bool, type(None)})
_UNDECODED: Final = object()  # in place of a value of another type, which is decoded anew for each get
_NOTHING: Final[Mapping[str, Entry]] = MappingProxyType({})
_OVERHEAD: Final = (
    700  # bytes of an entry beside its key, value and headers: the object, its places in the tables
)


#: Keys of which it is remembered that their value is not known.
MOST_UNSURE: Final = 100_000


class KeptValues:
    """The newest values of the keys of one bucket, by subject. Thread-safe.

    ``max_bytes``: the values that were not read for the longest time leave; such a key is then read from the store.
    ``ttl_ns``: the age at which the bucket removes a value. ``told_of_expiry``: whether the feed learns of values that reach
    their own end, by a marker.
    """

    def __init__(
        self, max_bytes: int | None = None, ttl_ns: int = 0, *, told_of_expiry: bool = False
    ) -> None:
        if max_bytes is not None and max_bytes < 1:
            raise ConfigError(f"{max_bytes} is not a valid max_bytes of a cache: give at least 1, or None")
        self._lock = threading.Lock()
        self._max_bytes = sys.maxsize if max_bytes is None else max_bytes
        self._bounded = max_bytes is not None
        self._ttl_ns = ttl_ns
        self._told_of_expiry = told_of_expiry
        self._entries: OrderedDict[str, Entry] = OrderedDict()  # the least recently read first
        self._serving: Mapping[str, Entry] = _NOTHING  # the entries, once they are complete (KV-51)
        self._bytes = 0
        self._whole = True  # every key that has a value is here, or unsure
        self._unsure: set[str] = set()  # keys of which the newest value is not known
        self._floors: dict[str, int] = {}  # revisions of own writes that the feed has not reached
        self._reading: dict[str, object] = {}  # reads from the store whose result may be kept
        self._position = 0  # the last revision that the feed told of
        self._first = 0  # where the bucket begins: nothing older is there

    @property
    def ready(self) -> bool:
        """Whether anything may be served (KV-51)."""
        return self._serving is not _NOTHING

    @property
    def size(self) -> int:
        """Bytes that the values take, by estimate."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._entries)

    # -- reading

    def get(self, subject: str) -> Entry | None:
        """The value of a key, if it may be served."""
        found = self._serving.get(subject)
        if found is None:
            return None
        if self._ttl_ns and time.time_ns() - found.time_ns >= self._ttl_ns:  # KV-37
            return None
        if self._bounded:
            with self._lock:
                if subject in self._entries:
                    self._entries.move_to_end(subject)
        return found

    def is_missing(self, subject: str) -> bool:
        """Whether the key has no value, for sure; a key that is left out for want of room is not (KV-51)."""
        with self._lock:
            return (
                self.ready
                and self._whole
                and subject not in self._entries
                and subject not in self._unsure
                and subject not in self._floors
            )

    def begin_read(self, subject: str) -> object:
        """A read from the store begins; its result comes with this ticket."""
        ticket = object()
        with self._lock:
            self._reading[subject] = ticket
        return ticket

    def end_read(self, subject: str, ticket: object, entry: Entry | None) -> None:
        """What the store said. It is kept, unless the key changed since the read began: then it may be older than that.

        A key without a value stays unknown: the feed may still be on its way to an older value of it.
        """
        with self._lock:
            if self._reading.get(subject) is not ticket:
                return
            del self._reading[subject]
            if entry is None or not self.ready or entry.revision < self._floors.get(subject, 0):
                return
            known = self._entries.get(subject)
            if (known is None or known.revision <= entry.revision) and not self._ends_unseen(entry):
                self._unsure.discard(subject)
                self._keep(subject, entry, was_read=True)

    # -- writing

    def begin_write(self, subject: str) -> None:
        """This client writes the key: what is known of it is dropped first, whatever becomes of the write (KV-52)."""
        with self._lock:
            self._drop(subject)
            self._doubt(subject)
            self._reading.pop(subject, None)

    def written(self, subject: str, revision: int) -> None:
        """The write is stored: nothing older is served from now on."""
        with self._lock:
            self._reading.pop(subject, None)
            known = self._entries.get(subject)
            if known is not None and known.revision < revision:
                self._drop(subject)
                self._doubt(subject)
            if revision > self._position:
                self._floors[subject] = max(revision, self._floors.get(subject, 0))

    # -- what the feed tells

    def told(self, subject: str, entry: Entry) -> None:
        """The bucket stored this. Deletes and purges count too (KV-22)."""
        with self._lock:
            self._position = max(self._position, entry.revision)
            self._reading.pop(subject, None)
            if entry.revision < max(self._floors.get(subject, 0), self._first):
                return
            self._floors.pop(subject, None)
            known = self._entries.get(subject)
            if known is not None and known.revision > entry.revision:
                return
            self._unsure.discard(subject)
            if not entry.is_value:
                self._drop(subject)
            elif self._ends_unseen(entry):
                self._drop(subject)
                self._doubt(subject)
            else:
                self._keep(subject, entry, was_read=False)

    def told_all(self) -> None:
        """The feed has told the last message of the bucket, or that it is empty: the values may be served (KV-51)."""
        with self._lock:
            self._serving = self._entries

    def told_first(self, revision: int) -> None:
        """The bucket begins here: older values were removed by a limit or a purge of all keys, of which nothing is told."""
        with self._lock:
            if revision != self._first:  # a look at all values
                self._first = revision
                gone = [subject for subject, entry in self._entries.items() if entry.revision < revision]
                for subject in gone:
                    self._drop(subject)
                    self._doubt(subject)
            passed = [subject for subject, floor in self._floors.items() if floor <= self._position]
            for subject in passed:
                del self._floors[subject]

    def lost(self) -> None:
        """The feed has ended: nothing is served until another one has told everything anew (KV-53)."""
        with self._lock:
            self._serving = _NOTHING
            self._entries = OrderedDict()
            self._bytes, self._position, self._first, self._whole = 0, 0, 0, True
            self._unsure.clear()
            self._reading.clear()

    def abandon(self) -> None:
        """In a forked child: the lock may be held by a thread that does not exist here, and no feed tells anything."""
        self._lock = threading.Lock()
        self.lost()

    def new_life(self) -> None:
        """The bucket was deleted and made again: its revisions begin anew, and those of earlier writes mean nothing."""
        with self._lock:
            self._floors.clear()

    # -- the lock is held

    def _ends_unseen(self, entry: Entry) -> bool:
        """Whether the value has an end of its own that the feed does not learn of, by a marker (KV-38, KV-39): the store alone knows it."""
        return not self._told_of_expiry and h.first(entry.headers, h.TTL) is not None

    def _keep(self, subject: str, entry: Entry, *, was_read: bool) -> None:
        """Keep the value. One that nobody read yet pushes none out, and a new value leaves its key where it was."""
        size, known = _size(subject, entry), self._entries.get(subject)
        if type(entry.value) not in UNCHANGING:
            entry = replace(entry, value=_UNDECODED)
        if size > self._max_bytes or (
            known is None and not was_read and self._bytes + size > self._max_bytes
        ):
            self._drop(subject)
            self._not_whole()
            return
        self._bytes += size - (0 if known is None else _size(subject, known))
        self._entries[subject] = entry
        if was_read:
            self._entries.move_to_end(subject)
        while self._bytes > self._max_bytes:
            oldest, gone = self._entries.popitem(last=False)
            self._bytes -= _size(oldest, gone)
            self._not_whole()

    def _doubt(self, subject: str) -> None:
        """What the key has is not known. Keys that come and go must not fill the memory: beyond a number of them, none is known to be missing."""
        if self._whole:
            self._unsure.add(subject)
            if len(self._unsure) > MOST_UNSURE:
                self._not_whole()

    def _not_whole(self) -> None:
        """From now on every key that is not here is unsure."""
        self._whole = False
        self._unsure.clear()

    def _drop(self, subject: str) -> None:
        known = self._entries.pop(subject, None)
        if known is not None:
            self._bytes -= _size(subject, known)


def _size(subject: str, entry: Entry) -> int:
    held = sum(len(name) + len(value) for name, value in entry.headers)
    return _OVERHEAD + 2 * len(subject) + len(entry.raw) + held
