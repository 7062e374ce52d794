"""Cycles of mirrors and sources (MIR-13): a message that could come back to its stream would be copied for ever.

Filters and transforms are followed all the way round, so that two streams may source from each other as long as no subject
passes both filters. Where it is not certain what a stream hands on, everything is taken to pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from railgun.model import subjects
from railgun.model.stream_config import StreamConfig, StreamSource, SubjectTransform
from railgun.model.transforms import destination_pattern

EVERYTHING = frozenset({">"})
_MOST_PATTERNS = 16  # of one stream; more are taken for everything, which bounds the search
_MOST_ROUNDS = 8  # what can go round so often is taken to go round for ever

Readers = Mapping[str, Sequence[tuple[StreamConfig, StreamSource | None]]]  # by upstream; None: it mirrors


def closes_a_cycle(config: StreamConfig, others: Iterable[StreamConfig]) -> bool:
    """Whether a message of the stream could come back to it again and again, beside the configurations of all other streams."""
    if config.mirror is None and not config.sources:
        return False
    readers = defaultdict[str, list[tuple[StreamConfig, StreamSource | None]]](list)
    for one in (config, *others):
        if one.mirror is not None:
            readers[one.mirror.name].append((one, None))
        for source in one.sources or ():
            readers[source.name].append((one, source))
    if not _leads_back(config.name, readers):
        return False
    going = EVERYTHING
    for _ in range(_MOST_ROUNDS):
        returned = _returned(config.name, going, readers)
        if not returned:
            return False
        if returned == going:
            return True
        going = returned
    return True


def _leads_back(name: str, readers: Readers) -> bool:
    """Whether the streams that read from the stream, or from one of those, include it: mostly they do not."""
    seen, waiting = {name}, [name]
    while waiting:
        following = {reader.name for reader, _ in readers.get(waiting.pop(), ())}
        if name in following:
            return True
        waiting += following - seen
        seen |= following
    return False


def _returned(name: str, patterns: frozenset[str], readers: Readers) -> frozenset[str]:
    """The subjects, as patterns, under which messages of these come back to the stream."""
    reached = {name: patterns}
    returned: frozenset[str] = frozenset()
    waiting = [name]
    while waiting:
        upstream = waiting.pop()
        for reader, copied in readers.get(upstream, ()):
            arriving = _passed(reached[upstream], reader, copied)
            if reader.name == name:
                returned = _together(returned, arriving)
                continue
            known = reached.get(reader.name, frozenset())
            together = _together(known, arriving)
            if together != known:
                reached[reader.name] = together
                waiting.append(reader.name)
    return returned


def _together(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    both = one | other
    return EVERYTHING if ">" in both or len(both) > _MOST_PATTERNS else both


def _passed(patterns: frozenset[str], reader: StreamConfig, source: StreamSource | None) -> frozenset[str]:
    """The subjects, as patterns, under which the reader stores messages of these; None: a mirror, which stands for its upstream."""
    if source is None:
        return patterns
    renamed = source.subject_transforms or [SubjectTransform(src=source.filter_subject or "", dest="")]
    arriving = frozenset(
        destination_pattern(rename.dest) if rename.dest else common
        for rename in renamed
        for pattern in patterns
        if (common := subjects.intersection(pattern, rename.src or ">")) is not None
    )
    return EVERYTHING if arriving and reader.subject_transform is not None else arriving
