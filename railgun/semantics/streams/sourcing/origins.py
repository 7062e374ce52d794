"""The origins of a stream: the upstreams that it copies, with how far it is in each (MIR, SRC).

The position in an upstream is in the table of the stream that copies, written by the drain that stores the copies: so a
message is copied once, whatever fails in between (SRC-07, CTR-28).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from hashlib import blake2b

from railgun.model.refusals import Refusal
from railgun.model.stream_config import StreamConfig, StreamSource
from railgun.model.transforms import Transform
from railgun.protocol import avro as wire
from railgun.state import keys
from railgun.state.table import Overlay
from railgun.state.unreadable_entries import decoded, possible

WINDOW = 32_768  # messages under way from an upstream
FIRST_AFTER_WAIT = 64  # of them, while it is not known whether the stream takes any
MIRROR = "mirror "


def origin_key(source: StreamSource) -> str:
    """The identity of a source within its stream (SRC-06): two that are equal in this would copy the same messages."""
    wanted = [(one.src or ">", one.dest or ">") for one in source.subject_transforms or ()]
    wanted = wanted or [(source.filter_subject or ">", ">")]
    if wanted == [(">", ">")]:
        return source.name
    text = repr(wanted).encode("utf-8", "backslashreplace")
    return f"{source.name} {blake2b(text, digest_size=8).hexdigest()}"


def wanted_origins(config: StreamConfig) -> dict[str, StreamSource]:
    """What a stream of this configuration copies, by key."""
    if config.mirror is not None:
        return {MIRROR + config.mirror.name: config.mirror}
    return {origin_key(source): source for source in config.sources or ()}


@dataclass(slots=True)
class Origin:
    """One upstream of a stream, as the table holds it; the schema says what the fields mean."""

    name: str
    incarnation: int = 0
    active: bool = True
    session: int = 0
    position: int = 0
    acknowledged: int = 0
    copied: int = 0
    unacknowledged: int = 0
    window: int = WINDOW
    waits: bool = False
    retry: int = 0
    tries: int = 0
    lag: int = 0
    heard: int = 0
    dropped: int = 0
    code: int = 0
    err_code: int = 0
    description: str = ""

    @property
    def error(self) -> Refusal | None:
        """What is wrong with it; None if nothing is."""
        return Refusal(self.code, self.err_code, self.description) if self.code else None

    @error.setter
    def error(self, refusal: Refusal | None) -> None:
        self.code, self.err_code, self.description = refusal or (0, 0, "")

    def drop(self, sequence: int, refusal: Refusal) -> None:
        """A message of the upstream cannot be copied: it is passed over, and the reason told (CTR-32)."""
        self.dropped += 1
        told = f"{self.dropped} not copied, the last was message {sequence}: {refusal.description}"
        self.error = refusal._replace(description=told)


class Origins:
    """The origins of one stream, by key; those that its configuration no longer names are kept, and do nothing (UPD-10)."""

    def __init__(self, overlay: Overlay, incarnation: int) -> None:
        self._overlay = overlay
        self._prefix = keys.all_of(keys.ORIGIN, incarnation)
        self._known: dict[str, Origin] = {}
        self._changed: set[str] = set()
        self._config: StreamConfig | None = None
        self._wanted: dict[str, StreamSource] = {}

    def load(self) -> None:
        """Read all back from the table."""
        for key, data in self._overlay.scan(self._prefix):
            found = decoded(key, _decode, data)
            self._known[key[len(self._prefix) :].decode("utf-8", "surrogatepass")] = found

    def __iter__(self) -> Iterator[tuple[str, Origin]]:
        """Those that are active."""
        return ((key, origin) for key, origin in self._known.items() if origin.active)

    def __bool__(self) -> bool:
        return bool(self._known)

    def wanted(self, config: StreamConfig) -> dict[str, StreamSource]:
        """What the stream copies, by key: found once for each configuration, which may have a thousand sources."""
        if config is not self._config:
            self._config, self._wanted = config, wanted_origins(config)
        return self._wanted

    def get(self, key: str) -> Origin | None:
        return self._known.get(key)

    def put(self, key: str, origin: Origin) -> None:
        """The origin is new, or has changed."""
        self._known[key] = origin
        self._changed.add(key)

    def forget(self, key: str) -> None:
        self._known.pop(key, None)
        self._changed.add(key)

    def next_retry(self) -> int | None:
        """When an upstream is to be asked again, ns."""
        return min((origin.retry for _, origin in self if origin.retry), default=None)

    def seal(self) -> None:
        """Write what changed into the overlay."""
        for key in self._changed:
            stored = self._prefix + key.encode("utf-8", "surrogatepass")
            origin = self._known.get(key)
            if origin is None:
                self._overlay.discard(stored)
            else:
                self._overlay.put(stored, wire.encode("origin_record", asdict(origin)))
        self._changed.clear()


_FIELDS = frozenset(field.name for field in fields(Origin))


def _decode(data: bytes) -> Origin:
    value = possible(wire.decode("origin_record", data))
    return Origin(**{name: value[name] for name in _FIELDS})


class SourceMapping:
    """What a stream wants of an upstream, and under which subjects (SRC-05); a mirror's copies keep sequence and time."""

    def __init__(self, source: StreamSource, *, mirrors: bool) -> None:
        self.mirrors = mirrors
        transforms = source.subject_transforms or []
        self._transforms = [Transform(one) for one in transforms]
        self.filters = [one.src or ">" for one in transforms]
        if source.filter_subject:
            self.filters = [source.filter_subject]
        filters = "\f".join(self.filters) or ">"
        destinations = "\f".join(one.dest or ">" for one in transforms) or ">"
        self._described = f"{filters} {destinations}"
        self._name = source.name

    def subject(self, original: str) -> str:
        """The subject of the copy; the first transform that matches counts, an empty destination keeps it."""
        for transform in self._transforms:
            found = transform.apply(original)
            if found is not None:
                return found
        return original

    def header(self, sequence: int, original: str) -> bytes:
        """The value of ``Nats-Stream-Source`` (SRC-03)."""
        return f"{self._name} {sequence} {self._described} {original}".encode("utf-8", "replace")


@lru_cache(maxsize=1_000)
def _compiled(text: str, mirrors: bool) -> SourceMapping:
    return SourceMapping(StreamSource.from_json(text), mirrors=mirrors)


def mapping_of(key: str, source: StreamSource) -> SourceMapping:
    """The mapping of an origin, compiled once."""
    return _compiled(source.to_json(), key.startswith(MIRROR))
