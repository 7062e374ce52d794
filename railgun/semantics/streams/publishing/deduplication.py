"""De-duplication by message id (DUP): which ids were accepted inside the window, and as which sequence.

The window is kept in blocks of ids that were accepted at one time, so that they leave it together. It does not depend on
the messages: purge, delete and age-out do not forget ids (DUP-09), and restore brings them back (DUP-10).

Every block is in the table. The newest are in memory too, as far as the shard's budget goes; of the others memory holds
a digest, which says for nearly every new id that none of them holds it, and for the rest which one to read.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass

from railgun.protocol import avro as wire
from railgun.protocol.columnar.columns import pack_column, unpack_column
from railgun.semantics.messages.budget import ID_BYTES, ShardMemory, Share
from railgun.semantics.messages.id_digest import IdDigest
from railgun.state import keys
from railgun.state.table import Overlay
from railgun.state.unreadable_entries import decoded

BLOCK_IDS = 512  # accepted one by one: a block is one record, so it stays small
BLOCK_CHARACTERS = 65_536
DROPPED_BLOCKS = 5_000  # at most in one drain: no transaction grows without bound
CACHED_BLOCKS = 4  # read back: who repeats one id tends to repeat its neighbours


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
    """Ids that one stream (DUP-07) accepted within the last ``window`` nanoseconds. 0: de-duplication is off."""

    def __init__(self, overlay: Overlay, incarnation: int, window: int, budget: Share | None = None) -> None:
        self._overlay = overlay
        self._incarnation = incarnation
        self.window = window
        self._budget = budget or ShardMemory().ids
        self._digests: deque[IdDigest] = deque()  # of the oldest blocks, which are in the table only
        self._read: OrderedDict[int, dict[str, int]] = OrderedDict()  # some of those, by base
        self._sequence_of: dict[str, int] = {}  # of the newer ids, as the next two
        self._accepted: deque[_Accepted] = deque()
        self._characters = 0  # of the ids in memory
        self._fresh: list[_Accepted] = []  # of the drain that runs
        self._expired: deque[int] = deque()  # blocks that have left the window, but not yet the table

    def __len__(self) -> int:
        return len(self._sequence_of) + sum(digest.ids for digest in self._digests)

    def everything(self) -> dict[str, int]:
        """All ids and their sequences, however many there are."""
        found: dict[str, int] = {}
        for digest in self._digests:
            for base in digest.bases():
                found |= self._block(base)
        return found | self._sequence_of

    def load(self) -> None:
        """Read the window back from the table."""
        for key, data in self._overlay.scan(keys.all_of(keys.IDS, self._incarnation)):
            block = decoded(key, _decode, keys.sequence_in(key), data)
            self._accepted.append(block)
            self._characters += block.characters
            self._sequence_of.update(zip(block.ids, block.sequences, strict=True))
            self._give_up_excess()

    def original(self, message_id: str) -> int | None:
        """The sequence under which the id was accepted first (DUP-03), None if it is not in the window. Only the id counts (DUP-02)."""
        found = self._sequence_of.get(message_id)
        if found is None:
            for digest in self._digests:
                for base in digest.blocks_of(message_id):
                    found = self._block(base).get(message_id)
                    if found is not None:
                        return found
        return found

    def all_new(self, ids: list[str]) -> bool:
        """None of the ids is in the window, empty, or twice in the list."""
        distinct = set(ids)
        if len(distinct) != len(ids) or "" in distinct or not self._sequence_of.keys().isdisjoint(distinct):
            return False
        if not self._digests:
            return True
        hashes = list(map(hash, ids))
        return not any(
            message_id in self._block(base)
            for digest in self._digests
            for message_id in digest.suspects(ids, hashes)
            for base in digest.blocks_of(message_id)
        )

    def _block(self, base: int) -> dict[str, int]:
        """The ids and sequences of a block that is not in memory."""
        found = self._read.get(base)
        if found is None:
            key = keys.of(keys.IDS, self._incarnation, base)
            data = self._overlay.get(key)
            assert data is not None, f"no block of ids {base} in the table"
            block = decoded(key, _decode, base, data)
            found = self._read[base] = dict(zip(block.ids, block.sequences, strict=True))
            if len(self._read) > CACHED_BLOCKS:
                self._read.popitem(last=False)
        else:
            self._read.move_to_end(base)
        return found

    def accept(self, message_id: str, sequence: int, time: int) -> None:
        """A new id. It is known to the very next message: no copy is ever met while it is being stored (DUP-13)."""
        self._sequence_of[message_id] = sequence
        newest = self._fresh[-1] if self._fresh else None
        if newest is None or not newest.takes(time):
            newest = _Accepted(sequence, time, [], [])
            self._fresh.append(newest)
        assert isinstance(newest.sequences, list)
        newest.ids.append(message_id)
        newest.sequences.append(sequence)
        newest.characters += len(message_id)
        self._characters += len(message_id)

    def accept_run(self, ids: list[str], first: int, time: int) -> None:
        """Many new ids with consecutive sequences."""
        sequences = range(first, first + len(ids))
        self._sequence_of.update(zip(ids, sequences, strict=True))
        block = _Accepted(first, time, ids, sequences, sum(map(len, ids)))
        self._fresh.append(block)
        self._characters += block.characters

    def expire(self, now: int) -> None:
        """Forget the ids whose window is over (DUP-05, DUP-06)."""
        while self._digests:
            self._expired.extend(self._digests[0].expire(now - self.window))
            if self._digests[0]:
                break
            self._digests.popleft()
        while self._accepted and self._accepted[0].time + self.window <= now:
            gone = self._accepted.popleft()
            self._expired.append(gone.base)
            self._forget(gone)
        # A drain may span more than the window: what waited through an outage comes with its old times.
        while self._fresh and self._fresh[0].time + self.window <= now:
            self._forget(self._fresh.pop(0))

    def drop_expired(self, most: int | None = None) -> None:
        """Remove blocks that have left the window from the table, at most ``most``. One that is read again leaves again."""
        for _ in range(len(self._expired) if most is None else min(most, len(self._expired))):
            self._overlay.delete(keys.of(keys.IDS, self._incarnation, self._expired.popleft()))

    def _forget(self, gone: _Accepted) -> None:
        """Its ids are no longer known from here; one that was accepted anew meanwhile still is."""
        known = self._sequence_of
        self._characters -= gone.characters
        for message_id, sequence in zip(gone.ids, gone.sequences, strict=True):
            if known.get(message_id) == sequence:
                del known[message_id]

    def seal(self) -> None:
        """End the drain: its ids go into the overlay, and some of what has expired leaves the table."""
        self.drop_expired(DROPPED_BLOCKS)
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
        self._read.clear()  # for one drain only: the number of streams has no bound
        self._give_up_excess()

    def _give_up_excess(self) -> None:
        """Leave the oldest blocks to the table where the shard holds too many ids."""
        excess = self._budget.excess(self._incarnation, self._memory)
        if not excess:
            return
        while excess > 0 and self._accepted:
            block = self._accepted.popleft()
            excess -= len(block.ids) * ID_BYTES + block.characters
            self._forget(block)
            if not self._digests or self._digests[-1].room < len(block.ids):
                self._digests.append(IdDigest.after(len(self) // 2, len(block.ids)))
            self._digests[-1].add(block.base, block.time, block.ids)
        self._budget.excess(self._incarnation, self._memory)

    @property
    def _memory(self) -> int:
        return len(self._sequence_of) * ID_BYTES + self._characters


def _decode(base: int, data: bytes) -> _Accepted:
    value = wire.decode("id_block", data)
    stored = unpack_column("q", value["sequences"])
    sequences = list(stored) if stored else range(base, base + len(value["ids"]))
    if len(sequences) != len(value["ids"]):
        raise ValueError("ids and sequences of a block differ in number")
    return _Accepted(base, value["time"], value["ids"], sequences, sum(map(len, value["ids"])))
