"""Payloads of events: frames, ids, schemas that do not fit, and what a connection without a registry does."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from typing_extensions import TypeAliasType

from railgun.avro import Events, InvalidEvent, SchemaFolder, UnreadableEvent, framing, writers
from railgun.errors import ConfigError


class Placed(BaseModel):
    id: str
    amount: int


class Paid(BaseModel):
    id: str


class Sent(BaseModel):
    id: str


@dataclass
class View:
    id: str


class Colour(Enum):
    RED = 1


class Parcel(BaseModel):
    first: Placed | None = None
    others: list[Placed | Paid] = []
    colour: Colour = Colour.RED


@dataclass
class ParcelView:
    first: View | None
    others: list[View]


@pytest.fixture
def events(tmp_path: Path) -> Events:
    return Events(SchemaFolder(tmp_path))


PLACED = Placed(id="a", amount=5)


def test_a_payload_has_confluents_frame(events: Events) -> None:
    payload = events.payload(PLACED)
    (number,) = writers(events.registry, Placed)  # type: ignore[arg-type]
    assert payload[:5] == b"\0" + number.to_bytes(4, "big")
    assert payload[5:] == b"\x02a\x0a"
    assert events.decode(payload, Placed) == PLACED


def test_a_union_and_other_types_are_read_by_the_writers_schema(events: Events) -> None:
    placed, paid = events.payload(PLACED), events.payload(Paid(id="b"))
    assert [events.framed(one, Placed | Paid) for one in (placed, paid)] == [PLACED, Paid(id="b")]
    assert events.framed(placed, dict[str, Any]) == {"id": "a", "amount": 5}
    assert events.framed(placed, View) == View("a")
    with pytest.raises(UnreadableEvent, match="it is a Placed, and Paid is wanted"):
        events.decode(placed, Paid)


def test_a_name_for_a_union_is_read_as_the_union(events: Events) -> None:
    """Of several models that would fit the writer's schema says which one it is."""
    either = TypeAliasType("either", Annotated[Paid | Sent, "of an order"])
    named = TypeAliasType("named", Placed | either)
    events.check(named)
    for event in (PLACED, Paid(id="b"), Sent(id="c")):
        assert events.framed(events.payload(event), named) == event


def test_records_in_unions_are_plain_for_types_that_are_no_models(events: Events) -> None:
    parcel = Parcel(first=PLACED, others=[PLACED, Paid(id="b")])
    payload = events.payload(parcel)
    first: dict[str, Any] = {"id": "a", "amount": 5}
    assert events.framed(payload, dict[str, Any]) == {
        "first": first,
        "others": [first, {"id": "b"}],
        "colour": "RED",
    }
    assert events.framed(payload, ParcelView) == ParcelView(View("a"), [View("a"), View("b")])
    assert events.framed(payload, Parcel | None) == parcel


def test_json_is_read_as_ever(events: Events) -> None:
    assert events.decode(b'{"id": "a", "amount": 5}', Placed) == PLACED
    with pytest.raises(ValidationError):
        events.decode(b"no json", Placed)


def test_without_a_registry_models_are_json() -> None:
    bare = Events()
    assert bare.payload(PLACED) == b'{"id":"a","amount":5}'
    assert bare.decode(bare.payload(PLACED), Placed) == PLACED
    assert bare.header(PLACED) is None
    with pytest.raises(UnreadableEvent, match="this connection has none"):
        bare.decode(b"\0\0\0\0\1x", Placed)


def test_what_is_damaged_is_said_with_its_id(events: Events) -> None:
    payload = events.payload(PLACED)
    number = framing.schema_id(payload)
    for damaged, reason in (
        (b"\0\0\0", "too short for a frame"),
        (framing.frame(7) + payload[5:], "has no schema 7"),
        (payload + b"x", "it has 1 bytes more"),
        (payload[:6], "it is not what its schema"),
        (payload[:5], "it is not what its schema"),
    ):
        with pytest.raises(UnreadableEvent, match=reason) as unreadable:
            events.decode(damaged, Placed)
        assert unreadable.value.schema_id in (None, 7, number)
    assert events.decode(payload, Placed) == PLACED


@given(st.binary(max_size=40))
def test_any_bytes_are_an_event_or_an_error_of_ours(data: bytes) -> None:
    for payload in (data, _KNOWN.payload(PLACED)[:5] + data):
        with suppress(UnreadableEvent, ValidationError):
            assert isinstance(_KNOWN.decode(payload, Placed), Placed)


class _One:
    """A registry of one schema."""

    def use(self, record: str, schema: Any) -> int:
        self._schema = schema
        return 1

    def schema(self, schema_id: int) -> Any:
        return self._schema if schema_id == 1 else None

    def versions(self, record: str) -> dict[int, str]:
        return {}


_KNOWN = Events(_One())


def test_a_schema_that_does_not_fit_the_model_is_said(tmp_path: Path) -> None:
    class Other(BaseModel):
        __avro_name__ = "Placed"
        id: int
        added: str

    events = Events(SchemaFolder(tmp_path, compatibility="NONE"))
    payload = events.payload(PLACED)
    with pytest.raises(UnreadableEvent, match="is not compatible"):
        events.decode(payload, Other)


def test_a_registry_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not a valid registry"):
        Events("http://localhost:8081")  # type: ignore[arg-type]


def test_a_time_that_no_reader_could_make_is_refused(events: Events) -> None:
    class Dated(BaseModel):
        at: datetime

    for at in (datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        assert events.decode(events.payload(Dated(at=at)), Dated).at == at
    for year, hours in ((1, 5), (9999, -5)):
        edge = datetime(year, 1 if year == 1 else 12, 1 if year == 1 else 31, 23 * (year > 1), tzinfo=UTC)
        with pytest.raises(InvalidEvent, match="out of range"):
            events.payload(Dated(at=edge.replace(tzinfo=timezone(timedelta(hours=hours)))))


class Tree(BaseModel):
    value: int = 0
    children: list[Tree] = []


class Chain(BaseModel):
    inner: Chain | None = None


def _tree(levels: int) -> Tree:
    tree = Tree()
    for number in range(levels):
        tree = Tree(value=number, children=[tree])
    return tree


@pytest.mark.parametrize("levels", [300, 100_000])
@pytest.mark.parametrize(
    "model, down, end", [(Tree, b"\0\2", b"\0\0"), (Chain, b"\2", b"\0")], ids=["tree", "chain"]
)
def test_a_payload_that_is_nested_without_end_is_unreadable(
    events: Events, model: type[BaseModel], down: bytes, end: bytes, levels: int
) -> None:
    """It would end the process, and that of whoever gets the message next."""
    payload = events.payload(model())[: framing.SIZE] + down * levels + end
    closing = b"\0" * levels if model is Tree else b""
    with pytest.raises(UnreadableEvent, match="nested too deeply"):
        events.decode(payload + closing, model)
    if model is Tree:
        with pytest.raises(UnreadableEvent, match="nested too deeply"):
            events.framed(payload + closing, dict[str, Any])


def test_an_event_that_is_nested_without_end_is_not_written(events: Events) -> None:
    with pytest.raises(InvalidEvent, match="nested too deeply"):
        events.payload(_tree(5_000))


def test_a_large_event_that_holds_others_of_its_kind_comes_back(events: Events) -> None:
    for tree in (_tree(50), Tree(children=[Tree(value=number) for number in range(5_000)])):
        assert events.decode(events.payload(tree), Tree) == tree


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "record", "name": "Nothing", "fields": []},
        {"type": "record", "name": "Nothing", "fields": [{"name": "a", "type": {"type": "record", "name": "Less", "fields": []}}, {"name": "b", "type": "Less"}]},
        {"type": "fixed", "name": "Nothing", "size": 0},
        {"type": "record", "name": "Nothing", "fields": [{"name": "again", "type": "Nothing"}]},
    ],
)  # fmt: skip
def test_a_list_that_no_end_of_bytes_would_end_is_not_read(tmp_path: Path, items: object) -> None:
    """Ten damaged bytes would claim as many items as there are numbers."""
    fields = [{"name": "all", "type": ["null", {"type": "array", "items": items}]}]
    registry = SchemaFolder(tmp_path, compatibility="NONE")
    number = registry.use("Listed", {"type": "record", "name": "Listed", "fields": fields})
    endless = b"\0" + number.to_bytes(4, "big") + b"\2" + b"\xfe" * 9 + b"\1\0"
    with pytest.raises(UnreadableEvent, match="a list of what takes no bytes"):
        Events(registry).framed(endless, dict)
