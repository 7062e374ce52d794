"""Reads: packs of gets, pages of a stream, and their answers. Everything that there is many of travels as columns."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from railgun.model.headers import Headers
from railgun.model.refusals import Refusal
from railgun.protocol.avro import WireError, decode, encode, headers_in, headers_out

# Values of GetPack.forms
BY_SEQUENCE: Final = 0
LAST: Final = 1
NEXT: Final = 2

# Values of ReadRequest.form
WHOLE: Final = "whole"
HEADERS: Final = "headers"
INDEX: Final = "index"

HERE: Final = -1  # in place of an offset: the message is in the answer
_NO_HEADERS: Final[Headers] = []


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


def pack_bits(places: Iterable[int], count: int) -> bytes:
    """A bit for each of ``count`` messages, set for those at the places; empty if there are none."""
    bits = bytearray((count + 7) // 8)
    for place in places:
        bits[place >> 3] |= 1 << (place & 7)
    return bytes(bits) if any(bits) else b""


def unpack_bits(bits: bytes) -> frozenset[int]:
    """The places of the bits that are set."""
    return frozenset(place for place in range(8 * len(bits)) if bits[place >> 3] >> (place & 7) & 1)


def read_out(reply: ReadReply) -> dict[str, Any]:
    """The reply as its schema has it."""
    return {
        "request": reply.request,
        "topic": reply.topic,
        "incarnation": reply.incarnation,
        "indexes": _numbers_out("H", reply.indexes),
        "sequences": _numbers_out("q", reply.sequences),
        "times": _numbers_out("q", reply.times),
        "subjects": reply.subjects,
        "headers": [headers_out(one) for one in reply.headers] if any(reply.headers) else [],
        "payloads": reply.payloads,
        "offsets": _numbers_out("q", reply.offsets),
        "tombstones": pack_bits(reply.tombstones, len(reply.sequences)),
        "refusals": [{"index": index, **refusal._asdict()} for index, refusal in reply.refusals],
        "end": reply.end,
        "next": reply.next,
    }


def read_in(value: dict[str, Any]) -> ReadReply:
    """Raises ValueError unless the columns fit together."""
    sequences, times = _numbers_in("q", value["sequences"]), _numbers_in("q", value["times"])
    count = len(sequences)
    indexes, offsets = _numbers_in("H", value["indexes"]), _numbers_in("q", value["offsets"])
    columns = (indexes, value["headers"], value["payloads"], offsets)
    if (
        len(times) != count
        or len(value["subjects"]) != count
        or {len(one) or count for one in columns} != {count}
    ):
        raise ValueError("columns of messages that do not fit together")
    if len(value["tombstones"]) not in (0, (count + 7) // 8):
        raise ValueError(f"{len(value['tombstones'])} bytes of bits for {count} messages")
    headers: list[Headers] = [headers_in(one) if one else _NO_HEADERS for one in value["headers"]]
    refusals = [
        (one["index"], Refusal(one["code"], one["err_code"], one["description"])) for one in value["refusals"]
    ]
    columns_of_it = {
        "indexes": indexes, "sequences": sequences, "times": times, "headers": headers, "offsets": offsets,
        "tombstones": unpack_bits(value["tombstones"]), "refusals": refusals,
    }  # fmt: skip
    return ReadReply(**(value | columns_of_it))


def _numbers_out(code: str, values: Sequence[int]) -> bytes:
    column = array(code, values)
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


def _numbers_in(code: str, data: bytes) -> array[int]:
    column = array(code)
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column
