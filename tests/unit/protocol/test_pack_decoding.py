"""Packs are read in parts as the general decoder reads them, whatever their bytes are."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from railgun.model.headers import BATCH_PLACES, BATCH_SEQUENCE
from railgun.protocol.avro import WireError, decode, headers_in
from railgun.protocol.columnar import pack_decoding
from railgun.protocol.commands import PublishPack

names = st.sampled_from(["one", "Größe", "n" * 70, ""]) | st.text(max_size=5)
headers = st.lists(st.tuples(names, st.binary(max_size=150)), max_size=70)
# Messages that differ in one value only, as with conditions and in batches, and values that look like what stands before them.
alike = st.tuples(
    headers,
    names,
    st.lists(st.binary(max_size=70) | st.sampled_from([b"\x02\x06one", b"\x06one\x02", b"\0"]), max_size=8),
    headers,
).map(lambda given: [[*given[0], (given[1], value)] for value in given[2]] + [given[3]])
# Batches, one behind the other: each message has the place behind the one before, but for some that have another.
batches = st.lists(
    st.tuples(
        headers,
        st.integers(0, 1_010),
        st.integers(1, 150),
        st.dictionaries(
            st.integers(0, 149), st.sampled_from([b"7", b"01", b"+2", b"", b"1" * 70]), max_size=2
        ),
    ),
    max_size=3,
).map(
    lambda given: [
        [*others, (BATCH_SEQUENCE, odd.get(number, b"%d" % (first + number)))]
        for others, first, count, odd in given
        for number in range(count)
    ]
)
packs = (st.lists(headers, max_size=5) | alike | batches).map(
    lambda given: PublishPack("S", "me", 7, ["s"] * len(given), [], given, [b"x"] * len(given))
)
WHOLE = PublishPack("S", "me", 7, ["s"], ["id"], [[("one", b"1")]], [b"x"]).encode()
AT = WHOLE.index(b"\x06one")


def general(data: bytes) -> dict[str, Any] | None:
    """What the general decoder finds, None where it finds no pack."""
    try:
        value = decode("publish_pack", data)
    except WireError:
        return None
    return value | {"headers": [headers_in(one) for one in value["headers"]]}


def in_parts(data: bytes) -> dict[str, Any] | None:
    try:
        return pack_decoding.decode_pack(data)
    except WireError:
        return None


@given(packs)
def test_what_clients_write_is_read_in_parts(pack: PublishPack) -> None:
    data = pack.encode()
    assert pack_decoding._in_parts(data) == general(data)
    assert PublishPack.decode(data) == pack


@example(WHOLE, len(WHOLE), b"\0", 0)  # a byte too many
@example(WHOLE[: AT - 1] + b"\x01\x0c" + WHOLE[AT:], 0, b"", 0)  # a block of one with its size in bytes
@example(WHOLE, AT, b"\x82\x00", 1)  # a length in two bytes
@example(WHOLE, AT, b"\xff" * 11, 1)
@example(WHOLE, AT + 1, b"\xff", 1)  # a name that is not UTF-8
@given(packs.map(PublishPack.encode), st.integers(0, 200), st.binary(max_size=3), st.integers(0, 3))
def test_damaged_packs_are_read_as_the_general_decoder_reads_them(
    data: bytes, at: int, put: bytes, instead_of: int
) -> None:
    damaged = data[:at] + put + data[at + instead_of :]
    assert in_parts(damaged) == general(damaged)
    assert in_parts(damaged[:at]) == general(damaged[:at])


def test_messages_of_a_batch_share_the_headers_of_their_places() -> None:
    given = [[("Nats-Batch-Id", b"one"), place] for place in BATCH_PLACES[1:]]
    pack = PublishPack("S", "me", 7, ["s"] * len(given), [], given, [b"x"] * len(given))
    found = PublishPack.decode(pack.encode()).headers
    assert found == given
    assert all(one[1] is place for one, place in zip(found[1:], BATCH_PLACES[2:], strict=True))
