"""The drain that is being decided: what it holds so far, which streams it touched, and what time it is."""

from __future__ import annotations

from railgun.api.responses import refusal_frame
from railgun.model import refusals
from railgun.model.cluster_limits import LARGEST_BODY
from railgun.protocol.columnar.read_records import ReadReply
from railgun.protocol.commands import Forward
from railgun.protocol.replies import Answer, Frame, PackReply
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.outcomes import Stored
from railgun.shard.clock import ShardClock
from railgun.shard.consumers.demand import ConsumerKey
from railgun.shard.drain import Drain, Input, Rejected, Replies

_FIELD = 10  # bytes of a field or its length, at most
_REFUSAL = 4 * _FIELD


class OpenDrain:
    """Begun with the first record of a drain, dropped when the drain is committed or aborted.

    It carries the clocks of a shard, all in ns. Never mix them: what a record stores is stored at :attr:`received`, messages
    age by :attr:`age_time`, deadlines and everything that consumers do run by :attr:`moment`, and the presence of clients by
    :attr:`wall`.
    """

    def __init__(self, clock: ShardClock, wall: int) -> None:
        self._clock = clock
        self.wall = wall  # the driver's clock, which never goes back
        self.decisions = Drain()
        self.touched: dict[str, OwnedStream] = {}  # by name
        self.looked_at: set[str] = set()  # streams of which only memory has changed, nothing durable
        self.logs: dict[str, Stored] = {}  # by stream
        self.structural = False  # a stream was created, changed, deleted or swept
        self.record_time = 0  # the broker's time of the record that is being decided, ns
        self.late = 0  # how long ago that was, at least, ns
        self.stored_at = 0  # the newest moment at which time, not a record, stored a message
        self.at = 0  # incarnation of the stream that was worked on last because of time, not of a record
        self.asks_the_time = False  # something is written, if only to hear the brokers' time
        self.in_flight = 0  # messages taken so far (PUB-20)
        self.ready: dict[ConsumerKey, None] = {}  # consumers that may have something to deliver
        # Of streams that republish: last sequence by subject.
        self.last_before: dict[str, dict[str, int]] = {}

    @property
    def received(self) -> int:
        """The newest time of receipt, as the shard stores it: never ahead of :attr:`moment`."""
        return self._clock.received

    @property
    def moment(self) -> int:
        """The shard's now."""
        return self._clock.moment

    @property
    def age_time(self) -> int | None:
        """The time by which messages age; None: it is known once something was written."""
        return self._clock.age_time

    @property
    def brokers_now(self) -> int:
        """The brokers' time as far as it is known."""
        return self._clock.brokers_now

    def touch(self, state: OwnedStream) -> None:
        """The stream changes: it is sealed at the end, and read again if the drain is dropped."""
        self.touched[state.name] = state

    def log_of(self, state: OwnedStream) -> Stored:
        return self.logs.setdefault(state.name, Stored())

    def answer(self, client: str, request: int, frames: list[Frame] | ReadReply) -> None:
        """Answer a request; where the frames do not fit into a record, by the refusal that says so."""
        if client and isinstance(frames, ReadReply):
            self.replies(client).reads.append(frames)  # which is made to fit
        elif client and not isinstance(frames, ReadReply):
            size = sum(map(_size, frames))
            if size > LARGEST_BODY:
                frames = [refusal_frame(refusals.answer_too_large(size))]
            self.replies(client).answers.append(Answer(request, frames))

    def answer_pack(self, client: str, reply: PackReply) -> None:
        """Answer a pack; very many refusals are sent by their numbers alone."""
        if sum(len(refusal.description) + _REFUSAL for _, refusal in reply.refusals) > LARGEST_BODY:
            bare = [(index, refusal._replace(description="")) for index, refusal in reply.refusals]
            reply = reply._replace(refusals=bare)
        self.replies(client).packs.append(reply)

    def replies(self, client: str) -> Replies:
        return self.decisions.replies.setdefault(client, Replies())

    def send(self, partition: int, forward: Forward) -> None:
        """Send to another shard, or to this one in a later drain."""
        self.decisions.sent.append((partition, forward.encode()))

    def reject(self, given: Input, reason: str) -> None:
        self.decisions.rejected.append(Rejected(given, reason))


def _size(frame: Frame) -> int:
    return (
        len(frame.body)
        + sum(len(name) + len(value) + 2 * _FIELD for name, value in frame.headers)
        + 8 * _FIELD
    )
