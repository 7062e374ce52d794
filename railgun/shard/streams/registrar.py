"""The registrar: the one place that knows the subjects of all streams, in the shard of partition 0.

It serialises changes: a stream's name is reserved while its owner decides, and later requests for the name wait. It
grants nothing that overlaps with a stream or a reservation (CFG-08, UPD-12). The owner answers the client.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from railgun.api import bodies, responses
from railgun.api.names import ApiName, Operation
from railgun.model import refusals
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.model.stream_config import StreamConfig
from railgun.protocol import avro as wire
from railgun.protocol.commands import ApiRequest, Forward
from railgun.protocol.replies import Frame
from railgun.protocol.routing import partition_of
from railgun.semantics.streams.configuration.cycles import closes_a_cycle
from railgun.semantics.streams.configuration.source_fields import promoted
from railgun.semantics.streams.configuration.stream_configuration import normalise
from railgun.semantics.streams.configuration.stream_fields import checked
from railgun.semantics.streams.configuration.upstream_rules import agreed
from railgun.shard.streams.captures import Captures
from railgun.shard.streams.claims import Claims, ParsedConfigs
from railgun.state import keys
from railgun.state.table import Overlay
from railgun.state.unreadable_entries import UnreadableEntry, decoded

Send = Callable[[int, Forward], None]

# Requests for one name that wait for its owner. They are written with the reservation, which must fit into a record.
WAITING_REQUESTS = 64
WAITING_BYTES = 1024 * 1024


@dataclass(slots=True)
class _Reservation:
    """The registrar's record of one stream."""

    name: str
    incarnation: int
    partition: int
    config: str = ""
    pending_config: str = ""
    pending: str = "none"
    waiting: list[bytes] = field(default_factory=list)

    @property
    def expected(self) -> str:
        """The configuration after the change under way: its owner answers the client before the registrar knows."""
        return "" if self.pending == "delete" else self.pending_config or self.config

    @property
    def configs(self) -> list[str]:
        """The present configuration, and the one that follows if its owner agrees."""
        return [text for text in (self.config, self.pending_config) if text]

    @property
    def has_room(self) -> bool:
        """Whether one more request may wait."""
        return len(self.waiting) < WAITING_REQUESTS and sum(map(len, self.waiting)) < WAITING_BYTES

    def encode(self) -> bytes:
        values: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        return wire.encode("reservation", values)


class Registrar:
    """Reservations of stream names and subjects, in the overlay of the shard's drain."""

    def __init__(
        self, overlay: Overlay, partitions: int, limits: ClusterLimits, captures: Captures, send: Send
    ) -> None:
        self._overlay = overlay
        self._partitions = partitions
        self._limits = limits
        self._captures = captures
        self._send = send
        self._reservations: dict[str, _Reservation] = {}
        self._unreadable: dict[str, str] = {}  # by name: why
        self._parsed = ParsedConfigs()
        self._claims = Claims(self._parsed)

    def load(self) -> None:
        """Read everything back from the table."""
        self._reservations, self._unreadable = {}, {}
        for key, data in self._overlay.scan(keys.RESERVATION):
            try:
                known = decoded(key, self._read, key, data)
            except UnreadableEntry as error:
                self._unreadable[key[len(keys.RESERVATION) :].decode("utf-8", "replace")] = str(error)
            else:
                self._reservations[known.name] = known

    def _read(self, key: bytes, data: bytes) -> _Reservation:
        known = _Reservation(**wire.decode("reservation", data))
        if keys.reservation(known.name) != key:
            raise ValueError(f"the reservation of {known.name}")
        for text in known.configs:
            self._parsed(text)
        return known

    @property
    def unreadable(self) -> dict[str, str]:
        """Names whose reservations cannot be read, with the reasons. Their streams cannot be changed."""
        return {f"the reservation of the stream {name}": why for name, why in self._unreadable.items()}

    def known_streams(self) -> dict[str, list[str]]:
        """Name to subjects of the streams that exist, a change under way taken as done."""
        return {
            one.name: self._parsed(one.expected).subjects
            for one in self._reservations.values()
            if one.expected
        }

    def change(self, request: ApiRequest, name: ApiName, time: int) -> list[Frame] | None:
        """Reserve and pass on a create, update or delete; frames where the answer is known already."""
        if name.stream in self._unreadable:
            return [responses.refusal_frame(refusals.unavailable(self._unreadable[name.stream]))]
        known = self._reservations.get(name.stream)
        if known is not None and known.pending != "none":
            if not known.has_room:
                crowded = (
                    f"{len(known.waiting)} changes of the stream {name.stream} wait already, try again later"
                )
                return [responses.error_response(name.operation, refusals.unavailable(crowded))]
            known.waiting.append(request.encode())
            self._save(known)
            return None
        if name.operation is Operation.STREAM_DELETE:
            return self._delete(request, name, known, time)
        asked = bodies.parse_config(request.body)
        if isinstance(asked, Refusal):
            return [responses.error_response(name.operation, asked)]
        misplaced = bodies.addressed_otherwise(asked.config, name.stream)
        if name.operation is Operation.STREAM_CREATE:
            decided = misplaced or self._create(request, *asked, known, time)
        else:  # an update that breaks a rule is refused for that first, whatever it addresses
            settled = self._settled(known, *asked)
            decided = (
                settled
                if isinstance(settled, Refusal)
                else misplaced or self._update(request, settled, asked.pedantic, known, time)
            )
        return None if decided is None else [responses.error_response(name.operation, decided)]

    def released(self, forward: Forward) -> list[bytes]:
        """The owner has decided. Returns the requests that waited for it, to be received again."""
        known = self._reservations.get(forward.stream)
        if known is None or known.incarnation != forward.incarnation:
            return []
        waiting = known.waiting
        if forward.outcome == "gone":
            del self._reservations[forward.stream]
            self._overlay.delete(keys.reservation(forward.stream))
        else:
            if forward.outcome == "active":
                known.config = forward.config
            known.pending, known.pending_config, known.waiting = "none", "", []
            self._save(known)
        self._parsed.retain({text for one in self._reservations.values() for text in one.configs})
        self._distribute_captures()
        return waiting

    def _create(
        self, request: ApiRequest, config: StreamConfig, pedantic: bool, known: _Reservation | None, time: int
    ) -> Refusal | None:
        stored = normalise(config, self._limits, pedantic=pedantic)
        if isinstance(stored, Refusal):
            return stored
        if known is not None and self._has(known, stored):  # CFG-06, whatever has become of its upstreams
            self._reserve(known, "create", known.config, request, time)
            return None
        stored = self._beside_others(stored, pedantic)
        if isinstance(stored, Refusal):
            return stored
        if known is not None:
            return refusals.STREAM_NAME_TAKEN  # CFG-07
        if self._overlaps(stored):
            return refusals.SUBJECTS_OVERLAP  # CFG-08
        incarnation = self._next_incarnation()
        if incarnation is None:
            return refusals.unavailable("the number of the next stream cannot be read")
        known = _Reservation(stored.name, incarnation, partition_of(stored.name, self._partitions))
        self._reservations[stored.name] = known
        self._reserve(known, "create", stored.to_json(), request, time)
        return None

    def _settled(
        self, known: _Reservation | None, config: StreamConfig, pedantic: bool
    ) -> StreamConfig | Refusal:
        """The configuration of an update, as the owner is to judge it beside the one that the stream has."""
        if known is not None and known.config:
            config = promoted(self._parsed(known.config), config)
        stored = checked(config, self._limits, pedantic=pedantic)
        return stored if isinstance(stored, Refusal) else self._beside_others(config, pedantic)

    def _beside_others(self, config: StreamConfig, pedantic: bool) -> StreamConfig | Refusal:
        """What the streams that it copies make of a configuration, or why they do not allow it."""
        if config.mirror is None and not config.sources:
            return config
        found = agreed(config, self._find, pedantic=pedantic)
        if isinstance(found, Refusal):
            return found
        others = (one for one in self._reservations.values() if one.name != config.name)
        if closes_a_cycle(config, (self._parsed(text) for one in others for text in one.configs)):
            return refusals.CYCLE  # MIR-13
        return found

    def _find(self, name: str) -> StreamConfig | None:
        known = self._reservations.get(name)
        return self._parsed(known.expected) if known is not None and known.expected else None

    def _update(
        self, request: ApiRequest, config: StreamConfig, pedantic: bool, known: _Reservation | None, time: int
    ) -> Refusal | None:
        if known is None:
            return refusals.STREAM_NOT_FOUND  # CFG-32
        if not config.subjects and config.mirror is None and not config.sources and not config.topics:
            config = config.model_copy(update={"subjects": [config.name]})  # CFG-05
        if self._overlaps(config):
            return refusals.SUBJECTS_OVERLAP  # UPD-12
        self._reserve(known, "update", config.to_json(), request, time, "pedantic" if pedantic else "")
        return None

    def _delete(
        self, request: ApiRequest, name: ApiName, known: _Reservation | None, time: int
    ) -> list[Frame] | None:
        if known is None:
            return [responses.error_response(name.operation, refusals.STREAM_NOT_FOUND)]
        self._reserve(known, "delete", "", request, time)
        return None

    def _reserve(
        self, known: _Reservation, change: str, config: str, request: ApiRequest, time: int, note: str = ""
    ) -> None:
        known.pending, known.pending_config = change, config
        self._save(known)
        self._distribute_captures()  # before the stream exists, so that it misses nothing once it does
        self._send(
            known.partition,
            Forward(
                0,
                change,
                known.name,
                known.incarnation,
                config,
                request.client,
                request.request,
                time,
                command_kind=note,
            ),
        )

    def _distribute_captures(self) -> None:
        self._captures.distribute(self._current_claims().capturing())

    def _current_claims(self) -> Claims:
        self._claims.follow({name: one.configs for name, one in self._reservations.items() if one.configs})
        return self._claims

    def _has(self, known: _Reservation, config: StreamConfig) -> bool:
        """Whether the stream has this configuration; an older version may have written it without today's fields.

        ``mirror_direct`` of a mirror is not asked for: its upstream said what it is (MIR-11).
        """
        if not known.config:
            return False
        present, asked = self._parsed(known.config), StreamConfig.from_json(config.to_json())
        if present.mirror is not None and asked.mirror is not None:
            asked = asked.model_copy(update={"mirror_direct": present.mirror_direct})
        return present == asked

    def _overlaps(self, config: StreamConfig) -> bool:  # CFG-08, UPD-12
        return self._current_claims().meet(config)

    def _next_incarnation(self) -> int | None:
        """A number that no stream ever had; None if the last one cannot be read."""
        stored = self._overlay.get(keys.NEXT_INCARNATION)
        if stored is not None and len(stored) != len(keys.number(0)):
            return None
        incarnation = 1 if stored is None else int.from_bytes(stored, "big")
        self._overlay.put(keys.NEXT_INCARNATION, keys.number(incarnation + 1))
        return incarnation

    def _save(self, known: _Reservation) -> None:
        self._overlay.put(keys.reservation(known.name), known.encode())
