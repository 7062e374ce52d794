"""The client's copy of the registry: which stream captures a subject.

The copy follows the registry topic and may be a moment behind. A subject that it finds is sent to the owner, who decides;
"no stream" is said only by callers that have read the registry to its end (``Routing.route``).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

from railgun.kafka.skipped import Skipped
from railgun.protocol.registry import RegisteredStream, ShardOwner, StreamGone, parse
from railgun.protocol.unreadable import Unreadable

logger = logging.getLogger(__name__)

_ANY = ("*", ">")


class RegistryView:
    """Streams by name and by subject. ``on_change`` is called, outside the lock, after records that changed something.

    ``on_owner`` is called with the number of a shard whose owner changed, or lost what it had only in memory.
    """

    def __init__(self, on_change: Callable[[], None], on_owner: Callable[[int], None] | None = None) -> None:
        self._lock = threading.Lock()
        self._on_change = on_change
        self._on_owner = on_owner
        self._epochs: dict[int, int] = {}
        self._streams: dict[str, RegisteredStream] = {}
        self._by_token: dict[
            str, dict[str, RegisteredStream]
        ] = {}  # first token, or "*" for a wildcard -> streams by name
        self._skipped = Skipped(logger)

    def apply(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Take over records of the registry, in order. One that cannot be read is skipped: what was known stays."""
        changed = False
        moved: set[int] = set()
        with self._lock:
            for key, value in records:
                match parse(key, value):
                    case RegisteredStream() as stream:
                        self._remove(stream.name)
                        self._add(stream)
                        changed = True
                    case StreamGone(name):
                        self._remove(name)
                        changed = True
                    case ShardOwner(shard, epoch):
                        before, self._epochs[shard] = self._epochs.get(shard), epoch
                        if before not in (None, epoch):
                            moved.add(shard)
                    case Unreadable() as why:
                        self._skipped.add("registry", key, why)
        if changed:
            self._on_change()
        if self._on_owner is not None:
            for shard in sorted(moved):
                self._on_owner(shard)

    def _add(self, stream: RegisteredStream) -> None:
        self._streams[stream.name] = stream
        for token in _first_tokens(stream.patterns):
            self._by_token.setdefault(token, {})[stream.name] = stream

    def _remove(self, name: str) -> None:
        gone = self._streams.pop(name, None)
        for token in _first_tokens(gone.patterns if gone else ()):
            self._by_token[token].pop(name, None)

    def stream(self, name: str) -> RegisteredStream | None:
        with self._lock:
            return self._streams.get(name)

    def capturing(self, subject: str) -> RegisteredStream | None:
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
