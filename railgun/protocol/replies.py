"""Answers on their way to a client: what one drain has for it, in one record."""

from __future__ import annotations

from typing import Any, NamedTuple

from railgun.model.refusals import Refusal
from railgun.protocol.avro import Frame, Located, WireError, decode, encode, headers_in, headers_out
from railgun.protocol.leases import Lease
from railgun.protocol.unreadable import Unreadable


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
        """Raises WireError: for other bytes, and for columns that do not fit together."""
        value = decode("reply_batch", data, later=True)
        try:
            return cls(
                value["shard"],
                value["epoch"],
                [_pack_reply_in(pack) for pack in value["packs"]],
                [_answer_in(answer) for answer in value["answers"]],
                [_lease_in(lease) for lease in value["leases"]],
            )
        except ValueError as error:
            raise WireError(f"not a reply_batch: {error}") from error


def parse(data: bytes | None) -> ReplyBatch | Unreadable:
    """The answers in a record. Never raises."""
    try:
        return ReplyBatch.decode(data or b"")
    except WireError as error:
        return Unreadable("answers", str(error))


def _lease_out(lease: Lease) -> dict[str, Any]:
    return lease._asdict() | {
        "headers": [headers_out(one) for one in lease.headers],
        "status_headers": headers_out(lease.status_headers),
    }


def _lease_in(value: dict[str, Any]) -> Lease:
    """Raises ValueError unless the columns are those of runs, and of their messages if it carries them."""
    counts, carried = value["counts"], len(value["subjects"])
    runs = {len(value[name]) for name in ("sequences", "consumer_sequences", "deliveries")}
    if runs != {len(counts)} or any(count < 1 for count in counts):
        raise ValueError("a lease whose runs are none")
    messages = {len(value[name]) for name in ("payloads", "times")} | {len(value["headers"]) or carried}
    if messages != {carried} or carried not in (0, sum(counts)):
        raise ValueError("a lease that carries some of its messages")
    if not carried and len(value["offsets"]) != len(counts):
        raise ValueError("a lease that does not say where its messages are")
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
