"""The adopted topics of a stream: its position in each partition, in the table of its shard (TOP-08).

The position is written by the drain that stores the copies, so a record is copied once, whatever fails in between. It outlives the
configuration: a topic that is removed and added again goes on where it was (TOP-14).
"""

from __future__ import annotations

from dataclasses import dataclass

from railgun.model.refusals import Refusal
from railgun.protocol import avro as wire
from railgun.state import keys
from railgun.state.table import Overlay
from railgun.state.unreadable_entries import decoded, possible

_SCHEMA = "adopted_partition"
_LONGEST_REASON = 500  # characters: it may quote the record, and is written with every position


@dataclass(slots=True)
class AdoptedPartition:
    """One partition. The first fields are the table's, and their schema says what they mean; the others are what was last seen."""

    topic_id: str
    position: int
    passed: int = 0
    lost: int = 0
    note: str = ""
    end: int = 0  # of the partition; 0: not seen yet
    waits: Refusal | None = None  # why the next record is not taken yet

    @property
    def lag(self) -> int:
        """Offsets that are still to be copied or passed."""
        return max(0, self.end - self.position)

    def pass_over(self, offset: int, reason: str) -> None:
        """A record can never be stored: it is kept in ``rejected``, and told (TOP-09)."""
        self.passed += 1
        told = reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}…"
        self.note = f"{self.passed} not copied, the last was the record at offset {offset}: {told}"

    def lose(self, count: int, why: str) -> None:
        """Records are gone that were not copied (TOP-11, TOP-12)."""
        self.lost += count
        self.note = why


class AdoptedTopics:
    """The adopted topics of one stream, by topic and partition."""

    def __init__(self, overlay: Overlay, incarnation: int) -> None:
        self._overlay = overlay
        self._prefix = keys.all_of(keys.ADOPTED, incarnation)
        self._known: dict[str, dict[int, AdoptedPartition]] = {}
        self._changed: set[tuple[str, int]] = set()
        self.errors: dict[str, str] = {}  # by topic: what is wrong with it now
        self.former: dict[str, set[str]] = {}  # by topic: ids of those of its name that are gone
        self.seen: dict[str, int] = {}  # by topic: when it was last heard of, ns

    def load(self) -> None:
        """Read all back from the table."""
        for key, data in self._overlay.scan(self._prefix):
            topic, partition = decoded(key, _place_in, key[len(self._prefix) :])
            self._known.setdefault(topic, {})[partition] = decoded(key, _decode, data)

    def partitions(self, topic: str) -> dict[int, AdoptedPartition]:
        """The partitions that are known of a topic, by number; not to be changed."""
        return self._known.get(topic, {})

    def put(self, topic: str, partition: int, entry: AdoptedPartition) -> None:
        """The partition is new, or has changed."""
        self._known.setdefault(topic, {})[partition] = entry
        self._changed.add((topic, partition))

    def forget(self, topic: str) -> None:
        """Nothing is known of the topic from now on."""
        self._changed.update((topic, partition) for partition in self._known.pop(topic, ()))

    def seal(self) -> None:
        """Write what changed into the overlay."""
        for topic, partition in self._changed:
            key = self._prefix + keys.number(partition) + topic.encode("utf-8")
            entry = self.partitions(topic).get(partition)
            if entry is None:
                self._overlay.discard(key)
            else:
                self._overlay.put(key, encode(entry))
        self._changed.clear()


def encode(entry: AdoptedPartition) -> bytes:
    """The entry as the table holds it."""
    fields = ("topic_id", "position", "passed", "lost", "note")
    return wire.encode(_SCHEMA, {name: getattr(entry, name) for name in fields})


def _place_in(key: bytes) -> tuple[str, int]:
    return key[keys.NUMBER_BYTES :].decode("utf-8"), keys.number_in(key)


def _decode(data: bytes) -> AdoptedPartition:
    entry = AdoptedPartition(**possible(wire.decode(_SCHEMA, data)))
    if entry.position < 0:
        raise ValueError(f"there is no offset {entry.position}")
    return entry
