"""The readers of all topics that the streams of a shard adopt: they come and go as the shard's orders say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from railgun.semantics.streams.adopting.topic_records import Adoption, TopicFetch, TopicOrders
from railgun.shard.core import ShardCore
from railgun.shard.drain import Given
from railgun.worker.adopting.topic_reader import HandOver, TopicReader
from railgun.worker.context import ShardContext

_END_SECONDS: Final = 1.0  # for all readers together; one that takes longer hands nothing over any more


class TopicReaders:
    """Of one stay of a shard at this worker; used by the shard's thread."""

    def __init__(self, context: ShardContext, hand_over: HandOver) -> None:
        self._context = context
        self._hand_over = hand_over
        self._core: ShardCore | None = None
        self._orders: TopicOrders = {}
        self._readers: dict[Adoption, TopicReader] = {}

    def follow(self, core: ShardCore) -> None:
        """Have the topics read that the core wants, from where it wants them."""
        if core is not self._core:
            # Its positions are those of the table, and what was read for another core counts no more.
            self.end()
            core.adopting.load()
            self._core = core
        orders = core.adopting.orders()
        if orders is self._orders:
            return
        self._orders = orders
        for of in self._readers.keys() - orders.keys():
            self._readers.pop(of).stop()
        for of, order in orders.items():
            if of in self._readers:
                self._readers[of].follow(order)
            else:
                self._readers[of] = TopicReader(of, order, self._context, self._hand_over)

    def decided(self, given: Iterable[Given]) -> None:
        """These inputs are decided: their readers may read on."""
        for one in given:
            if isinstance(one, TopicFetch) and one.of in self._readers:
                self._readers[one.of].taken(one.size)

    def end(self) -> None:
        """Stop all readers."""
        ending, self._readers, self._orders = list(self._readers.values()), {}, {}
        for reader in ending:
            reader.stop()
        for reader in ending:
            reader.join(_END_SECONDS / len(ending))
