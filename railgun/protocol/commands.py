"""Commands: the records that clients write to ``commands`` and shards to ``forwards``.

The header ``Railgun-Kind`` of a record in ``commands`` says what its value is; a record without it is a plain publish. A
:class:`Forward` carries such a command from shard to shard, or a decision of the registrar. Values on the hot path (packs) are
NamedTuples of columns, not one object a message.
"""

from __future__ import annotations

from itertools import repeat, takewhile
from typing import Final, NamedTuple

from railgun.model.headers import HeaderList
from railgun.protocol.avro import WireError, decode, encode, headers_in, headers_out
from railgun.protocol.columnar.pack_decoding import decode_pack

# Values of Railgun-Kind, each with the class of its records.
PACK: Final = "pack"  # PublishPack
REQUEST: Final = "request"  # ApiRequest
CONSUME: Final = "consume"  # ConsumerCommand
PRESENCE: Final = "presence"  # Presence
GETS: Final = "gets"  # read_records.GetPack
READ: Final = "read"  # read_records.ReadRequest
NOTHING: Final = "nothing"  # no value, and no effect: the record only shows where the topic ends

# Values of Forward.command_kind that only shards may write, beside those above.
STORE: Final = "store"  # a PublishPack that is stored without a look at its subjects
CAPTURES: Final = "captures"  # JSON: the streams that capture what shards send out, with their subjects
HANDED: Final = "handed"  # HandedOver


class PublishPack(NamedTuple):
    """Publishes to one stream as columns; ``ids`` and ``headers`` are empty lists when no message has any."""

    stream: str
    client: str
    first_request: int
    subjects: list[str]
    ids: list[str]
    headers: list[HeaderList]
    payloads: list[bytes]

    def encode(self) -> bytes:
        return encode(
            "publish_pack",
            {
                "stream": self.stream,
                "client": self.client,
                "first_request": self.first_request,
                "subjects": self.subjects,
                "ids": self.ids,
                "headers": [headers_out(one) for one in self.headers],
                "payloads": self.payloads,
            },
        )

    @classmethod
    def decode(cls, data: bytes) -> PublishPack:
        value = decode_pack(data)
        count, headers = len(value["payloads"]), value["headers"]
        for column in (value["ids"], headers):
            if column and len(column) != count:
                raise WireError(f"not a publish_pack: a column of {len(column)} beside {count} payloads")
        if len(value["subjects"]) != count:
            raise WireError(f"not a publish_pack: {len(value['subjects'])} subjects beside {count} payloads")
        return cls(
            value["stream"],
            value["client"],
            value["first_request"],
            value["subjects"],
            value["ids"],
            headers,
            value["payloads"],
        )


class ApiRequest(NamedTuple):
    """A call of the API by name."""

    client: str
    request: int
    api: str
    stream: str
    headers: HeaderList
    body: bytes

    def encode(self) -> bytes:
        return encode("api_request", self._asdict() | {"headers": headers_out(self.headers)})

    @classmethod
    def decode(cls, data: bytes) -> ApiRequest:
        value = decode("api_request", data)
        return cls(**(value | {"headers": headers_in(value["headers"])}))


class Forward(NamedTuple):
    """A record from shard to shard: a command that is passed on, or a step in the life of a stream."""

    origin: int
    kind: str  # command | create | update | delete | released | nothing
    stream: str
    incarnation: int = 0
    config: str = ""
    client: str = ""
    request: int = 0
    time: int = 0
    command_kind: str = ""
    command: bytes = b""
    outcome: str = "none"  # none | active | unchanged | gone

    def encode(self) -> bytes:
        return encode("forward", self._asdict())

    @classmethod
    def decode(cls, data: bytes) -> Forward:
        return cls(**decode("forward", data))


class AckRun(NamedTuple):
    """Consecutive deliveries that are resolved alike."""

    kind: str  # ack | nak | progress | term | back
    sequence: int
    length: int
    consumer_sequence: int
    deliveries: int  # 0: the newest delivery
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
    patience: int = 0  # ns for which its caller waits for its end; 0: not known


class HandOver(NamedTuple):
    """An acknowledgement that counts together with publishes to any streams, or not at all."""

    sequence: int
    consumer_sequence: int
    deliveries: int
    packs: list[bytes]  # each a PublishPack


class ConsumerCommand(NamedTuple):
    """A command to one consumer: acknowledgements in the order in which they count, a hand-over, then at most one pull."""

    stream: str
    incarnation: int
    consumer: str
    number: int
    client: str
    request: int = 0
    acks: list[AckRun] = []  # noqa: RUF012
    pull: Pull | None = None
    cancelled: list[int] = []  # noqa: RUF012
    hand_over: HandOver | None = None

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
            "hand_over": None if self.hand_over is None else self.hand_over._asdict(),
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
        given = value["hand_over"]
        hand_over = None if given is None else HandOver(**given)
        return cls(**(value | {"acks": acks, "pull": pull, "hand_over": hand_over}))


class HandedOver(NamedTuple):
    """Publishes that were handed over, on their way to the owner of their stream, with the message that they come from."""

    stream: str
    sequence: int
    time: int  # when that message was stored, ns
    consumer: str
    deliveries: int
    dead_letter: str  # the stream that takes what is refused; empty: none
    pack: bytes  # a PublishPack

    def encode(self) -> bytes:
        return encode("handed_over", self._asdict())

    @classmethod
    def decode(cls, data: bytes) -> HandedOver:
        return cls(**decode("handed_over", data))


class Presence(NamedTuple):
    """A sign of life of a client, with the deliver subjects that it listens to, each with its queue group (empty: none)."""

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
