"""De-duplication by message id (DUP): which ids were accepted inside the window, and as which sequence.

The window is kept in blocks of ids that were accepted at one time, so that they leave it together. It does not depend on
the messages: purge, delete and age-out do not forget ids (DUP-09), and restore brings them back (DUP-10).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from railgun.model import wire
from railgun.semantics.blocks import pack_column, unpack_column
from railgun.state import keys
from railgun.state.table import Overlay

BLOCK_IDS = 512  # accepted one by one: a block is one record, so it stays small
BLOCK_CHARACTERS = 65_536


@dataclass(slots=True)
class _Accepted:
    """Ids accepted at one time, and their sequences: a range where they came as one run."""

    base: int
    time: int
    ids: list[str]
    sequences: list[int] | range
    characters: int = 0

    def takes(self, time: int) -> bool:
        """Whether another id, accepted at ``time``, may join."""
        small = len(self.ids) < BLOCK_IDS and self.characters < BLOCK_CHARACTERS
        return small and self.time == time and isinstance(self.sequences, list)


class DedupWindow:
    """Ids accepted within the last ``window`` nanoseconds. 0: de-duplication is off."""

    def __init__(self, overlay: Overlay, incarnation: int, window: int) -> None:
        self._overlay = overlay
        self._incarnation = incarnation
        self.window = window
        self._sequence_of: dict[str, int] = {}
        self._accepted: deque[_Accepted] = deque()
        self._fresh: list[_Accepted] = []  # of the drain that runs

    def __len__(self) -> int:
        return len(self._sequence_of)

    def load(self) -> None:
        """Read the window back from the table."""
        for key, data in self._overlay.scan(keys.all_of(keys.IDS, self._incarnation)):
            value = wire.decode("id_block", data)
            base, ids = keys.sequence_in(key), value["ids"]
            stored = unpack_column("q", value["sequences"])
            sequences = list(stored) if stored else range(base, base + len(ids))
            self._accepted.append(_Accepted(base, value["time"], ids, sequences))
            self._sequence_of.update(zip(ids, sequences, strict=True))

    def original(self, message_id: str) -> int | None:
        """The sequence under which the id was accepted, None if it is not in the window."""
        return self._sequence_of.get(message_id)

    def all_new(self, ids: list[str]) -> bool:
        """None of the ids is in the window, empty, or twice in the list."""
        distinct = set(ids)
        return (
            len(distinct) == len(ids) and "" not in distinct and self._sequence_of.keys().isdisjoint(distinct)
        )

    def accept(self, message_id: str, sequence: int, time: int) -> None:
        self._sequence_of[message_id] = sequence
        newest = self._fresh[-1] if self._fresh else None
        if newest is None or not newest.takes(time):
            newest = _Accepted(sequence, time, [], [])
            self._fresh.append(newest)
        assert isinstance(newest.sequences, list)
        newest.ids.append(message_id)
        newest.sequences.append(sequence)
        newest.characters += len(message_id)

    def accept_run(self, ids: list[str], first: int, time: int) -> None:
        """Many new ids with consecutive sequences."""
        sequences = range(first, first + len(ids))
        self._sequence_of.update(zip(ids, sequences, strict=True))
        self._fresh.append(_Accepted(first, time, ids, sequences))

    def expire(self, now: int) -> None:
        """Forget the ids whose window is over (DUP-05, DUP-06)."""
        while self._accepted and self._accepted[0].time + self.window <= now:
            gone = self._accepted.popleft()
            self._overlay.delete(keys.of(keys.IDS, self._incarnation, gone.base))
            self._forget(gone)
        # A drain may span more than the window: what waited through an outage comes with its old times.
        while self._fresh and self._fresh[0].time + self.window <= now:
            self._forget(self._fresh.pop(0))

    def _forget(self, gone: _Accepted) -> None:
        for message_id in gone.ids:
            del self._sequence_of[message_id]

    def seal(self) -> None:
        """End the drain: its ids go into the overlay."""
        for block in self._fresh:
            consecutive = list(block.sequences) == list(range(block.base, block.base + len(block.ids)))
            self._overlay.put(
                keys.of(keys.IDS, self._incarnation, block.base),
                wire.encode(
                    "id_block",
                    {
                        "time": block.time,
                        "ids": block.ids,
                        "sequences": b"" if consecutive else pack_column("q", list(block.sequences)),
                    },
                ),
            )
        self._accepted.extend(self._fresh)
        self._fresh = []
