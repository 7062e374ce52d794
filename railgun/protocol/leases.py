"""What consumers and their clients tell each other: leases, acknowledgements, pulls, presence."""

from __future__ import annotations

from itertools import repeat, takewhile
from typing import NamedTuple

from railgun.protocol.avro import HeaderList, WireError, decode, encode


class Lease(NamedTuple):
    """Messages that are a client's to work on, as runs in columns, and what became of its pull.

    ``subjects``, ``payloads`` and ``times`` hold one value for each message where the lease carries the messages itself;
    otherwise they are empty, and the messages are read from ``topic``.
    """

    stream: str
    incarnation: int
    consumer: str
    number: int
    topic: str
    pull: int = 0
    subject: str = ""
    group: str = ""
    sequences: list[int] = []  # noqa: RUF012 - never changed
    counts: list[int] = []  # noqa: RUF012
    offsets: list[int] = []  # noqa: RUF012
    consumer_sequences: list[int] = []  # noqa: RUF012
    deliveries: list[int] = []  # noqa: RUF012
    subjects: list[str] = []  # noqa: RUF012
    headers: list[HeaderList] = []  # noqa: RUF012
    payloads: list[bytes] = []  # noqa: RUF012
    times: list[int] = []  # noqa: RUF012
    pending: int = 0
    headers_only: bool = False
    done: bool = False
    status: int = 0
    description: str = ""
    status_headers: HeaderList = []  # noqa: RUF012
    reply: str = ""


class AckRun(NamedTuple):
    """Consecutive deliveries that are resolved alike."""

    kind: str  # ack | nak | progress | term | back
    sequence: int
    length: int
    consumer_sequence: int
    deliveries: int  # 0: whichever delivery is the newest
    delay: int = 0
    reason: str = ""


class Pull(NamedTuple):
    """A request for messages."""

    id: int
    batch: int = 1
    max_bytes: int = 0
    expires: int = 0
    no_wait: bool = False
    heartbeat: int = 0
    patience: int = 0  # ns for which its caller waits for its end; 0: not told


class ConsumerCommand(NamedTuple):
    """What a client tells one consumer: acknowledgements in the order in which they count, then at most one pull."""

    stream: str
    incarnation: int
    consumer: str
    number: int
    client: str
    request: int = 0
    acks: list[AckRun] = []  # noqa: RUF012
    pull: Pull | None = None
    cancelled: list[int] = []  # noqa: RUF012

    def encode(self) -> bytes:
        plain = list(takewhile(lambda run: run.kind == "ack", self.acks))
        value = self._asdict() | {
            "done": {
                "sequences": [run.sequence for run in plain],
                "lengths": [run.length for run in plain],
                "consumer_sequences": [run.consumer_sequence for run in plain],
                "deliveries": [run.deliveries for run in plain],
            },
            "acks": [run._asdict() for run in self.acks[len(plain) :]],
            "pull": None if self.pull is None else self.pull._asdict(),
            "patience": 0 if self.pull is None else self.pull.patience,
        }
        return encode("consumer_command", value)

    @classmethod
    def decode(cls, data: bytes) -> ConsumerCommand:
        value = decode("consumer_command", data)
        done = value.pop("done")
        columns = (done["sequences"], done["lengths"], done["consumer_sequences"], done["deliveries"])
        if len({len(column) for column in columns}) > 1:
            raise WireError("the columns of acknowledgements differ in length")
        acks = [*map(AckRun, repeat("ack"), *columns), *(AckRun(**run) for run in value["acks"])]
        patience = value.pop("patience")
        pull = None if value["pull"] is None else Pull(**value["pull"], patience=patience)
        return cls(**(value | {"acks": acks, "pull": pull}))


class Presence(NamedTuple):
    """A client is there, and listens to these deliver subjects, each with its queue group (empty: none)."""

    client: str
    leaving: bool = False
    listens: list[tuple[str, str]] = []  # noqa: RUF012

    def encode(self) -> bytes:
        listens = [{"subject": subject, "group": group} for subject, group in self.listens]
        return encode("presence", self._asdict() | {"listens": listens})

    @classmethod
    def decode(cls, data: bytes) -> Presence:
        value = decode("presence", data)
        return cls(
            value["client"], value["leaving"], [(one["subject"], one["group"]) for one in value["listens"]]
        )
