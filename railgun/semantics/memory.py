"""What the streams of a shard share: how much of them is in memory. What is beyond is found through the table.

The limits hold for all streams of a shard together, because the number of streams has no bound of its own. A stream that
has grown gives up its own oldest; a few are left to each, so that one large stream does not slow all others down.
"""

from __future__ import annotations

IDS = 250_000  # of the de-duplication windows: some 40 MB
SUBJECTS = 250_000  # some 40 MB, more where the sequences of each subject are kept
LEFT_TO_EACH = 500  # a stream with fewer never gives any up


class Budget:
    """How many of something the streams of a shard may hold in memory together."""

    def __init__(self, limit: int, left_to_each: int) -> None:
        self._limit = limit
        self._left_to_each = left_to_each
        self._held: dict[int, int] = {}  # by incarnation
        self._total = 0

    def excess(self, incarnation: int, held: int) -> int:
        """The stream holds so many now; how many of them it is to give up."""
        self._total += held - self._held.get(incarnation, 0)
        self._held[incarnation] = held
        return max(0, min(self._total - self._limit, held - self._left_to_each))

    def forget(self, incarnation: int) -> None:
        """The stream is gone."""
        self._total -= self._held.pop(incarnation, 0)


class Totals:
    """A number of each stream of a shard, and their sum at hand."""

    def __init__(self) -> None:
        self.total = 0
        self._noted: dict[int, int] = {}  # by incarnation

    def note(self, incarnation: int, value: int) -> None:
        """The stream's number is this now."""
        self.total += value - self._noted.get(incarnation, 0)
        self._noted[incarnation] = value

    def forget(self, incarnation: int) -> None:
        """The stream is gone."""
        self.total -= self._noted.pop(incarnation, 0)


class ShardMemory:
    """What the streams of one shard share: budgets, the bytes of all, and which of them have something to tidy up."""

    def __init__(self) -> None:
        self.ids = Budget(IDS, LEFT_TO_EACH)
        self.subjects = Budget(SUBJECTS, LEFT_TO_EACH)
        self.stored_bytes = Totals()
        self.untidy: set[int] = set()  # incarnations whose table holds bodies that nobody needs
        self.behind: set[int] = set()  # incarnations that have messages left to remove

    def forget(self, incarnation: int) -> None:
        """The stream is gone."""
        self.ids.forget(incarnation)
        self.subjects.forget(incarnation)
        self.stored_bytes.forget(incarnation)
        self.untidy.discard(incarnation)
        self.behind.discard(incarnation)
