"""The subjects that a stream takes from publishers, and what a message on them counts beside its payload."""

from __future__ import annotations

from railgun.model.stream_config import StreamConfig
from railgun.model.subjects import Filter, is_literal
from railgun.semantics.streams.sizes import Measure

# Subjects remembered as captured: a stream of ever new ones must not grow without bound.
MOST_SUBJECTS = 100_000


class Captured:
    """Of one configuration. Subjects that were asked for are remembered."""

    def __init__(self, config: StreamConfig, measure: Measure) -> None:
        self._any = bool(config.subjects)  # a stream that only copies others takes nothing (MIR-02)
        self._subjects = Filter(config.subjects)  # UPD-11: of what comes; what is stored stays
        self._measure = measure
        self._known: dict[str, int] = {}

    def overhead(self, subject: str) -> int | None:
        """What a message on the subject counts beside its payload; None if the stream does not take it."""
        known = self._known.get(subject)
        if known is None and self._any and is_literal(subject) and self._subjects.matches(subject):
            known = self._measure.record + len(subject.encode("utf-8"))
            if len(self._known) >= MOST_SUBJECTS:
                self._known.clear()
            self._known[subject] = known
        return known

    def overheads(self, subjects: list[str]) -> list[int | None]:
        """As :meth:`overhead`, of many."""
        known = list(map(self._known.get, subjects))
        return [self.overhead(subject) for subject in subjects] if None in known else known
