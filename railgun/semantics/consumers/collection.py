"""The life of the consumers of one stream: how they are created, changed and deleted, and what a purge means for them."""

from __future__ import annotations

from railgun.model.consumer_config import ConsumerConfig
from railgun.model.subjects import Filter, is_subset
from railgun.semantics.consumers import retention
from railgun.semantics.consumers.configuration import start
from railgun.semantics.consumers.consumer_state import ConsumerState
from railgun.semantics.consumers.events import Event
from railgun.semantics.consumers.known_consumers import KnownConsumers
from railgun.semantics.steps import finish
from railgun.state import keys


class Consumers(KnownConsumers):
    """All consumers of a stream."""

    def create(self, config: ConsumerConfig, now: int, begins: start.Start | None = None) -> ConsumerState:
        """A consumer with a normalised configuration and a name; where it starts is decided here, once (STA-12).

        ``begins``: what :func:`start.find` found just now, if it was called.
        """
        self._tell_evicted()
        self._made += 1
        overlay, incarnation = self._stream.overlay, self._stream.incarnation
        overlay.put(keys.all_of(keys.CONSUMERS_MADE, incarnation), keys.number(self._made))
        if begins is None:
            begins = finish(start.find(self._stream, config))
        consumer = ConsumerState(self._stream, self._made, config, now, begins.sequence)
        self._keep(consumer)
        consumer.parked.park_all(begins.parked)
        self._interest.clear()
        self.touch(consumer)
        if not config.direct:
            self.events.append(Event("created", consumer.name))
        return consumer

    def searches_anew(self, consumer: ConsumerState, config: ConsumerConfig) -> bool:
        """Whether the last message of each subject must be looked for if the consumer gets this configuration."""
        return (
            config.deliver_policy == "last_per_subject"
            and not consumer.delivered.consumer
            and consumer.terms.filter != Filter(config.filters)
        )

    def update(
        self, consumer: ConsumerState, config: ConsumerConfig, now: int, begins: start.Start | None = None
    ) -> None:
        """Take over a checked configuration.

        ``begins``: what :func:`start.find` found just now for a consumer that :meth:`searches_anew`.
        """
        searches = self.searches_anew(consumer, config)
        before = consumer.terms.filter
        consumer.reconfigure(config)
        if consumer.terms.filter != before and not consumer.delivered.consumer:
            consumer.start_over()  # CON-14: what it passed by in vain may be wanted now
            if searches:
                begins = begins or finish(start.find(self._stream, config, consumer.began))
                consumer.parked.park_all(begins.parked)
        consumer.expire(now)
        self._interest.clear()
        if self._stream.config.retention == "interest" and consumer.terms.filter != before:
            retention.drop_all_unneeded(self._stream, 0, self._stream.last_seq + 1, before)  # RET-17

    def delete(self, consumer: ConsumerState) -> None:
        """The consumer is gone; under interest, so are the messages that only it needed (RET-09, RET-15, RET-18)."""
        overlay, incarnation, number = self._stream.overlay, self._stream.incarnation, consumer.number
        for known in (self._by_number, self._touched, self._holding):
            known.pop(number, None)
        del self._by_name[consumer.name]
        if not self:
            self.removals.counted.clear()  # nobody notes what is removed from now on
        self._deadlines.forget(number)
        overlay.delete(keys.of(keys.CONSUMER, incarnation, number))
        for prefix in (keys.all_pending(incarnation, number), keys.all_given_up(incarnation, number)):
            for key, _ in list(overlay.scan(prefix)):
                overlay.delete(key)
        self._interest.clear()
        if not consumer.config.direct:
            self.events.append(Event("deleted", consumer.name))
        if self._stream.config.retention == "interest":
            # On all subjects: a message before the start of every consumer that matches it would stay for ever.
            start, end = (
                min(retention.first_needed(consumer), consumer.floor.stream),
                self._stream.last_seq + 1,
            )
            if self:
                retention.drop_all_unneeded(self._stream, start, end, Filter())
            else:
                retention.drop_everything(self._stream)

    def enforce_interest(self) -> None:
        """The stream came to interest: what all who are interested have acknowledged goes at once (UPD-05).

        What no filter matches stays; without a consumer, everything goes.
        """
        if not self:
            if self._stream.messages:  # an empty stream stays as it is: a new one has not begun
                retention.drop_everything(self._stream)
            return
        wanted = Filter([pattern for consumer in self for pattern in consumer.terms.filter.patterns])
        retention.drop_all_unneeded(self._stream, 0, self._stream.last_seq + 1, wanted)

    def purged(self, next_sequence: int, chosen: Filter | None = None) -> None:
        """Nothing (on the chosen subjects) is left below the sequence: consumers that want no others go on there (DEL-12, DEL-14).

        Consumers that want all of these and more go on with the first message of the stream.
        """
        if chosen is None:
            self.removals.counted.clear()  # of removals that are not noted, those who are gone are not told
        for consumer in self:
            if chosen is None:
                consumer.vanished(0, next_sequence)
            if chosen is None or _is_within(consumer.terms.filter, chosen):
                consumer.purged(next_sequence)
            elif _is_within(chosen, consumer.terms.filter):
                consumer.purged(self._stream.first_seq)


def _is_within(narrow: Filter, wide: Filter) -> bool:
    """Whether everything that the one selects is selected by the other."""
    return all(any(is_subset(one, other) for other in wide.patterns) for one in narrow.patterns)
