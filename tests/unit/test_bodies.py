"""Bodies beside their block: what is packed is found, and what is missing is nobody's loss."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from railgun.semantics.bodies import PackedBodies, pack_bodies
from railgun.state.rocks import RocksTable

_header = st.tuples(
    st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=8), st.binary(max_size=8)
)
_message = st.tuples(st.lists(_header, max_size=3), st.binary(max_size=20))


@given(
    st.dictionaries(st.integers(0, 511), _message, min_size=1, max_size=20),
    st.lists(st.integers(0, 511), max_size=20),
)
def test_every_packed_message_is_found_and_no_other(
    messages: dict[int, tuple[list[tuple[str, bytes]], bytes]], also: list[int]
) -> None:
    indexes = sorted(messages)
    packed = PackedBodies(
        pack_bodies(
            indexes, [messages[index][0] for index in indexes], [messages[index][1] for index in indexes]
        )
    )
    for index in [*range(512), *also, *reversed(indexes)]:
        assert packed.find(index) == messages.get(index)


def test_a_companion_outlives_the_process_but_not_the_store(tmp_path: Path) -> None:
    table = RocksTable(tmp_path / "store", identity="log", max_age=60)
    table.apply({b"k": b"value", b"alone": b"value"}, {b"k": b"beside"}, position=1)
    table.close()
    table = RocksTable(tmp_path / "store", identity="log", max_age=60)
    assert table.companion(b"k") == b"beside"
    assert table.companion(b"alone") is None
    table.wipe("as a test wants it")
    assert table.companion(b"k") is None
    table.close()
