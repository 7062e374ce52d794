"""Publishes at their owner: packs of clients, and plain records of producers without railgun's code."""

from __future__ import annotations

from collections.abc import Mapping

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.protocol.avro import WireError
from railgun.protocol.commands import PublishPack
from railgun.protocol.replies import STAGED, PackReply
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.batches import (
    commit,
    commit_whole,
    consecutive,
    goes_on_with_batch,
    is_of_batch,
    whole_batches,
)
from railgun.semantics.streams.publishing.outcomes import NewMessage, PackOutcome
from railgun.semantics.streams.publishing.publish import publish_pack
from railgun.semantics.streams.publishing.quick_way import SAYS_SOMETHING
from railgun.shard.drain import Input
from railgun.shard.log_bodies import ReadLog, body_reader
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.batching import Abandoned, Batches
from railgun.shard.streams.owned import OwnedStreams
from railgun.shard.streams.staging import Staging


class Publishing:
    """Decides packs against the streams of a shard. A stream whose log is quarantined refuses all of them."""

    def __init__(
        self,
        streams: OwnedStreams,
        limits: ClusterLimits,
        quarantined: Mapping[str, str],
        read_log: ReadLog | None,
        staging: Staging,
        abandoned: Abandoned,
    ) -> None:
        """``quarantined``: log topics that cannot be written, with the reasons; kept by the driver of the shard.

        ``abandoned``: told of a batch that is given up.
        """
        self._streams = streams
        self._limits = limits
        self._quarantined = quarantined
        self._read_log = read_log
        self.batches = Batches(streams, staging, limits, self._commit, self._commit_whole, abandoned)

    def pack(self, pack: PublishPack, drain: OpenDrain) -> None:
        """The messages of a pack are stored, found to be duplicates or refused, and its client is answered."""
        state = self._streams.get(pack.stream)
        refused = self._refusal(pack.stream, state)
        if state is None or refused is not None:
            reply = refused_pack(pack, refused or refusals.NO_STREAM)
        else:
            reply = self._store(state, pack, drain)
        if pack.client and (state is None or not state.config.no_ack):  # PUB-02, PUB-03
            drain.answer_pack(pack.client, reply)

    def handed_over(self, pack: PublishPack, drain: OpenDrain) -> list[tuple[int, Refusal]]:
        """Messages that a consumer handed over, which were acknowledged for: what is refused of them.

        They are not told to come later (PUB-20): nobody is there who could.
        """
        state = self._streams.get(pack.stream)
        refused = self._refusal(pack.stream, state)
        if state is None or refused is not None:
            return refused_pack(pack, refused or refusals.NO_STREAM).refusals
        return self._store_some(state, pack, 0, len(pack.payloads), drain).refused

    def plain(self, pack: PublishPack, given: Input, drain: OpenDrain) -> None:
        """A plain record, read as a pack of one. It has no client to answer, so a refusal goes to ``rejected``."""
        state = self._streams.get(pack.stream)
        refused = self._refusal(pack.stream, state)
        if state is None or refused is not None:
            raise WireError((refused or refusals.NO_STREAM).description)
        for _, refusal in self._store(state, pack, drain).refusals:
            drain.reject(given, refusal.description)

    def _store(self, state: OwnedStream, pack: PublishPack, drain: OpenDrain) -> PackReply:
        count = taken = len(pack.payloads)
        if self._limits.max_in_flight:  # PUB-20
            taken = _taken(pack, max(0, self._limits.max_in_flight - drain.in_flight))
        drain.in_flight += taken
        names = {name for given in pack.headers for name, _ in given}
        if h.BATCH_ID in names:
            together = names.isdisjoint(SAYS_SOMETHING)
            outcome = self._store_with_batches(state, pack, taken, drain, together=together)
        else:
            outcome = self._store_some(state, pack, 0, taken, drain)
        outcome.refused += [(index, refusals.TOO_MANY_REQUESTS) for index in range(taken, count)]
        return PackReply(
            *(state.name, pack.first_request, outcome.runs, outcome.duplicates, outcome.refused),
            outcome.values,
        )

    def _store_some(
        self, state: OwnedStream, pack: PublishPack, start: int, end: int, drain: OpenDrain
    ) -> PackOutcome:
        """Decide messages of the pack that belong to no batch, each by itself."""
        drain.touch(state)
        if state.config.republish is not None:
            note_last(state, pack.subjects[start:end], drain)
        return publish_pack(
            state,
            pack.subjects[start:end],
            pack.ids[start:end],
            pack.headers[start:end],
            pack.payloads[start:end],
            drain.received,
            self._limits,
            self._room(),
            drain.log_of(state),
            body_reader(state, self._read_log),
        )

    def _store_with_batches(
        self, state: OwnedStream, pack: PublishPack, taken: int, drain: OpenDrain, *, together: bool
    ) -> PackOutcome:
        """Decide a pack in order: messages of batches, and runs of others between them.

        ``together``: no message depends on those before it, so batches that lie whole in the pack are one run, if that can be stored.
        """
        outcome, index = PackOutcome(), 0
        whole = whole_batches(pack.headers, pack.ids, taken)
        while index < taken:
            if not is_of_batch(pack.headers[index]):
                end = index + 1
                while end < taken and not is_of_batch(pack.headers[end]):
                    end += 1
                outcome.join(self._store_some(state, pack, index, end, drain), index)
                index = end
                continue
            ends = consecutive(whole, index) if together else [whole[index]] if index in whole else []
            last = self.batches.receive_whole(state, pack, index, ends, drain) if ends else None
            if last is None and len(ends) > 1:
                together, ends = False, ends[:1]
                last = self.batches.receive_whole(state, pack, index, ends, drain)
            if last is not None:
                last -= ends[-1]
                for end in ends:
                    outcome.staged(index, end - 1 - index)
                    outcome.stored(end - 1, last + end)
                    index = end
                continue
            headers = pack.headers[index]
            if pack.ids and pack.ids[index]:
                headers = [*headers, (h.MSG_ID, pack.ids[index].encode("utf-8"))]
            decided = self.batches.receive(state, pack.subjects[index], headers, pack.payloads[index], drain)
            if decided == STAGED:
                more = self.batches.stage_more(state, pack, index + 1, taken, drain)
                outcome.staged(index, 1 + more)
                index += more
            else:
                outcome.add(index, decided)
            index += 1
        return outcome

    def _commit_whole(
        self, state: OwnedStream, pack: PublishPack, start: int, end: int, memory: int, drain: OpenDrain
    ) -> int | None:
        subjects = pack.subjects[start:end]
        self._begin_commit(state, subjects, drain)
        return commit_whole(
            state,
            subjects,
            list(pack.headers[start:end]),
            pack.payloads[start:end],
            drain.received,
            self._limits,
            self._room(),
            memory,
            drain.log_of(state),
            body_reader(state, self._read_log),
        )

    @staticmethod
    def _begin_commit(state: OwnedStream, subjects: list[str], drain: OpenDrain) -> None:
        drain.touch(state)
        if state.config.republish is not None:
            note_last(state, subjects, drain)
        state.window.expire(drain.received)

    def _commit(self, state: OwnedStream, messages: list[NewMessage], drain: OpenDrain) -> Refusal | int:
        self._begin_commit(state, [message.subject for message in messages], drain)
        return commit(
            state,
            messages,
            drain.received,
            self._limits,
            self._room(),
            drain.log_of(state),
            body_reader(state, self._read_log),
        )

    def _refusal(self, name: str, state: OwnedStream | None) -> Refusal | None:
        if state is None:
            return self._streams.aside.refusal(name) or refusals.NO_STREAM
        reason = self._quarantined.get(state.topic)
        return None if reason is None else refusals.unavailable(reason)

    def _room(self) -> int:
        """Bytes that the platform has left for this shard (PUB-19)."""
        return self._streams.room


def _taken(pack: PublishPack, room: int) -> int:
    """How many messages of the pack are taken where there is room for so many.

    A batch that has begun is taken to its end: one that is larger than the room could never be sent.
    """
    taken = min(len(pack.payloads), room)
    while taken < len(pack.headers) and goes_on_with_batch(pack.headers[taken]):
        taken += 1
    return taken


def note_last(state: OwnedStream, subjects: list[str], drain: OpenDrain) -> None:
    """Remember the last sequence of each subject as it was before this drain (CFG-25)."""
    known = drain.last_before.setdefault(state.name, {})
    for subject in subjects:
        stored_as = (state.transform.apply(subject) if state.transform is not None else None) or subject
        if stored_as not in known:
            known[stored_as] = state.last_of(stored_as)


def refused_pack(pack: PublishPack, refusal: Refusal) -> PackReply:
    """The answer to a pack that was refused as a whole."""
    every = [(index, refusal) for index in range(len(pack.payloads))]
    return PackReply(pack.stream, pack.first_request, [], [], every)


def plain_pack(given: Input) -> PublishPack:
    """A plain record as a pack of one. Raises WireError if stream or subject are missing."""
    subject = h.first(given.headers, h.PLAIN_SUBJECT)
    if subject is None or not given.key:
        raise WireError(f"a plain publish needs the stream as its key and the header {h.PLAIN_SUBJECT}")
    headers = [
        (name, value or b"") for name, value in given.headers if not name.startswith(h.RESERVED_PREFIX)
    ]
    stream, text = given.key.decode("utf-8", "replace"), subject.decode("utf-8", "replace")
    return PublishPack(stream, "", 0, [text], [], [headers], [given.value or b""])
