"""What a stream holds at one moment, told by its owner: which incarnation lives, and which sequences of it."""

from __future__ import annotations

from typing import Final, NamedTuple

from railgun.client.facade.railgun import Railgun
from railgun.client.facade.sync.stream import Stream
from railgun.errors import RailgunError
from railgun.model.messages import StreamInfo
from railgun.protocol.registry import RegisteredStream
from railgun.spark.gaps import Run, runs_between, runs_of

_TIMEOUT: Final = 30.0
_ATTEMPTS: Final = 5


class Snapshot(NamedTuple):
    """A stream of one incarnation: messages from ``first`` to ``last``, without those in ``gaps``."""

    incarnation: int
    partition: int  # of the commands of the stream
    first: int
    last: int
    gaps: list[Run]

    @property
    def empty(self) -> bool:
        return self.first > self.last

    def check(self, rg: Railgun, name: str) -> None:
        """Raises RailgunError if the stream of that name is no longer this one."""
        known = _registered(rg, name)
        if known is None or known.incarnation != self.incarnation:
            raise made_anew(name)


def snapshot(rg: Railgun, name: str, *, gaps: bool = True) -> Snapshot:
    """The stream as it is now. Raises StreamNotFound.

    The incarnation is read before and after the owner was asked: an answer of a stream that was made anew meanwhile is not used.
    """
    stream = rg.stream(name)
    known = _registered(rg, name)
    for _ in range(_ATTEMPTS):
        info = stream.info(deleted=gaps)
        before, known = known, _registered(rg, name)
        if known is None or before is None or before.incarnation != known.incarnation:
            continue
        state = info.state
        if not state.messages:
            return Snapshot(known.incarnation, known.partition, state.last_seq + 1, state.last_seq, [])
        missing = _gaps(stream, info) if gaps else []
        return Snapshot(known.incarnation, known.partition, state.first_seq, state.last_seq, missing)
    raise RailgunError(f"the stream {name} was deleted and made again several times: try again")


def made_anew(name: str) -> RailgunError:
    """The error of whoever began with one stream of a name and ended with another, or with none."""
    return RailgunError(f"the stream {name} was deleted or made again meanwhile: try again")


def _registered(rg: Railgun, name: str) -> RegisteredStream | None:
    rg.connection.sync_registry(_TIMEOUT)
    return rg.connection.stream(name)


def _gaps(stream: Stream, info: StreamInfo) -> list[Run]:
    """All sequences between first and last that no longer exist."""
    state = info.state
    deleted = state.deleted or []
    if len(deleted) >= state.num_deleted:
        return runs_of(deleted)
    # The answer holds 200,000 sequences. Behind the last of them the stream is read, without payloads: what is left is what lives.
    told = deleted[-1] if deleted else state.first_seq - 1
    lives = (
        message.sequence for message in stream.read(start=told + 1, end=state.last_seq, headers_only=True)
    )
    return runs_of(deleted) + runs_between(lives, told + 1, state.last_seq)
