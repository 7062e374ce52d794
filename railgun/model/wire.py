"""Avro bodies: one codec per schema of ``schemas/``, and the Python values they carry.

Codecs are strict: bytes that do not decode to the end raise :class:`WireError`, which the shard turns into a record in
``rejected``. Values on the hot path (packs) are NamedTuples of columns, not one object a message.
"""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import fastavro

from railgun.errors import RailgunError
from railgun.model.refusals import Refusal

HeaderList = list[tuple[str, bytes]]


class WireError(RailgunError):
    """Bytes that are not what their schema says."""


def schema_folder() -> Path:
    """Where the schemas are: inside an installed package, or beside it in a checkout."""
    installed = Path(__file__).parent.parent / "_schemas"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "schemas"


@cache
def schema(name: str) -> Any:
    """The parsed schema ``schemas/<name>.avsc``."""
    return fastavro.parse_schema(json.loads((schema_folder() / f"{name}.avsc").read_text("utf-8")))


def encode(name: str, value: dict[str, Any]) -> bytes:
    """The value as the Avro bytes of schema ``name``."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema(name), value)
    return out.getvalue()


def decode(name: str, data: bytes) -> dict[str, Any]:
    """The value of Avro bytes of schema ``name``. Raises WireError unless they are exactly one such value."""
    source = io.BytesIO(data)
    try:
        value = fastavro.schemaless_reader(source, schema(name), None)
    except (
        EOFError,
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        OverflowError,
        MemoryError,
        UnicodeDecodeError,
    ) as error:
        raise WireError(f"not a {name}: {str(error) or type(error).__name__}") from error
    if source.tell() != len(data):
        raise WireError(f"not a {name}: {len(data) - source.tell()} bytes too many")
    assert isinstance(value, dict)
    return value


def headers_out(headers: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in headers]


def headers_in(fields: list[dict[str, Any]]) -> HeaderList:
    return [(field["name"], field["value"]) for field in fields]


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
        value = decode("publish_pack", data)
        count = len(value["payloads"])
        headers = [headers_in(one) for one in value["headers"]]
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
    """A command from shard to shard."""

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


class Located(NamedTuple):
    """Where a message is that the reader of the reply puts into the frame."""

    form: str  # get | direct
    topic: str
    offset: int
    sequence: int
    incarnation: int
    no_headers: bool


class Frame(NamedTuple):
    """One message of an answer: headers and body, or a place in the log to take them from."""

    headers: HeaderList
    body: bytes
    located: Located | None = None


class Answer(NamedTuple):
    """The frames that answer one request, in order."""

    request: int
    frames: list[Frame]


class PackReply(NamedTuple):
    """What became of each message of a pack: stored runs, duplicates, refusals."""

    stream: str
    first_request: int
    runs: list[tuple[int, int, int]]  # (index of the first, how many, sequence of the first)
    duplicates: list[tuple[int, int]]  # (index, sequence of the original)
    refusals: list[tuple[int, Refusal]]


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
    deliveries: int
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
        value = self._asdict() | {"acks": [run._asdict() for run in self.acks]}
        return encode(
            "consumer_command", value | {"pull": None if self.pull is None else self.pull._asdict()}
        )

    @classmethod
    def decode(cls, data: bytes) -> ConsumerCommand:
        value = decode("consumer_command", data)
        acks = [AckRun(**run) for run in value["acks"]]
        pull = None if value["pull"] is None else Pull(**value["pull"])
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


class ReplyBatch(NamedTuple):
    """All answers of one drain to one client."""

    shard: int
    epoch: int
    packs: list[PackReply]
    answers: list[Answer]
    leases: list[Lease]

    def encode(self) -> bytes:
        return encode(
            "reply_batch",
            {
                "shard": self.shard,
                "epoch": self.epoch,
                "packs": [_pack_reply_out(pack) for pack in self.packs],
                "answers": [_answer_out(answer) for answer in self.answers],
                "leases": [_lease_out(lease) for lease in self.leases],
            },
        )

    @classmethod
    def decode(cls, data: bytes) -> ReplyBatch:
        value = decode("reply_batch", data)
        return cls(
            value["shard"],
            value["epoch"],
            [_pack_reply_in(pack) for pack in value["packs"]],
            [_answer_in(answer) for answer in value["answers"]],
            [_lease_in(lease) for lease in value["leases"]],
        )


def _lease_out(lease: Lease) -> dict[str, Any]:
    return lease._asdict() | {
        "headers": [headers_out(one) for one in lease.headers],
        "status_headers": headers_out(lease.status_headers),
    }


def _lease_in(value: dict[str, Any]) -> Lease:
    return Lease(
        **(
            value
            | {
                "headers": [headers_in(one) for one in value["headers"]],
                "status_headers": headers_in(value["status_headers"]),
            }
        )
    )


def _pack_reply_out(pack: PackReply) -> dict[str, Any]:
    return {
        "stream": pack.stream,
        "first_request": pack.first_request,
        "run_starts": [run[0] for run in pack.runs],
        "run_lengths": [run[1] for run in pack.runs],
        "run_sequences": [run[2] for run in pack.runs],
        "duplicates": [index for index, _ in pack.duplicates],
        "duplicate_sequences": [sequence for _, sequence in pack.duplicates],
        "refusals": [{"index": index, **refusal._asdict()} for index, refusal in pack.refusals],
    }


def _pack_reply_in(value: dict[str, Any]) -> PackReply:
    return PackReply(
        value["stream"],
        value["first_request"],
        list(zip(value["run_starts"], value["run_lengths"], value["run_sequences"], strict=True)),
        list(zip(value["duplicates"], value["duplicate_sequences"], strict=True)),
        [
            (one["index"], Refusal(one["code"], one["err_code"], one["description"]))
            for one in value["refusals"]
        ],
    )


def _answer_out(answer: Answer) -> dict[str, Any]:
    return {
        "request": answer.request,
        "frames": [
            {
                "headers": headers_out(frame.headers),
                "body": frame.body,
                "located": None if frame.located is None else frame.located._asdict(),
            }
            for frame in answer.frames
        ],
    }


def _answer_in(value: dict[str, Any]) -> Answer:
    return Answer(
        value["request"],
        [
            Frame(
                headers_in(frame["headers"]),
                frame["body"],
                None if frame["located"] is None else Located(**frame["located"]),
            )
            for frame in value["frames"]
        ],
    )
