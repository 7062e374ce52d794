"""Pushing (PSH): how fast a consumer may send to those who listen, and which of them gets what.

Rate limit, original replay, flow control and heartbeats are one small immutable value for each consumer that has
a listener. Pure: time is handed in. It is only in memory: a new owner, or a consumer that had no listener, begins afresh.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from railgun.model import headers as h
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.durations import NANOS, to_nanos
from railgun.protocol.statuses import Status
from railgun.semantics.consumers.delivery.waiting_pulls import idle_heartbeat

if TYPE_CHECKING:
    from railgun.semantics.consumers.consumer_state import Run

FIRST_WINDOW = (
    2 * 1024 * 1024
)  # bytes out without an answer, where flow control is on; doubled by each answer
LAST_WINDOW = 32 * 1024 * 1024
_RATE_SLICE = (
    10  # a rate is kept over tenths of a second, so that fast ones do not send one message at a time
)


class Pace(NamedTuple):
    """How far a pushing consumer is; times are moments of the shard's clock."""

    beats: int = 0  # when a heartbeat is due, 0: none
    not_before: int = 0  # nothing is sent until then (rate limit)
    replay_to: int = (
        0  # messages up to this sequence are spaced as they were stored, if the replay is original
    )
    replayed: int = 0  # when the last replayed message was stored, 0: none yet
    replayed_at: int = 0  # and when it was sent
    window: int = FIRST_WINDOW
    out: int = 0  # bytes sent and not answered for
    asked: int = 0  # number of the flow control request that waits for its answer, 0: none
    asked_bytes: int = 0  # what an answer to it covers
    requests: int = 0  # flow control requests so far
    turn: int = 0  # whose turn it is in a queue group

    @property
    def halted(self) -> bool:
        """PSH-07: too many bytes are out."""
        return self.out >= self.window


def started(config: ConsumerConfig, last_sequence: int, now: int) -> Pace:
    """The pace of a consumer that has a listener from now on, when the stream is at this sequence."""
    return Pace(beats=_next_beat(config, now), replay_to=last_sequence)


def _next_beat(config: ConsumerConfig, now: int) -> int:
    return now + to_nanos(config.idle_heartbeat) if config.idle_heartbeat else 0


def allowed_bytes(pace: Pace, config: ConsumerConfig) -> int:
    """The most that may be sent at once; 0: any amount. One message may always be sent that is larger."""
    limits = []
    if config.rate_limit_bps:
        limits.append(max(config.rate_limit_bps // (8 * _RATE_SLICE), 1))
    if config.flow_control:
        limits.append(max(pace.window - pace.out, 1))
    return min(limits, default=0)


def replay_due(pace: Pace, stored: int) -> int:
    """When a message of an original replay is to be sent: as long after the last one as it was stored (PSH-09, PSH-11)."""
    return pace.replayed_at + max(stored - pace.replayed, 0) if pace.replayed else 0


def sent(pace: Pace, config: ConsumerConfig, size: int, count: int, now: int) -> Pace:
    """So much was sent just now; ``asked`` is a new number where flow control must be asked for."""
    after = pace._replace(beats=_next_beat(config, now), turn=pace.turn + count)
    if config.rate_limit_bps:
        start = max(now, pace.not_before)
        after = after._replace(not_before=start + size * 8 * NANOS // config.rate_limit_bps)  # PSH-08
    if config.flow_control:
        out = pace.out + size
        after = after._replace(out=out)
        if not pace.asked and out > pace.window // 2:
            number = pace.requests + 1
            after = after._replace(asked=number, requests=number, asked_bytes=out)
    return after


def answered(pace: Pace, number: int) -> Pace:
    """The flow control request was answered: what it covers has arrived, and more may be out at once."""
    if not pace.asked or number != pace.asked:
        return pace
    return pace._replace(
        out=max(pace.out - pace.asked_bytes, 0),
        asked=0,
        asked_bytes=0,
        window=min(pace.window * 2, LAST_WINDOW),
    )


def unanswerable(pace: Pace) -> Pace:
    """The pace with a new window: the client that was to answer may be gone."""
    return pace._replace(out=0, asked=0, asked_bytes=0, window=FIRST_WINDOW)


def heartbeat(
    pace: Pace, config: ConsumerConfig, delivered: tuple[int, int], reply: str, now: int
) -> tuple[Pace, Status]:
    """PSH-06: nothing was sent for the interval. A consumer that waits for an answer repeats the request.

    It may stand still although less than its window is out, because the next message is larger than what is left of it.
    """
    status = idle_heartbeat(*delivered)
    if pace.asked:
        status = status._replace(headers=[*status.headers, (h.CONSUMER_STALLED, reply.encode("utf-8"))])
    return pace._replace(beats=_next_beat(config, now)), status


def shares(runs: Sequence[Run], count: int, members: int, turn: int) -> list[tuple[int, list[Run]]]:
    """Messages dealt out to the members of a group, as equal as can be and in one piece each (PSH-03, C-33).

    Pairs of a member's number and what it gets; the member whose turn it is comes first.
    """
    each, more = divmod(count, members)
    dealt: list[tuple[int, list[Run]]] = []
    rest = list(reversed(runs))
    for step in range(members):
        wanted = each + (step < more)
        own: list[Run] = []
        while wanted:
            run = rest.pop()
            if run.length > wanted:
                rest.append(
                    run._replace(
                        sequence=run.sequence + wanted,
                        length=run.length - wanted,
                        consumer_sequence=run.consumer_sequence + wanted,
                    )
                )
                run = run._replace(length=wanted)
            own.append(run)
            wanted -= run.length
        if own:
            dealt.append(((turn + step) % members, own))
    return dealt
