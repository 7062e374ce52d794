"""Replies: the answers to a client, all of one drain in one record, and the frames that they consist of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from railgun.model.headers import HeaderList
from railgun.model.messages import StoredMessage
from railgun.model.refusals import Refusal
from railgun.protocol.avro import WireError, decode, encode, headers_in, headers_out
from railgun.protocol.columnar.read_records import ReadReply, read_in, read_out
from railgun.protocol.leases import Lease, lease_in, lease_out
from railgun.protocol.unreadable import Unreadable

STAGED: Final = 0  # in place of a sequence: the messages of a run wait for the commit of their batch
GET_TYPE = "io.nats.jetstream.api.v1.stream_msg_get_response"


class Located(NamedTuple):
    """The place in a log of a message that the reader of the reply puts into the frame."""

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
    """The outcome of each message of a pack: stored runs, duplicates, refusals."""

    stream: str
    first_request: int
    runs: list[tuple[int, int, int]]  # (index of the first, how many, sequence of the first, or STAGED)
    duplicates: list[tuple[int, int]]  # (index, sequence of the original)
    refusals: list[tuple[int, Refusal]]
    values: Sequence[tuple[int, int]] = ()  # (index, total) of the increments that were stored


def sequence_of(run: tuple[int, int, int], index: int) -> int:
    """The sequence of one message of a run of a pack, or STAGED."""
    start, _, first = run
    return STAGED if first == STAGED else first + index - start


class ReplyBatch(NamedTuple):
    """All answers of one drain to one client."""

    shard: int
    epoch: int
    packs: list[PackReply]
    answers: list[Answer]
    leases: list[Lease]
    reads: Sequence[ReadReply] = []

    def encode(self) -> bytes:
        return encode(
            "reply_batch",
            {
                "shard": self.shard,
                "epoch": self.epoch,
                "packs": [_pack_reply_out(pack) for pack in self.packs],
                "answers": [_answer_out(answer) for answer in self.answers],
                "leases": [lease_out(lease) for lease in self.leases],
                "values": [_values_out(at, pack) for at, pack in enumerate(self.packs) if pack.values],
                "reads": [read_out(reply) for reply in self.reads],
            },
        )

    @classmethod
    def decode(cls, data: bytes) -> ReplyBatch:
        """The batch in these bytes. Raises WireError if they are not one, or if its columns do not fit together."""
        value = decode("reply_batch", data, later=True)
        try:
            packs = [_pack_reply_in(pack) for pack in value["packs"]]
            for one in value["values"]:
                values = list(zip(one["indexes"], one["totals"], strict=True))
                packs[one["pack"]] = packs[one["pack"]]._replace(values=values)
            return cls(
                value["shard"],
                value["epoch"],
                packs,
                [_answer_in(answer) for answer in value["answers"]],
                [lease_in(lease) for lease in value["leases"]],
                [read_in(reply) for reply in value["reads"]],
            )
        except (ValueError, IndexError) as error:
            raise WireError(f"not a reply_batch: {error}") from error


def parse(data: bytes | None) -> ReplyBatch | Unreadable:
    """The answers in a record. Never raises."""
    try:
        return ReplyBatch.decode(data or b"")
    except WireError as error:
        return Unreadable("answers", str(error))


def get_frame(message: StoredMessage, *, no_headers: bool = False) -> Frame:
    """The answer of a plain get (GET-01)."""
    body = {"type": GET_TYPE, "message": message.to_api(no_headers=no_headers)}
    return Frame([], json.dumps(body).encode("utf-8"))


def direct_frame(message: StoredMessage, *, no_headers: bool = False) -> Frame:
    """The message itself (GET-08); the caller adds the headers that name its stream and sequence."""
    return Frame([] if no_headers else list(message.headers), message.payload)


def fill(frame: Frame, located: Located, message: StoredMessage) -> Frame:
    """The frame with the message in it that was read from the place it names."""
    make = get_frame if located.form == "get" else direct_frame
    filled = make(message, no_headers=located.no_headers)
    return Frame([*filled.headers, *frame.headers], filled.body)


def _pack_reply_out(pack: PackReply) -> dict[str, Any]:
    duplicates, originals = zip(*pack.duplicates, strict=True) if pack.duplicates else ((), ())
    return {
        "stream": pack.stream,
        "first_request": pack.first_request,
        "run_starts": [run[0] for run in pack.runs],
        "run_lengths": [run[1] for run in pack.runs],
        "run_sequences": [run[2] for run in pack.runs],
        "duplicates": duplicates,
        "duplicate_sequences": originals,
        "refusals": [{"index": index, **refusal._asdict()} for index, refusal in pack.refusals],
    }


def _values_out(at: int, pack: PackReply) -> dict[str, Any]:
    indexes, totals = zip(*pack.values, strict=True)
    return {"pack": at, "indexes": indexes, "totals": totals}


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
