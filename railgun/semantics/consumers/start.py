"""Where a new consumer starts (STA); looked at once, when it is created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railgun.model.consumer_config import ConsumerConfig
from railgun.model.durations import parse_rfc3339
from railgun.model.subjects import Filter
from railgun.semantics.searching import newest, newest_of_each
from railgun.semantics.steps import Steps, finish

if TYPE_CHECKING:
    from railgun.semantics.stream import StreamState


def last_for(stream: StreamState, config: ConsumerConfig) -> Steps[int]:
    """The newest message that a new consumer wants, if it starts there (STA-02); 0 if there is none, or it starts elsewhere."""
    if config.deliver_policy != "last":
        return 0
    return (yield from newest(stream, Filter(config.filters)))


def start_of(stream: StreamState, config: ConsumerConfig, last: int) -> int:
    """The first sequence that the consumer looks at; with the last of each subject, what is not owed already.

    ``last`` is what :func:`last_for` found just now.
    """
    first, after_last = max(stream.first_seq, 1), stream.last_seq + 1
    if config.deliver_policy == "all":
        return first  # STA-01
    if config.deliver_policy == "last":
        return last or after_last  # STA-02
    if config.deliver_policy == "by_start_sequence":
        return max(config.opt_start_seq or 0, first)  # STA-04, STA-09
    if config.deliver_policy == "by_start_time":
        return stream.first_at(parse_rfc3339(config.opt_start_time or ""))  # STA-05, STA-10
    return after_last  # STA-03, STA-06


def last_of_each_subject(stream: StreamState, wanted: Filter) -> list[int]:
    """The newest message of each subject that the filter selects, ascending (STA-06)."""
    every = newest_of_each(stream, wanted, stream.last_seq, stream.messages)
    return sorted(finish(every))
