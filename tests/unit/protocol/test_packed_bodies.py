"""Bodies beside their block: what is packed is found, and what is missing is nobody's loss."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.protocol.columnar.columns import PackedBodies, pack_bodies
from railgun.state.rocks import RocksTable
from railgun.state.table import Reached

Messages = dict[int, tuple[list[tuple[str, bytes]], bytes]]

_name = st.text(st.characters(codec="utf-8"), max_size=8)
_header = st.tuples(_name.filter(lambda name: "\0" not in name), st.binary(max_size=8))
_message = st.tuples(st.lists(_header, max_size=3), st.binary(max_size=20))


def pack(messages: Messages) -> bytes | None:
    indexes = sorted(messages)
    return pack_bodies(
        indexes, [messages[index][0] for index in indexes], [messages[index][1] for index in indexes]
    )


@given(
    st.dictionaries(st.integers(0, 511), _message, min_size=1, max_size=20),
    st.lists(st.integers(0, 511), max_size=20),
)
def test_every_packed_message_is_found_and_no_other(messages: Messages, also: list[int]) -> None:
    packed = PackedBodies(pack(messages) or b"")
    for index in [*range(512), *also, *sorted(messages, reverse=True)]:
        assert packed.find(index) == messages.get(index)


@settings(max_examples=15)
@given(
    st.dictionaries(st.integers(0, 511), _message, min_size=1, max_size=4),
    st.lists(st.sampled_from([1, 300, 65_535, 65_536, 66_000]), min_size=1, max_size=2),
)
def test_many_header_names_fit_beside_a_block(messages: Messages, numbers: list[int]) -> None:
    """More distinct names than two bytes can count: 512 messages of 140 names each are enough."""
    for index, count in enumerate(numbers):
        messages[index] = [(f"{index}-{n}", b"%d" % n) for n in range(count)], b"payload"
    packed = PackedBodies(pack(messages) or b"")
    assert {index: packed.find(index) for index in messages} == messages


@given(
    st.dictionaries(
        st.integers(0, 511),
        st.tuples(st.lists(st.tuples(_name, st.binary(max_size=3)), max_size=3), st.binary()),
        min_size=1,
        max_size=5,
    )
)
def test_names_that_cannot_be_told_apart_are_not_packed(messages: Messages) -> None:
    packed = pack(messages)
    assert (packed is None) == any("\0" in name for headers, _ in messages.values() for name, _ in headers)


def test_a_companion_outlives_the_process_but_not_the_store(tmp_path: Path) -> None:
    table = RocksTable(tmp_path / "store", identity="log", max_age=60)
    table.apply({b"k": b"value", b"alone": b"value"}, {b"k": b"beside"}, reached=Reached(1))
    table.close()
    table = RocksTable(tmp_path / "store", identity="log", max_age=60)
    assert table.companion(b"k") == b"beside"
    assert table.companion(b"alone") is None
    table.wipe("as a test wants it")
    assert table.companion(b"k") is None
    table.close()
