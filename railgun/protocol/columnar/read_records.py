"""Reads: packs of gets, pages of a stream, and their answers. Everything that there is many of travels as columns."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from railgun.model.headers import Headers
from railgun.model.refusals import Refusal
from railgun.protocol.avro import WireError, decode, encode
from railgun.protocol.columnar.columns import (
    PackedBodies,
    pack_bits,
    pack_bodies,
    pack_column,
    unpack_bits,
    unpack_column,
)

# Values of GetPack.forms
BY_SEQUENCE: Final = 0
LAST: Final = 1
NEXT: Final = 2

# Values of ReadRequest.form
WHOLE: Final = "whole"
HEADERS: Final = "headers"
INDEX: Final = "index"

HERE: Final = -1  # in place of an offset: the message is in the answer
_BETWEEN: Final = "\0"  # no subject holds it


class GetPack(NamedTuple):
    """Gets of one stream, as columns; ``forms`` and ``subjects`` are empty where all are by sequence."""

    stream: str
    client: str
    request: int
    forms: bytes
    sequences: list[int]
    subjects: list[str]

    def __len__(self) -> int:
        return len(self.sequences)

    def encode(self) -> bytes:
        return encode("get_pack", self._asdict())

    @classmethod
    def decode(cls, data: bytes) -> GetPack:
        pack = cls(**decode("get_pack", data))
        count = len(pack.sequences)
        if len(pack.forms) not in (0, count) or len(pack.subjects) not in (0, count) or count > 0xFFFF:
            raise WireError(f"not a get_pack: columns beside {count} sequences that do not fit them")
        if pack.forms and max(pack.forms) > NEXT:
            raise WireError(f"not a get_pack: there is no form {max(pack.forms)}")
        if pack.forms and any(pack.forms) and not pack.subjects:
            raise WireError("not a get_pack: gets by subject without subjects")
        return pack


class ReadRequest(NamedTuple):
    """A page of a stream's messages."""

    stream: str
    client: str = ""
    request: int = 0
    subjects: Sequence[str] = ()
    start: int = 0
    end: int = 0
    start_time: int | None = None
    end_time: int | None = None
    position: int = 0
    reverse: bool = False
    last_per_subject: bool = False
    form: str = WHOLE
    limit: int = 1
    max_bytes: int = 1

    def encode(self) -> bytes:
        return encode("read_request", self._asdict())

    @classmethod
    def decode(cls, data: bytes) -> ReadRequest:
        return cls(**decode("read_request", data))


class ReadReply(NamedTuple):
    """Messages as columns: the answer to some gets of a pack, or a page."""

    request: int
    topic: str = ""
    incarnation: int = 0
    indexes: Sequence[int] = ()
    sequences: Sequence[int] = ()
    times: Sequence[int] = ()
    subjects: Sequence[str] = ()
    headers: Sequence[Headers] = ()
    payloads: Sequence[bytes] = ()
    offsets: Sequence[int] = ()
    tombstones: frozenset[int] = frozenset()  # the places of the messages that are
    refusals: Sequence[tuple[int, Refusal]] = ()
    end: int = 0
    next: int = 0


def read_out(reply: ReadReply) -> dict[str, Any]:
    """The reply as its schema has it."""
    return {
        "request": reply.request,
        "topic": reply.topic,
        "incarnation": reply.incarnation,
        "indexes": pack_column("H", reply.indexes),
        "sequences": pack_column("q", reply.sequences),
        "times": pack_column("q", reply.times),
        "subjects": _BETWEEN.join(reply.subjects),
        "bodies": _bodies_out(reply),
        "offsets": pack_column("q", reply.offsets),
        "tombstones": pack_bits(reply.tombstones, len(reply.sequences)),
        "refusals": [{"index": index, **refusal._asdict()} for index, refusal in reply.refusals],
        "end": reply.end,
        "next": reply.next,
    }


def _bodies_out(reply: ReadReply) -> bytes:
    count = len(reply.sequences)
    if not reply.headers and not reply.payloads:
        return b""
    headers, payloads = reply.headers or [()] * count, reply.payloads or [b""] * count
    packed = pack_bodies(range(count), headers, payloads)
    if packed is None:  # a header name with NUL, which a log cuts off there
        cut = [[(name.partition("\0")[0], value) for name, value in one] for one in headers]
        packed = pack_bodies(range(count), cut, payloads)
        assert packed is not None, "no name holds NUL any more"
    return packed


def read_in(value: dict[str, Any]) -> ReadReply:
    """Raises ValueError unless the columns fit together."""
    sequences, times = unpack_column("q", value["sequences"]), unpack_column("q", value["times"])
    count = len(sequences)
    indexes, offsets = unpack_column("H", value["indexes"]), unpack_column("q", value["offsets"])
    subjects = value["subjects"].split(_BETWEEN) if count else []
    headers, payloads = _bodies_in(value.pop("bodies"), count)
    columns = {len(times), len(subjects), len(indexes) or count, len(offsets) or count}
    if columns != {count} or len(value["tombstones"]) not in (0, (count + 7) // 8):
        raise ValueError("columns of messages that do not fit together")
    refusals = [
        (one["index"], Refusal(one["code"], one["err_code"], one["description"])) for one in value["refusals"]
    ]
    own = {
        "indexes": indexes, "sequences": sequences, "times": times, "subjects": subjects, "headers": headers, "payloads": payloads,
        "offsets": offsets, "tombstones": unpack_bits(value["tombstones"]), "refusals": refusals,
    }  # fmt: skip
    return ReadReply(**(value | own))


def _bodies_in(data: bytes, count: int) -> tuple[Sequence[Headers], Sequence[bytes]]:
    if not data:
        return (), ()
    try:
        packed = PackedBodies(data)
        headers, payloads = packed.find_run(0, count)
    except (struct.error, IndexError) as error:
        raise ValueError(f"bodies that cannot be read: {error}") from error
    whole = [payload for payload in payloads if payload is not None]
    if not packed.is_whole or len(whole) != count:
        raise ValueError(f"bodies that are not those of {count} messages")
    return headers if any(headers) else (), whole
