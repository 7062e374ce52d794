# Generated from ../../aio/buckets/watch.py by `python -m tests.twins`. Change that file, then run `make twins`.
"""Watches of a bucket: ``with bucket.watch("key") as entries`` (docs/rules, KV-30 … KV-36)."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Self

from railgun.client import steps
from railgun.client.buckets.watching import BucketWatch, InitialEnd
from railgun.client.facade.sync.closing import Closes
from railgun.model.bucket_entry import Entry


class Watch(Closes):
    """An endless iteration over entries; a context manager. Made by ``Bucket.watch`` and ``Bucket.watch_all``.

    It begins when it is entered, or when the first entry is asked for. It survives restarts of workers; it raises BucketNotFound
    when the bucket is deleted.
    """

    def __init__(self, watch: BucketWatch) -> None:
        self._watch = watch
        self._past_initial = False
        weakref.finalize(self, watch.abandoned)

    @property
    def restarts(self) -> int:
        """How often it started anew, because it was away for so long that it may have missed deletes (KV-20).

        It then delivers what is there once more; a copy of the bucket begins from nothing.
        """
        return self._watch.restarts

    def __enter__(self) -> Self:
        steps.run(self._watch.begin())
        return self

    def __iter__(self) -> Iterator[Entry | None]:
        return self

    def __next__(self) -> Entry | None:
        while True:
            item = self._next()
            if item is None:
                raise StopIteration
            if isinstance(item, Entry):
                return item
            if item.shown:
                return None

    def initial(self) -> Iterator[Entry]:
        """The values that were there when the watch began; it ends where they end."""
        while not self._past_initial:
            item = self._next()
            if item is None or isinstance(item, InitialEnd):
                return
            yield item

    def updates(self) -> Iterator[Entry]:
        """What comes after, for ever; what was there is passed over."""
        while (item := self._next()) is not None:
            if self._past_initial and isinstance(item, Entry):
                yield item

    def _next(self) -> Entry | InitialEnd | None:
        """The next entry; None once this is closed."""
        items = self._watch.items
        if not items and not steps.run(self._watch.some()):
            return None
        item = items.popleft()
        if isinstance(item, InitialEnd):
            self._past_initial = True
        return item

    def close(self) -> None:
        """End the watch, from whichever thread."""
        steps.run(self._watch.close())
