"""What the owner of a stream says that it holds, as of one moment where that can be had."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Final, NamedTuple

from railgun import Railgun, StreamInfo
from railgun.spark.gaps import Run, runs_of
from railgun.spark.snapshot import snapshot

_ATTEMPTS: Final = 5
_LATEST: Final = 2**63 - 1


class Holdings(NamedTuple):
    """A stream as its owner knows it. ``whole``: state and gaps are of one moment; ``counted``: the counts of the subjects, too."""

    info: StreamInfo
    incarnation: int
    gaps: list[Run]
    whole: bool
    counted: bool

    def holds(self, sequence: int) -> bool:
        """Whether the stream holds a message of this sequence."""
        state = self.info.state
        if not state.messages or not state.first_seq <= sequence <= state.last_seq:
            return False
        before = bisect.bisect_right(self.gaps, (sequence, _LATEST))
        return not before or self.gaps[before - 1][1] < sequence

    def held_within(self, first: int, last: int) -> Iterator[Run]:
        """The runs of sequences from ``first`` to ``last`` that the stream holds."""
        state = self.info.state
        if not state.messages:
            return
        first, last = max(first, state.first_seq), min(last, state.last_seq)
        at = max(0, bisect.bisect_right(self.gaps, (first, _LATEST)) - 1)
        for begin, end in self.gaps[at:]:
            if begin > last:
                break
            if begin > first:
                yield first, begin - 1
            first = max(first, end + 1)
        if first <= last:
            yield first, last


def holdings(rg: Railgun, stream: str) -> Holdings:
    """The stream as it is now. Raises StreamNotFound.

    A long answer is put together while the stream goes on: it is asked for again, a few times, until its parts agree.
    """
    found = _asked(rg, stream)
    for _ in range(_ATTEMPTS):
        if found.whole and found.counted:
            break
        found = _asked(rg, stream)
    return found


def _asked(rg: Railgun, stream: str) -> Holdings:
    before = snapshot(rg, stream, gaps=False)
    info = rg.stream(stream).info(subjects=">", deleted=True)
    state = info.state
    deleted = state.deleted or []
    # A list of more than 200,000 is cut: the rest is found by reading the stream.
    gaps = runs_of(deleted) if len(deleted) == state.num_deleted else snapshot(rg, stream).gaps
    found = Holdings(info, before.incarnation, gaps, whole=False, counted=False)
    held = sum(last - first + 1 for first, last in found.held_within(state.first_seq, state.last_seq))
    counted = sum((state.subjects or {}).values())
    return found._replace(whole=held == state.messages, counted=counted == state.messages)
