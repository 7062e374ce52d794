"""Removals that one drain does not finish: a limit that sank, messages that no consumer needs since one is gone.

What is left to do is part of the stream's record, or follows from its limits, so the next owner of the stream goes on with it.
"""

from __future__ import annotations

from railgun.semantics.consumers import retention
from railgun.semantics.steps import Steps
from railgun.semantics.streams import limits
from railgun.semantics.streams.owned_stream import OwnedStream


def is_behind(stream: OwnedStream) -> bool:
    """Whether something is left to do."""
    return bool(stream.crowded or stream.unneeded) or limits.is_over(stream)


def note(stream: OwnedStream) -> None:
    """The stream was loaded, or its limits have changed."""
    stream.fall_behind(is_behind(stream))


def catch_up(stream: OwnedStream) -> Steps[None]:
    """Everything that is left to do, in steps."""
    while is_behind(stream):
        if stream.crowded:
            yield limits.thin_out(stream)
        elif limits.is_over(stream):
            yield limits.trim(stream, limits.STRETCH) * stream.removal_cost
        else:
            yield retention.drop_some(stream)
    stream.fall_behind(False)
