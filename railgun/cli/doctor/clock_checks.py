"""The clocks of workers and brokers, compared by ``railgun doctor``."""

from __future__ import annotations

from collections.abc import Sequence

from railgun.cli.doctor.findings import Finding, note, ok
from railgun.client.operations.shards import Pong
from railgun.model.durations import NANOS

_TOLERATED = 1.0  # seconds


def check_clocks(pongs: Sequence[tuple[int, Pong, float]]) -> Finding:
    """Shards with their answers and the seconds that each took: within these the worker read its clock."""
    apart = {}
    for shard, pong, seconds in pongs:
        ahead = (pong.now - pong.received) / NANOS  # of the broker, and how long the question was on its way
        if ahead < -_TOLERATED:
            apart[shard] = ahead
        elif ahead - seconds > _TOLERATED:
            apart[shard] = ahead - seconds
    if not apart:
        return ok("clocks", "workers and brokers agree to the second")
    worst = max(apart, key=lambda shard: abs(apart[shard]))
    which = "ahead of" if apart[worst] > 0 else "behind"
    return note(
        "clocks",
        f"the worker that owns shard {worst} is {abs(apart[worst]):.1f} s {which} the broker's clock "
        f"({len(apart)} of {len(pongs)} shards are off by more than a second)",
        "set the clocks of workers and brokers by NTP: times of messages and their expiry differ by as much",
    )
