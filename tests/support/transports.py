"""Transports made by hand: one that never answers, and one whose other end is the test. Both know the stream ``S`` only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from railgun.client.transport import Delivered, Receiver, TakeAdvisories, Topology
from railgun.errors import RailgunError
from railgun.model.messages import StoredMessage
from railgun.model.stream_config import StreamConfig
from railgun.protocol import avro as wire
from railgun.protocol.commands import (
    CONSUME,
    PRESENCE,
    REQUEST,
    AckRun,
    ApiRequest,
    ConsumerCommand,
    Presence,
    Pull,
)
from railgun.protocol.hand_overs import HAND_OVERS, HandOverPack
from railgun.protocol.leases import Lease
from railgun.protocol.replies import Answer, Frame, Located, ReplyBatch


def registered(name: str, *subjects: str, state: str = "active", partition: int = 0) -> tuple[bytes, bytes]:
    """The registry's record of a stream: key and value."""
    config = StreamConfig(name=name, subjects=list(subjects)).to_json()
    record = {
        "name": name,
        "incarnation": 1,
        "partition": partition,
        "state": state,
        "config": config,
        "created": 1,
    }
    return f"stream/{name}".encode(), wire.encode("registry_stream", record)


class Silent:
    """A transport that takes every command and never answers."""

    def __init__(self) -> None:
        self.alive: int | None = 1
        self.wrong: RailgunError | None = None
        self.sent: list[bytes] = []
        self.receiver: Receiver | None = None

    def open(self, client: str, receiver: Receiver, timeout: float) -> Topology:
        self.receiver = receiver
        receiver.registry(self.registry())
        return Topology(2)

    def registry(self) -> list[tuple[bytes, bytes]]:
        """The records that are in the registry when the transport is opened."""
        return [registered("S", "s.*")]

    def listen(self, shard: int, timeout: float) -> None:
        pass

    def send(self, partition: int, key: bytes, kind: str, value: bytes, delivered: Delivered) -> None:
        self.sent.append(value)
        delivered(None)

    def sync_registry(self, timeout: float) -> bool:
        return True

    def read_log(self, places: Sequence[Located], timeout: float) -> list[StoredMessage | None]:
        return []

    def advisories(self, take: TakeAdvisories) -> Callable[[], None]:
        return lambda: None

    def workers(self) -> int | None:
        return self.alive

    def trouble(self) -> RailgunError | None:
        return self.wrong

    def flush(self, timeout: float) -> bool:
        return True

    def close(self) -> None:
        pass


class PlayedShard(Silent):
    """A transport whose other end is the test. Commands are decoded and kept; the stream is in shard 1, of epoch 5."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[ConsumerCommand] = []
        self.hand_overs: list[HandOverPack] = []  # those that came together
        self.kinds: list[str] = []  # of all commands, in their order
        self.presence: list[Presence] = []
        self.requests: list[ApiRequest] = []
        self.refuse: RailgunError | None = None
        self.answer: Callable[[ApiRequest], bytes] | None = None
        self.confirm = False

    def registry(self) -> list[tuple[bytes, bytes]]:
        return [registered("S", "s.*", partition=1), (b"epoch/1", b'{"epoch": 5}')]

    def send(self, partition: int, key: bytes, kind: str, value: bytes, delivered: Delivered) -> None:
        if self.refuse is not None:
            delivered(self.refuse)
            return
        super().send(partition, key, kind, value, delivered)
        self.kinds.append(kind)
        if kind == HAND_OVERS:
            pack = HandOverPack.decode(value)
            self.hand_overs.append(pack)
            if self.confirm:
                self.reply(answers=[Answer(request, [Frame([], b"")]) for request in pack.requests])
        elif kind == PRESENCE:
            self.presence.append(Presence.decode(value))
        elif kind == CONSUME:
            command = ConsumerCommand.decode(value)
            self.commands.append(command)
            if command.request and self.confirm:
                self.reply(answers=[Answer(command.request, [Frame([], b"")])])
        elif kind == REQUEST:
            request = ApiRequest.decode(value)
            self.requests.append(request)
            if self.answer is not None:
                self.reply(answers=[Answer(request.request, [Frame([], self.answer(request))])])

    def reply(self, leases: Sequence[Lease] = (), answers: Sequence[Answer] = ()) -> None:
        """Send leases and answers to the client."""
        assert self.receiver is not None
        self.receiver.replies([ReplyBatch(1, 5, [], list(answers), list(leases)).encode()])

    def read_log(self, places: Sequence[Located], timeout: float) -> list[StoredMessage | None]:
        return [StoredMessage("s.a", one.sequence, b"%d" % one.sequence, [], 1) for one in places]

    @property
    def acks(self) -> list[AckRun]:
        """The acknowledgements of all commands so far."""
        return [run for command in self.commands for run in command.acks]

    @property
    def pulling(self) -> list[ConsumerCommand]:
        """The commands that carry a pull."""
        return [command for command in self.commands if command.pull is not None]

    @property
    def pulls(self) -> list[Pull]:
        """The pulls of all commands so far."""
        return [command.pull for command in self.commands if command.pull is not None]
