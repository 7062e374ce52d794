"""The life of the streams that a shard owns: created, reconfigured and deleted as the registrar passes it on.

Each change is decided, written to the registry and answered in the owner's own transaction. A delete hides the stream at
once and removes its keys over several drains; the topic goes before the last of them, and only then the name is free.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import chain, islice

from railgun.api import responses
from railgun.api.names import Operation
from railgun.model import refusals
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.headers import Headers
from railgun.model.refusals import Refusal
from railgun.model.stream_config import StreamConfig
from railgun.protocol import registry
from railgun.protocol.commands import Forward
from railgun.protocol.replies import Frame
from railgun.protocol.topics import Names
from railgun.semantics.messages.budget import ShardMemory, WorkerMemory
from railgun.semantics.messages.recent import RecentMessages
from railgun.semantics.streams import backlog, limits
from railgun.semantics.streams.configuration.stream_configuration import check_update
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.stream_record import read_record
from railgun.shard.drain import Drain, TopicChange
from railgun.shard.set_aside import SetAside
from railgun.state import keys
from railgun.state.store_errors import StoreError
from railgun.state.table import Overlay
from railgun.state.unreadable_entries import UnreadableEntry

log = logging.getLogger("railgun.shard")

REGISTRAR = 0  # the partition whose shard registers streams
SWEPT_KEYS = 5_000  # removed in one drain, of deleted streams or of bodies and totals that are no longer kept
_UNLIMITED = 1 << 62
SWEPT_BODIES = 2_500  # of them, bodies and totals of one stream: others need not wait until it has none left

Send = Callable[[int, Forward], None]


class OwnedStreams:
    """The streams of one shard, by name; and those that are being removed."""

    def __init__(
        self,
        partition: int,
        names: Names,
        platform: ClusterLimits,
        overlay: Overlay,
        memory: WorkerMemory,
        send: Send,
        origin: Headers = (),
    ) -> None:
        self._partition = partition
        self._names = names
        self._platform = platform
        self._overlay = overlay
        self._send = send
        self._states: dict[str, OwnedStream] = {}
        self._doomed: dict[str, OwnedStream] = {}
        self._worker_memory = memory
        self._origin = origin
        self._memory = ShardMemory(memory, partition, origin)
        self.recent = RecentMessages(pool=memory.caches, shard=partition)
        self.aside = SetAside()

    def load(self) -> None:
        """Read all streams back from the table."""
        self._states, self._doomed = {}, {}
        self._memory = ShardMemory(self._worker_memory, self._partition, self._origin)
        for key, _ in self._overlay.scan(keys.STREAM):
            incarnation = keys.incarnation_in(key)
            if incarnation is not None and keys.is_whole(key):
                self._read(incarnation)

    def reload(self, name: str) -> None:
        """Forget what a dropped drain did to the stream: read it again, if the table has it."""
        state = self._states.pop(name, None) or self._doomed.pop(name, None)
        if state is None:
            return
        self._memory.forget(state.incarnation)
        if self._overlay.get(keys.stream(state.incarnation)) is not None:
            self._read(state.incarnation)

    def _read(self, incarnation: int) -> None:
        """Load the stream; where anything of it cannot be read, set it aside."""
        if incarnation in self.aside:
            return
        try:
            state = OwnedStream.load(self._overlay, incarnation, self._names, self._memory)
            if state.name != state.config.name or state.name in self._states:
                raise ValueError(f"the configuration of {state.config.name} in the record of {state.name}")
        except StoreError:
            raise
        except Exception as error:  # a damaged value may lead to any error; the other streams are served
            log.exception(
                "shard %d: the stream of incarnation %d cannot be read", self._partition, incarnation
            )
            self._memory.forget(incarnation)
            self.set_aside(incarnation, str(error) or repr(error))
        else:
            self._add(state)

    def set_aside(self, incarnation: int, reason: str) -> None:
        """This stream is not served, if the table has it; before :meth:`load`, or while the shard runs."""
        if self._overlay.get(keys.stream(incarnation)) is None:
            return
        try:
            name = read_record(self._overlay, incarnation)["name"]
        except UnreadableEntry:
            name = ""
        self.aside.add(incarnation, name, reason)

    def _add(self, state: OwnedStream) -> None:
        state.bodies.recent = self.recent
        if not state.deleting:
            backlog.note(state)
        (self._doomed if state.deleting else self._states)[state.name] = state

    def __iter__(self) -> Iterator[OwnedStream]:
        return iter(self._states.values())

    def get(self, name: str) -> OwnedStream | None:
        """The stream, None if there is none or it is being removed."""
        return self._states.get(name)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all streams together, without those that are being removed."""
        return self._memory.stored_bytes.total

    @property
    def room(self) -> int:
        """Bytes that the platform has left for this shard (PUB-19)."""
        most = self._platform.max_store_bytes
        return most - self.stored_bytes if most else _UNLIMITED

    def behind(self) -> list[OwnedStream]:
        """Streams that have messages left to remove, which earlier drains did not finish."""
        behind = self._memory.behind
        return [state for state in self._states.values() if state.incarnation in behind] if behind else []

    @property
    def sweeping(self) -> bool:
        """Whether there are keys to remove: of deleted streams, or bodies and totals that a stream no longer keeps."""
        return bool(self._doomed or self._memory.untidy)

    # -- changes

    def misfit(self, forward: Forward) -> str:
        """Why a stream cannot be made here: one that lives has its name or its number, and would be lost. Empty: it can.

        The registrar never asks for that; a forward that was copied into the topic from elsewhere does.
        """
        if forward.kind != "create":
            return ""
        for known in chain(self._states.values(), self._doomed.values()):
            if (known.name == forward.stream) != (known.incarnation == forward.incarnation):
                self._release(forward, "gone")
                return (
                    f"the stream {forward.stream} of incarnation {forward.incarnation} cannot be made: "
                    f"{known.name} of incarnation {known.incarnation} is there"
                )
        return ""

    def change(self, forward: Forward, time: int, drain: Drain) -> tuple[OwnedStream | None, Frame]:
        """Decide a create, update or delete: the stream that it touched, and the answer."""
        if forward.incarnation in self.aside:
            self._release(forward, "unchanged")
            refused = self.aside.refusal(forward.stream) or refusals.unavailable("the stream is set aside")
            return None, responses.refusal_frame(refused)
        known = self._states.get(forward.stream)
        if known is not None and known.incarnation != forward.incarnation:
            known = None  # the forward is about a stream that is gone
        if forward.kind == "create":
            return self._create(forward, known, time, drain)
        if known is None:
            self._release(forward, "gone")
            operation = Operation.STREAM_UPDATE if forward.kind == "update" else Operation.STREAM_DELETE
            return None, responses.error_response(operation, refusals.STREAM_NOT_FOUND)
        if forward.kind == "update":
            return self._update(forward, known, time, drain)
        return self._delete(forward, known, drain)

    def _create(
        self, forward: Forward, known: OwnedStream | None, time: int, drain: Drain
    ) -> tuple[OwnedStream | None, Frame]:
        if known is not None:  # CFG-06: the registrar has seen that the configuration is the same
            self._release(forward, "unchanged")
            return None, responses.create_response(known, time, created=False)
        # CLU-11: a stream has one log topic and one owner, which the registry names.
        config = StreamConfig.from_json(forward.config)
        topic = self._names.log(config.name)
        state = OwnedStream(
            self._overlay, config.name, forward.incarnation, config, time, topic, self._memory
        )
        self._add(state)
        drain.topics.append(TopicChange(topic, state.compacted))
        drain.registry.append((registry.stream_key(state.name), self._registered(state)))
        self._release(forward, "active", config.to_json())
        return state, responses.create_response(state, time, created=True)

    def _update(
        self, forward: Forward, known: OwnedStream, time: int, drain: Drain
    ) -> tuple[OwnedStream | None, Frame]:
        asked = StreamConfig.from_json(forward.config)
        decided = check_update(
            known.config,
            asked,
            self._platform,
            pedantic=forward.command_kind == "pedantic",
            consumers=(one.config for one in known.consumers.public),
        )
        if isinstance(decided, Refusal):  # UPD-18
            self._release(forward, "unchanged")
            return None, responses.error_response(Operation.STREAM_UPDATE, decided)
        before = known.config
        known.reconfigure(decided, time)
        limits.tighten(known, before)  # UPD-06
        backlog.note(known)
        drain.topics.append(TopicChange(known.topic, known.compacted))
        drain.registry.append((registry.stream_key(known.name), self._registered(known)))
        self._release(forward, "active", decided.to_json())
        return known, responses.update_response(known, time)

    def _delete(self, forward: Forward, known: OwnedStream, drain: Drain) -> tuple[OwnedStream | None, Frame]:
        known.deleting = True
        known.seal()
        known.forget()
        del self._states[known.name]
        self._doomed[known.name] = known
        drain.registry.append((registry.stream_key(known.name), self._registered(known)))
        return known, responses.success_response(Operation.STREAM_DELETE)

    def sweep(self, drain: Drain) -> None:
        """Remove some more keys; with the last ones of a deleted stream its topic, registry record and name."""
        left = SWEPT_KEYS
        untidy = self._memory.untidy
        for state in [one for one in self._states.values() if one.incarnation in untidy]:
            if left:
                left -= state.drop_strays(min(left, SWEPT_BODIES))
        for name, state in list(self._doomed.items()):
            if not left:
                return
            prefixes = (keys.all_of(kind, state.incarnation) for kind in keys.OF_A_STREAM)
            found = chain.from_iterable(self._overlay.scan(prefix) for prefix in prefixes)
            doomed = [key for key, _ in islice(found, left)]
            for key in doomed:
                self._overlay.delete(key)
            left -= len(doomed)
            if not left:
                return
            self._overlay.delete(keys.stream(state.incarnation))
            drain.doomed_topics.append(state.topic)
            drain.registry.append((registry.stream_key(name), None))
            self._send(
                REGISTRAR, Forward(self._partition, "released", name, state.incarnation, outcome="gone")
            )
            state.forget()
            del self._doomed[name]

    def refused(self, forward: Forward) -> None:
        """A change could not be carried out: the registrar must not wait for it."""
        stays = forward.stream in self._states or forward.incarnation in self.aside
        self._release(forward, "unchanged" if stays else "gone")

    def _release(self, forward: Forward, outcome: str, config: str = "") -> None:
        released = Forward(
            self._partition, "released", forward.stream, forward.incarnation, config, outcome=outcome
        )
        self._send(REGISTRAR, released)

    def _registered(self, state: OwnedStream) -> bytes:
        return registry.stream_record(
            state.name,
            incarnation=state.incarnation,
            partition=self._partition,
            deleting=state.deleting,
            config=state.config.to_json(),
            created=state.created,
        )
