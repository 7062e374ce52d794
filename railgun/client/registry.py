"""Which stream captures a subject, as the registry says: the client's copy of it.

The copy follows the registry topic and may be a moment behind. A subject that it finds is sent to the owner, who decides;
"no stream" is said only by callers that have read the registry to its end (``Connection.route``).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from railgun.client.transport import Topology
from railgun.model import wire
from railgun.model.config import StreamConfig
from railgun.model.subjects import Filter

logger = logging.getLogger(__name__)

STREAM_KEY = b"stream/"
CLUSTER_KEY = b"cluster"
EPOCH_KEY = b"epoch/"
_ANY = ("*", ">")


class KnownStream(NamedTuple):
    """A stream as the registry has it."""

    name: str
    incarnation: int
    partition: int
    captures: Filter
    patterns: tuple[str, ...]
    no_ack: bool


class RegistryView:
    """Streams by name and by subject. ``on_change`` is called, outside the lock, after records that changed something.

    ``on_owner`` is called with the number of a shard whose owner changed, or lost what it had only in memory.
    """

    def __init__(self, on_change: Callable[[], None], on_owner: Callable[[int], None] | None = None) -> None:
        self._lock = threading.Lock()
        self._on_change = on_change
        self._on_owner = on_owner
        self._epochs: dict[int, int] = {}
        self._streams: dict[str, KnownStream] = {}
        self._by_token: dict[
            str, dict[str, KnownStream]
        ] = {}  # first token, or "*" for a wildcard -> streams by name
        self._topology: Topology | None = None

    @property
    def topology(self) -> Topology | None:
        """What the cluster recorded of itself, None if it has not started yet."""
        return self._topology

    def apply(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Take over records of the registry, in order. One that cannot be read is logged and left out."""
        changed = False
        moved: set[int] = set()
        with self._lock:
            for key, value in records:
                try:
                    if key.startswith(EPOCH_KEY):
                        moved |= self._new_epoch(int(key[len(EPOCH_KEY) :]), value)
                    else:
                        changed |= self._apply(key, value)
                except (wire.WireError, ValueError, KeyError) as error:
                    logger.error("the registry record %r cannot be read: %s", key, error)
        if changed:
            self._on_change()
        if self._on_owner is not None:
            for shard in sorted(moved):
                self._on_owner(shard)

    def _new_epoch(self, shard: int, value: bytes | None) -> set[int]:
        """The shard, if its owner is known to be another one than before."""
        if value is None:
            return set()
        epoch = int(json.loads(value)["epoch"])
        before, self._epochs[shard] = self._epochs.get(shard), epoch
        return {shard} if before not in (None, epoch) else set()

    def _apply(self, key: bytes, value: bytes | None) -> bool:
        if key == CLUSTER_KEY and value is not None:
            cluster = wire.decode("registry_cluster", value)
            self._topology = Topology(cluster["partitions"], cluster["reply_factor"])
            return True
        if not key.startswith(STREAM_KEY):
            return False
        name = key[len(STREAM_KEY) :].decode("utf-8")
        self._remove(name)
        record = None if value is None else wire.decode("registry_stream", value)
        if record is not None and record["state"] == "active":
            config = StreamConfig.from_json(record["config"])
            patterns = tuple(config.subjects)
            self._add(
                KnownStream(
                    name,
                    record["incarnation"],
                    record["partition"],
                    Filter(patterns),
                    patterns,
                    config.no_ack,
                )
            )
        return True

    def _add(self, stream: KnownStream) -> None:
        self._streams[stream.name] = stream
        for token in _first_tokens(stream.patterns):
            self._by_token.setdefault(token, {})[stream.name] = stream

    def _remove(self, name: str) -> None:
        gone = self._streams.pop(name, None)
        for token in _first_tokens(gone.patterns if gone else ()):
            self._by_token[token].pop(name, None)

    def stream(self, name: str) -> KnownStream | None:
        with self._lock:
            return self._streams.get(name)

    def capturing(self, subject: str) -> KnownStream | None:
        """The stream that captures the literal subject; subjects of two streams never overlap (CFG-08)."""
        first = subject.partition(".")[0]
        with self._lock:
            for token in (first, "*"):
                for stream in self._by_token.get(token, {}).values():
                    if stream.captures.matches(subject):
                        return stream
        return None


def _first_tokens(patterns: Iterable[str]) -> set[str]:
    tokens = {pattern.partition(".")[0] for pattern in patterns}
    return {"*" if token in _ANY else token for token in tokens}
