"""Where a new consumer starts (STA); looked at once, when it is created. From there on its position counts (STA-07)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from railgun.model.consumer_config import ConsumerConfig
from railgun.model.durations import parse_rfc3339
from railgun.model.subjects import Filter
from railgun.semantics.messages.searching import newest, newest_of_each
from railgun.semantics.steps import Steps

if TYPE_CHECKING:
    from railgun.semantics.streams.owned_stream import OwnedStream

SEARCHED = ("last", "last_per_subject")  # policies whose start has to be looked for
_ALL = 1 << 62


class Start(NamedTuple):
    """The first sequence that a consumer looks at, and older messages that it is to be given, which are parked: ranges [begin, end), ascending."""

    sequence: int
    parked: list[tuple[int, int]]


def find(stream: OwnedStream, config: ConsumerConfig, anew: int = 0) -> Steps[Start]:
    """Where the consumer starts. If that takes several steps: as of the last one, or of the first for the last of each.

    ``anew``: where a consumer began that has delivered nothing and gets another filter.
    """
    if config.deliver_policy == "last_per_subject":
        following = anew or stream.last_seq + 1
        return Start(following, (yield from last_of_each(stream, Filter(config.filters), following)))
    if config.deliver_policy == "last":
        last = yield from newest(stream, Filter(config.filters))
        return Start(last or stream.last_seq + 1, [])  # STA-02
    return Start(_place(stream, config), [])


def _place(stream: OwnedStream, config: ConsumerConfig) -> int:
    first = max(stream.first_seq, 1)
    if config.deliver_policy == "all":
        return first  # STA-01
    if config.deliver_policy == "by_start_sequence":
        return max(config.opt_start_seq or 0, first)  # STA-04, STA-09
    if config.deliver_policy == "by_start_time":
        return stream.first_at(parse_rfc3339(config.opt_start_time or ""))  # STA-05, STA-10
    return stream.last_seq + 1  # STA-03


def last_of_each(stream: OwnedStream, wanted: Filter, below: int) -> Steps[list[tuple[int, int]]]:
    """The newest message of each subject that the filter selects, as far as it is below that sequence (STA-06): ranges."""
    every = yield from newest_of_each(stream, wanted, stream.last_seq, _ALL)
    return list(_ranges(one for one in sorted(every) if one < below))


def _ranges(sequences: Iterable[int]) -> Iterator[tuple[int, int]]:
    begin = end = 0
    for sequence in sequences:
        if sequence != end:
            if begin < end:
                yield begin, end
            begin = sequence
        end = sequence + 1
    if begin < end:
        yield begin, end
