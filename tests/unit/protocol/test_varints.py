"""Numbers in bytes: as Avro's own encoder writes them."""

from __future__ import annotations

import io

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun.protocol.varints import varint

edges = [0, 1, 127, 128, (1 << 14) - 1, 1 << 14, (1 << 28) - 1, 1 << 28, (1 << 63) - 1]


@given(st.one_of(st.sampled_from(edges), st.integers(0, (1 << 63) - 1)))
def test_numbers_are_written_as_fastavro_does(value: int) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, {"type": "long"}, value)
    assert varint(value << 1) == out.getvalue()


def test_a_number_of_more_than_64_bits_is_refused() -> None:
    assert len(varint((1 << 64) - 1)) == 10
    with pytest.raises(OverflowError, match="more than 64 bits"):
        varint(1 << 64)
