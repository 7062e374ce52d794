"""Hand-overs (EXO-08): a message is acknowledged and what follows from it is published, in any streams, together or not at all.

The owner of the consumer decides: if the message is still pending at the very delivery that is named, it is acknowledged, and the
publishes leave for the owners of their streams, in one transaction. A second attempt, or that of a client whose delivery is over,
finds nothing pending and publishes nothing.

The publishes are decided by the owners of their streams, later. What one of them refuses cannot undo the acknowledgement: it becomes a
dead letter of the consumer, or is kept in ``rejected`` where there is no stream of dead letters (EXO-10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.cluster_limits import HANDED_OVER_AT_ONCE, LARGEST_BODY
from railgun.model.refusals import Refusal
from railgun.protocol.avro import WireError
from railgun.protocol.commands import HANDED, Forward, HandedOver, HandOver, PublishPack
from railgun.protocol.hand_overs import HANDED_PACK, HandedPack, PackOfHandOvers
from railgun.protocol.routing import partition_of
from railgun.semantics.consumers.consumer_state import ConsumerState
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.batches import is_of_batch
from railgun.shard.consumers.dead_letters import DeadLetters, LetterOrigin, as_record
from railgun.shard.copies import Copies
from railgun.shard.open_drain import OpenDrain


class HandingOver:
    """Decides the hand-overs of one shard's consumers, and buries what the owners of the streams refused."""

    def __init__(self, partition: int, partitions: int, dead_letters: DeadLetters) -> None:
        self._partition = partition
        self._partitions = partitions
        self._dead_letters = dead_letters

    def send(
        self, stream: OwnedStream, consumer: ConsumerState, given: HandOver, drain: OpenDrain
    ) -> Refusal | None:
        """Send the publishes to the owners of their streams; or why not, and then nothing was done.

        The caller acknowledges the message in the same drain.
        """
        refused = check(consumer, given, drain.moment)
        if refused is not None:
            return refused
        packs = _read(given.packs)
        if isinstance(packs, Refusal):
            return packs
        origin = origin_of(stream, consumer, given)
        dead_letter = consumer.config.dead_letter or ""
        for pack, data in zip(packs, given.packs, strict=True):
            handed = HandedOver(*origin, dead_letter, data).encode()
            owner = partition_of(pack.stream, self._partitions)
            forward = Forward(self._partition, "command", pack.stream, command_kind=HANDED, command=handed)
            drain.send(owner, forward)
        return None

    def send_together(
        self,
        packs: Sequence[tuple[PublishPack, PackOfHandOvers]],
        done: Mapping[int, LetterOrigin],
        consumer: ConsumerState,
        drain: OpenDrain,
    ) -> None:
        """Send the publishes of those hand-overs that are done, by their places, to the owners of their streams."""
        if not done:
            return
        columns = list(zip(*done.values(), strict=True))
        place_of = {place: at for at, place in enumerate(done)}
        for pack, given in packs:
            chosen = [index for index, place in enumerate(given.of) if place in done]
            if not chosen:
                continue
            data = given.pack if len(chosen) == len(given.of) else _only(pack, chosen).encode()
            handed = HandedPack(
                columns[0][0],
                consumer.name,
                consumer.config.dead_letter or "",
                *(list(columns[1]), list(columns[2]), list(columns[4])),
                [place_of[given.of[index]] for index in chosen],
                data,
            )
            owner = partition_of(pack.stream, self._partitions)
            forward = Forward(
                self._partition,
                "command",
                pack.stream,
                command_kind=HANDED_PACK,
                command=handed.encode(),
            )
            drain.send(owner, forward)

    def bury(
        self,
        origins: Callable[[int], LetterOrigin],
        dead_letter: str,
        pack: PublishPack,
        refused: list[tuple[int, Refusal]],
        drain: OpenDrain,
    ) -> None:
        """Keep the messages that the owner of their stream refused, with the reasons. ``origins``: by place in the pack."""
        copies = Copies()
        for index, refusal in refused:
            origin = origins(index)
            subject, payload = pack.subjects[index], pack.payloads[index]
            own = [*pack.headers[index]] if pack.headers else []
            if pack.ids and pack.ids[index]:
                own.append((h.MSG_ID, pack.ids[index].encode("utf-8")))
            reason = f"not taken by {pack.stream}: {refusal.description}"
            headers = origin.headers(own, reason)
            if dead_letter:
                copies.add(dead_letter, subject, headers, payload)
            else:
                record = as_record(pack.stream, subject, headers, payload, drain.received)
                drain.reject(record, f"handed over by {origin.consumer} of {origin.stream}: {reason}")
        self._dead_letters.send(copies, drain)


def check(consumer: ConsumerState, given: HandOver, now: int) -> Refusal | None:
    """Why the delivery cannot be handed over, whatever is published with it."""
    return _not_possible(consumer, given) or _not_pending(consumer, given, now)


def origin_of(stream: OwnedStream, consumer: ConsumerState, given: HandOver) -> LetterOrigin:
    """The delivery that is handed over; before it is acknowledged, which may remove the message."""
    entry = stream.entry(given.sequence)
    time = 0 if entry is None else entry.time
    return LetterOrigin(stream.name, given.sequence, time, consumer.name, given.deliveries)


def letter_origin(handed: HandedOver | HandedPack, index: int) -> LetterOrigin:
    """The delivery that handed over the message at this place of the pack."""
    if isinstance(handed, HandedOver):
        return LetterOrigin(*handed[:5])
    at = handed.of[index]
    return LetterOrigin(
        handed.stream, handed.sequences[at], handed.times[at], handed.consumer, handed.deliveries[at]
    )


def read_together(packs: list[PackOfHandOvers]) -> list[tuple[PublishPack, PackOfHandOvers]] | Refusal:
    """The packs of hand-overs that came together; or why none of them can be handed over."""
    found = _read([one.pack for one in packs])
    if isinstance(found, Refusal):
        return found
    if any(len(pack.payloads) != len(one.of) for pack, one in zip(found, packs, strict=True)):
        return refusals.hand_over_refused("a pack with messages of no hand-over")
    return list(zip(found, packs, strict=True))


def _only(pack: PublishPack, chosen: list[int]) -> PublishPack:
    """The pack with some of its messages."""
    return pack._replace(
        subjects=[pack.subjects[index] for index in chosen],
        ids=[pack.ids[index] for index in chosen] if pack.ids else [],
        headers=[pack.headers[index] for index in chosen] if pack.headers else [],
        payloads=[pack.payloads[index] for index in chosen],
    )


def _not_possible(consumer: ConsumerState, given: HandOver) -> Refusal | None:
    """A hand-over that is refused whatever has become of the message."""
    if not consumer.terms.acks:
        return refusals.hand_over_refused(
            "a consumer with ack policy none has nothing to acknowledge: a transaction needs explicit or all"
        )
    return refusals.BAD_REQUEST if given.sequence < 1 else None


def _not_pending(consumer: ConsumerState, given: HandOver, now: int) -> Refusal | None:
    """EXO-09: only the newest delivery may hand over, as long as the message was not asked for again."""
    run = consumer.pending.first_in(given.sequence, given.sequence + 1)
    if (
        run is None
        or not run.deliveries
        or (run.deliveries, run.last) != (given.deliveries, given.consumer_sequence)
        or not consumer.redelivery.is_held(run, now)
    ):
        return refusals.NOT_PENDING
    return None


def _read(packs: list[bytes]) -> list[PublishPack] | Refusal:
    """The packs; or why they cannot be handed over."""
    found: list[PublishPack] = []
    for data in packs:
        if len(data) > LARGEST_BODY:
            return refusals.MESSAGE_TOO_LARGE
        try:
            found.append(PublishPack.decode(data))
        except WireError as error:
            return refusals.hand_over_refused(str(error))
    if not all(pack.stream and pack.payloads for pack in found):
        return refusals.hand_over_refused("a pack without a stream or without messages")
    if sum(len(pack.payloads) for pack in found) > HANDED_OVER_AT_ONCE:
        return refusals.hand_over_refused(f"more than {HANDED_OVER_AT_ONCE} messages are handed over at once")
    if any(is_of_batch(headers) for pack in found for headers in pack.headers):
        return refusals.hand_over_refused("messages of a batch cannot be handed over")
    return found
