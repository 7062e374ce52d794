"""Batches at their owner: each message of one is staged, and the last commits them all or is refused.

Whatever ends a batch without storing it is durable, as a refused publish is: a new owner that reads the messages again must not
store what a publisher was told is lost. A message that is only staged is not: read again, it is staged again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.headers import Headers
from railgun.model.refusals import Refusal
from railgun.protocol.commands import PublishPack
from railgun.protocol.replies import STAGED
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing import batches
from railgun.semantics.streams.publishing.batches import COMMIT, END_OF_BATCH, BatchPlace
from railgun.semantics.streams.publishing.expectations import instructions
from railgun.semantics.streams.publishing.outcomes import NewMessage
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams
from railgun.shard.streams.staging import BatchKey, Staging

Abandoned = Callable[[str, str, str, OpenDrain], None]  # stream, batch, reason
Commit = Callable[[OwnedStream, list[NewMessage], OpenDrain], Refusal | int]
# Of the messages from one place of a pack to another, with the bytes of memory that there is room for.
CommitWhole = Callable[[OwnedStream, PublishPack, int, int, int, OpenDrain], int | None]


class Batches:
    """Decides the messages of batches, one at a time."""

    def __init__(
        self,
        streams: OwnedStreams,
        staging: Staging,
        limits: ClusterLimits,
        commit: Commit,
        commit_whole: CommitWhole,
        abandoned: Abandoned,
    ) -> None:
        self._streams = streams
        self._staging = staging
        self._limits = limits
        self._commit = commit
        self._commit_whole = commit_whole
        self._abandoned = abandoned

    def receive(
        self, state: OwnedStream, subject: str, headers: Headers, payload: bytes, drain: OpenDrain
    ) -> Refusal | int:
        """The last sequence of a batch that this message commits; STAGED; or why not."""
        decided = self._receive(state, NewMessage(subject, headers, payload), drain)
        if decided != STAGED:
            drain.touch(state)
        return decided

    def receive_whole(
        self, state: OwnedStream, pack: PublishPack, start: int, ends: Sequence[int], drain: OpenDrain
    ) -> int | None:
        """Batches that lie whole in a pack, one behind the other from ``start`` on: the last sequence of them all.

        They are not staged. None, and nothing has changed, where it is not certain that all of them would be stored message by message;
        several may ask for nothing that depends on the batches before their own.
        """
        begins = [start, *ends[:-1]]
        if any(
            end - begin > self._limits.max_batch_messages for begin, end in zip(begins, ends, strict=True)
        ):
            return None
        room = min(self._room(state, pack.headers[begin]) for begin in begins)
        return self._commit_whole(state, pack, start, ends[-1], room, drain) if room else None

    def _room(self, state: OwnedStream, headers: Headers) -> int:
        """Bytes that there would be for the batch whose first message has these headers, if it were staged."""
        identity = h.first(headers, h.BATCH_ID) or b""
        return self._staging.room(BatchKey(state.incarnation, identity.decode("ascii")))

    def stage_more(
        self, state: OwnedStream, pack: PublishPack, start: int, stop: int, drain: OpenDrain
    ) -> int:
        """Stage the messages from ``start`` on that plainly continue the batch of the one before, which was staged; how many.

        What ends a batch, or is not certain to be taken, is left to :meth:`receive`.
        """
        place = batches.place_of(instructions(pack.headers[start - 1]))
        assert isinstance(place, BatchPlace), "the message before was staged"
        batch = self._staging.get(BatchKey(state.incarnation, place.batch))
        assert batch is not None, "the message before was staged"
        stop = min(stop, start + self._limits.max_batch_messages - len(batch.messages))
        more = batches.continuation(
            state, pack.subjects, pack.ids, pack.headers, pack.payloads, start, stop, len(batch.messages) + 1
        )
        added = self._staging.add_run(batch, more) if more else 0
        if added:
            self._staging.heard(batch, drain.received, drain.moment)
        return added

    def _receive(self, state: OwnedStream, message: NewMessage, drain: OpenDrain) -> Refusal | int:
        given = instructions(message.headers)
        refused = batches.check_arrival(state, *message)
        place = refused or batches.place_of(given)
        if isinstance(place, Refusal):
            return place
        key = BatchKey(state.incarnation, place.batch)
        known = self._staging.get(key)
        if known is not None and self._staging.silent(known, drain.received):
            self._abandon(state, key, "timeout", drain)
            known = None
        if known is None and place.sequence != 1:  # BAT-19, BAT-22, BAT-39
            return self._too_large if self._is_too_large(place) else refusals.BATCH_INCOMPLETE
        if place.commit not in (None, COMMIT, END_OF_BATCH):
            self._staging.drop(key)
            return refusals.BATCH_COMMIT_INVALID  # BAT-07
        if batches.needs_later_server(given):  # BAT-28, BAT-41
            self._abandon(state, key, "unsupported", drain)
            return refusals.API_LEVEL
        if known is not None and place.sequence != len(known.messages) + 1:  # BAT-20, BAT-40
            self._abandon(state, key, "incomplete", drain)
            return refusals.BATCH_INCOMPLETE
        if self._is_too_large(place):
            self._abandon(state, key, "large", drain)  # BAT-21, BAT-41
            return self._too_large
        return self._take(state, key, place, message, drain)

    def _take(
        self, state: OwnedStream, key: BatchKey, place: BatchPlace, message: NewMessage, drain: OpenDrain
    ) -> Refusal | int:
        """Stage a message that is the next of its batch, and commit the batch if it says so."""
        if place.commit == END_OF_BATCH and place.sequence == 1:
            return refusals.BATCH_INCOMPLETE  # BAT-09
        batch = self._staging.get(key) or self._staging.open(key)
        if isinstance(batch, Refusal):
            return batch
        if place.commit != END_OF_BATCH:
            kept = batches.without_level(message.headers)
            refused = self._staging.add(batch, message._replace(headers=kept))  # BAT-11
            if refused is not None:
                self._abandon(state, key, "large", drain)
                return refused
        if place.commit is None:
            self._staging.heard(batch, drain.received, drain.moment)
            return STAGED
        self._staging.drop(key)
        messages = list(batch.messages)
        if place.commit == END_OF_BATCH:  # BAT-05, BAT-10
            last = messages[-1]
            messages[-1] = last._replace(headers=[*last.headers, (h.BATCH_COMMIT, COMMIT)])
        # BAT-04, BAT-08: with the message that says so; BAT-42: a refusal raises no advisory
        return self._commit(state, messages, drain)

    def _is_too_large(self, place: BatchPlace) -> bool:
        """Whether the place is behind the last that there is; the mark of the end may stand there (BAT-21)."""
        return place.sequence > self._limits.max_batch_messages + (place.commit == END_OF_BATCH)

    @property
    def _too_large(self) -> Refusal:
        return refusals.batch_too_large(self._limits.max_batch_messages)

    def _abandon(self, state: OwnedStream, key: BatchKey, reason: str, drain: OpenDrain) -> None:
        self._staging.drop(key)
        drain.touch(state)
        self._abandoned(state.name, key.batch, reason, drain)

    def run(self, drain: OpenDrain) -> None:
        """Abandon the batches that had no message for too long (BAT-37)."""
        due = self._staging.due(drain.moment)
        states = {state.incarnation: state for state in self._streams} if due else {}
        for key in due:
            state = states.get(key.incarnation)
            if state is None:
                self._staging.drop(key)
            else:
                self._abandon(state, key, "timeout", drain)

    def stream_changed(self, state: OwnedStream) -> None:
        """A stream that goes, or takes no more batches, drops those that it has (BAT-25)."""
        if state.deleting or not state.config.allow_atomic:
            self._staging.drop_all(state.incarnation)
