"""Models in Avro: every type that is mapped comes back as it was, and what cannot be mapped is refused by name."""

from __future__ import annotations

import enum
import json
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NewType, TypeVar

import fastavro
import pytest
from avro.schema import parse
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    NaiveDatetime,
    PlainSerializer,
    RootModel,
    create_model,
    field_serializer,
)
from typing_extensions import TypeAliasType

from railgun.avro import Events, InvalidEvent, InvalidModel, SchemaFolder, schema_of
from railgun.avro.mapping import mapped
from railgun.avro.records import RecordNames

Sku = NewType("Sku", str)
Money = Annotated[Decimal, Field(max_digits=12, decimal_places=2)]


class Colour(enum.Enum):
    RED = "red-ish"
    BLUE = 2


class Shade(enum.Enum):
    __avro_name__ = "shop.Shade"
    DARK = 1
    LIGHT = 2


class Line(BaseModel):
    sku: Sku
    count: int = 1
    colour: Colour = Colour.RED


class Gift(BaseModel):
    sku: Sku
    count: int = 1


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Everything(BaseModel):
    """All that is mapped."""

    text: str
    number: int
    ratio: float
    flag: bool
    data: bytes
    price: Money
    at: datetime
    local: NaiveDatetime
    day: date
    clock: time
    key: uuid.UUID
    colour: Colour
    size: Literal["small", "large"]
    other_colour: Colour | None
    other_size: Literal["small", "large"] | None
    shade: Shade | None
    number_or_shade: int | Shade
    shades: list[Shade | None]
    note: str | None
    when: datetime | None
    line: Line | None
    either: int | str | None
    item: Line | Gift
    items: list[Line | Gift]
    lines: list[Line]
    prices: list[Money]
    several: tuple[int, ...] | None
    tags: set[str]
    fixed: frozenset[int]
    by_name: dict[str, Line | None]
    tree: Tree


_LONGS = st.integers(-(2**63), 2**63 - 1)
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
_MONEY = st.integers(-(10**12) + 1, 10**12 - 1).map(lambda cents: Decimal(cents).scaleb(-2))
_FIRST, _LAST = datetime(1900, 1, 1), datetime(2200, 1, 1)  # noqa: DTZ001 - strategies want them without
_MOMENTS = st.datetimes(_FIRST, _LAST, timezones=st.sampled_from([UTC, timezone(timedelta(hours=5))]))
_COLOURS = st.sampled_from(Colour)
_SHADES = st.sampled_from(Shade)
_LINES = st.builds(Line, sku=_TEXTS, count=_LONGS, colour=_COLOURS)
_GIFTS = st.builds(Gift, sku=_TEXTS, count=_LONGS)
_TREES = st.recursive(
    st.builds(Tree, value=_LONGS),
    lambda inner: st.builds(Tree, value=_LONGS, children=st.lists(inner, max_size=2)),
)
_EVERYTHING = st.builds(
    Everything,
    text=_TEXTS,
    number=_LONGS,
    ratio=st.floats(allow_nan=False),
    flag=st.booleans(),
    data=st.binary(max_size=20),
    price=_MONEY,
    at=_MOMENTS,
    local=st.datetimes(_FIRST, _LAST),
    day=st.dates(),
    clock=st.times(),
    key=st.uuids(),
    colour=_COLOURS,
    size=st.sampled_from(["small", "large"]),
    other_colour=st.none() | _COLOURS,
    other_size=st.none() | st.sampled_from(["small", "large"]),
    shade=st.none() | _SHADES,
    number_or_shade=_LONGS | _SHADES,
    shades=st.lists(st.none() | _SHADES, max_size=3),
    note=st.none() | _TEXTS,
    when=st.none() | _MOMENTS,
    line=st.none() | _LINES,
    either=st.none() | _LONGS | _TEXTS,
    item=_LINES | _GIFTS,
    items=st.lists(_LINES | _GIFTS, max_size=3),
    lines=st.lists(_LINES, max_size=3),
    prices=st.lists(_MONEY, max_size=3),
    several=st.none() | st.lists(_LONGS, max_size=3).map(tuple),
    tags=st.sets(_TEXTS, max_size=3),
    fixed=st.frozensets(_LONGS, max_size=3),
    by_name=st.dictionaries(_TEXTS, st.none() | _LINES, max_size=3),
    tree=_TREES,
)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    return Events(SchemaFolder(tmp_path_factory.mktemp("schemas")))


@given(_EVERYTHING)
@settings(max_examples=60)
def test_an_event_comes_back_as_it_was(event: Everything) -> None:
    assert _EVENTS.decode(_EVENTS.payload(event), Everything) == event


class _InMemory:
    """A registry that keeps nothing but ids."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def use(self, record: str, schema: Any) -> int:
        self.kept.append(fastavro.parse_schema(json.loads(json.dumps(schema)), named_schemas={}))
        return len(self.kept)

    def schema(self, schema_id: int) -> Any:
        return self.kept[schema_id - 1]

    def versions(self, record: str) -> dict[int, str]:
        return {}


_EVENTS = Events(_InMemory())


class Part(BaseModel):
    sku: str
    parts: list[Part] = []


class PartLater(BaseModel):
    __avro_name__ = "Part"
    sku: str
    parts: list[PartLater] = []
    seal: bytes = b"\xff"
    at: datetime = datetime(2020, 1, 1, tzinfo=UTC)
    day: date = date(2020, 1, 1)
    clock: time = time(1)
    price: Money = Decimal("1.50")
    ratio: float | int = 2**60 + 1


def test_a_record_that_is_met_twice_has_the_defaults_of_the_model_each_time(tmp_path: Path) -> None:
    """Its schema is written out once, where it is met first, and has its name alone in all other places."""

    class Whole(BaseModel):
        first: Part
        second: Part
        several: dict[str, Part]

    class WholeLater(BaseModel):
        __avro_name__ = "Whole"
        first: PartLater
        second: PartLater
        several: dict[str, PartLater]

    events = Events(SchemaFolder(tmp_path))
    old, new = (
        [
            model(sku="a"),
            model(sku="b", parts=[model(sku="c", parts=[model(sku="d")])]),
            {"e": model(sku="e")},
        ]
        for model in (Part, PartLater)
    )
    written = events.payload(Whole(first=old[0], second=old[1], several=old[2]))
    later = WholeLater(first=new[0], second=new[1], several=new[2])
    assert events.decode(written, WholeLater) == later
    assert events.decode(events.payload(later), Whole) == events.decode(written, Whole)


class Whole(BaseModel):
    sku: str
    more: int = 1


@pytest.mark.parametrize("kind", [Whole | PartLater, PartLater | Whole, PartLater | int | None])
def test_a_model_that_became_one_of_several_stays_what_it_is(tmp_path: Path, kind: Any) -> None:
    """Avro names a record where the writer had a union, and here it had none."""
    before: Any = create_model("Held", item=(Part, ...), items=(list[Part], []))
    after: Any = create_model("Held", item=(kind, ...), items=(list[kind], []))
    events = Events(SchemaFolder(tmp_path, compatibility="BACKWARD"))
    old, new = Part(sku="a", parts=[Part(sku="b")]), PartLater(sku="a", parts=[PartLater(sku="b")])
    written = events.payload(before(item=old, items=[old]))
    assert events.decode(written, after) == after(item=new, items=[new])


_PLACES: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "plain": (lambda kind: kind, lambda value: value),
    "optional": (lambda kind: kind | None, lambda value: value),
    "union": (lambda kind: kind | int | None, lambda value: value),
    "items": (lambda kind: list[kind], lambda value: [value, value]),
    "optional items": (lambda kind: list[kind | None], lambda value: [None, value]),
    "optional list": (lambda kind: list[kind] | None, lambda value: [value]),
    "values": (lambda kind: dict[str, kind], lambda value: {"a": value}),
}


@pytest.mark.parametrize("kinds", [(Part, PartLater), (Shade, Shade)], ids=["model", "enum"])
@pytest.mark.parametrize("one", _PLACES)
@pytest.mark.parametrize("other", _PLACES)
def test_fields_of_one_type_may_change_their_places(
    tmp_path: Path, one: str, other: str, kinds: tuple[Any, Any]
) -> None:
    """What one version writes out is no more than a name in the other one."""
    models, made = [], []
    for names, kind in zip((("a", "b"), ("b", "a")), kinds, strict=True):
        value = Shade.LIGHT if kind is Shade else kind(sku="x", parts=[kind(sku="y")] * 100)
        shapes = {"a": _PLACES[one], "b": _PLACES[other]}
        fields: Any = {name: (shapes[name][0](kind), ...) for name in names}
        models.append(create_model("Moved", more=(int, 0) if kind is PartLater else (int, 1), **fields))
        made.append(models[-1](**{name: shapes[name][1](value) for name in names}, more=5))
    events = Events(SchemaFolder(tmp_path))
    for event in made:
        for model, wanted in zip(models, made, strict=True):
            assert events.decode(events.payload(event), model) == wanted


@pytest.mark.filterwarnings(
    "ignore:Unknown local-timestamp-micros"
)  # the package knows only some logical types
def test_the_schema_is_what_other_libraries_read() -> None:
    schema = json.loads(schema_of(Everything))
    assert parse(schema_of(Everything)).name == "Everything"  # type: ignore[attr-defined]
    fields = {field["name"]: field["type"] for field in schema["fields"]}
    assert schema["doc"] == "All that is mapped."
    assert fields["number"] == "long"
    assert fields["price"] == {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    assert fields["at"] == {"type": "long", "logicalType": "timestamp-micros"}
    assert fields["colour"] == {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
    assert fields["note"] == ["null", "string"]
    assert fields["tree"]["fields"][1]["type"] == {"type": "array", "items": "Tree"}


class Defaults(BaseModel):
    id: str
    data: bytes = b"\xff\x00"
    price: Money = Decimal("-1.50")
    at: datetime = datetime(2020, 1, 1, tzinfo=UTC)
    local: NaiveDatetime = datetime(2020, 1, 1)  # noqa: DTZ001 - it has none
    day: date = date(1969, 12, 31)
    clock: time = time(1, 2, 3, 4)
    key: uuid.UUID = uuid.UUID(int=5)
    colour: Colour = Colour.BLUE
    line: Line | None = Line(sku=Sku("a"))
    none: Line | None = None
    either: int | str = "text"
    item: Line | Gift = Gift(sku=Sku("g"))
    several: tuple[int, ...] = (1, 2)
    tags: set[str] = {"b", "a"}
    names: list[str] = Field(default_factory=list)
    by_name: dict[str, Line] = {"x": Line(sku=Sku("y"))}


def test_what_an_earlier_version_lacks_has_the_default_of_the_model(tmp_path: Path) -> None:
    class OnlyId(BaseModel):
        __avro_name__ = "Defaults"
        id: str

    events = Events(SchemaFolder(tmp_path))
    written = events.payload(OnlyId(id="1"))
    assert events.decode(written, Defaults) == Defaults(id="1")
    assert events.decode(events.payload(Defaults(id="2")), OnlyId) == OnlyId(id="2")
    assert events.decode(written, Defaults).names is not events.decode(written, Defaults).names


@pytest.mark.filterwarnings(
    "ignore:Unknown local-timestamp-micros"
)  # the package knows only some logical types
def test_defaults_are_defaults_of_the_schema_too() -> None:
    parse(schema_of(Defaults))  # which checks them
    defaults = {field["name"]: field.get("default") for field in json.loads(schema_of(Defaults))["fields"]}
    assert defaults["at"] == 1_577_836_800_000_000
    assert defaults["day"] == -1
    assert defaults["data"] == "\xff\x00"
    assert defaults["tags"] == ["a", "b"]
    assert defaults["line"] == {"sku": "a", "count": 1, "colour": "RED"}
    types = {field["name"]: field["type"] for field in json.loads(schema_of(Defaults))["fields"]}
    assert types["none"][0] == "null"
    assert types["line"][0] != "null", "a default is of the first branch"
    assert types["either"] == ["string", "long"]


def test_a_number_of_a_union_stays_what_it_is_in_another_version(tmp_path: Path) -> None:
    """Avro would read an integer as the first type that could hold it: a double, which lacks its last digits."""

    class Measured(BaseModel):
        value: float | int | None

    class MeasuredLater(Measured):
        __avro_name__ = "Measured"
        unit: str = "m"

    events = Events(SchemaFolder(tmp_path))
    for value in (2**60 + 1, 1.5, None):
        read = events.decode(events.payload(Measured(value=value)), MeasuredLater).value
        assert (type(read), read) == (type(value), value)


class Named(BaseModel):
    __avro_name__ = "shop.Placed"
    total: int = Field(validation_alias=AliasChoices("total", "amount"), description="in cents")


def test_a_default_may_be_of_a_type_that_is_inside_of_another_branch(events: Events) -> None:
    """Its branch comes first in the union, and so it is written out there."""

    class Adorned(BaseModel):
        item: Line | Colour | None = Colour.BLUE
        other: Colour = Colour.RED

    for event in (Adorned(), Adorned(item=Line(sku=Sku("a"), colour=Colour.BLUE)), Adorned(item=None)):
        assert events.decode(events.payload(event), Adorned) == event
    assert json.loads(schema_of(Adorned))["fields"][0]["type"][0]["symbols"] == ["RED", "BLUE"]


def test_names_aliases_and_texts_of_fields(tmp_path: Path) -> None:
    class Before(BaseModel):
        __avro_name__ = "shop.Placed"
        amount: int

    schema = json.loads(schema_of(Named))
    assert schema["name"] == "shop.Placed"
    assert schema["fields"][0] == {"name": "total", "type": "long", "doc": "in cents", "aliases": ["amount"]}
    events = Events(SchemaFolder(tmp_path, compatibility="BACKWARD"))
    assert events.decode(events.payload(Before(amount=5)), Named).total == 5
    assert events.decode(events.payload(Named(amount=6)), Named).total == 6  # type: ignore[call-arg]


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    value: T


class Nothing(BaseModel):
    pass


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")


class Root(RootModel[list[int]]):
    pass


class Serialized(BaseModel):
    value: int

    @field_serializer("value")
    def text(self, value: int) -> str:
        return str(value)


def _with(annotation: Any, **more: Any) -> type[BaseModel]:
    return type("Made", (BaseModel,), {"__annotations__": {"field": annotation}, **more})


class _Twin:
    class Line(BaseModel):
        other: int


@pytest.mark.parametrize(
    "annotation, reason",
    [
        (Any, "has no counterpart"),
        (timedelta, "timedelta has no counterpart"),
        (Decimal, "max_digits"),
        (dict[int, str], "keys of a dict"),
        (tuple[int, str], "fixed length"),
        (int | datetime, "two types of this union are long"),
        (str | uuid.UUID, "two types of this union are string"),
        (str | bytes, "str and bytes are in this union"),
        (uuid.UUID | bytes, "UUID and bytes are in this union"),
        (list[int] | list[str], "two types of this union are array"),
        (dict[str, int] | Line, "a map and a record"),
        (Colour | str, "a enum and a string"),
        (Literal["a", 1], "not a valid list of symbols"),
        (Literal["in-transit"], "not a valid list of symbols"),
        (Annotated[int, PlainSerializer(str)], "serializer"),
        (complex, "complex has no counterpart"),
    ],
    ids=str,
)
def test_a_field_that_cannot_be_mapped_is_refused_by_name(annotation: Any, reason: str) -> None:
    if annotation is complex:
        model = type("Made", (BaseModel,), {
            "__annotations__": {"field": complex}, "model_config": ConfigDict(arbitrary_types_allowed=True)
        })  # fmt: skip
    else:
        model = _with(annotation)
    with pytest.raises(InvalidModel, match=reason) as refused:
        schema_of(model)
    assert (refused.value.model, refused.value.field) == ("Made", "field")


@pytest.mark.parametrize(
    "model, reason",
    [
        (Box[int], r"'Box\[int\]' is not a valid Avro name"),
        (Extra, "extra='allow'"),
        (Root, "RootModel"),
        (Serialized, "serializer"),
        (_with(Line | _Twin.Line), "two different types have this name"),
        (_with(int, __avro_name__="shop-1.Placed"), "is not a valid Avro name"),
        (_with(dict[str, list[Nothing]]), "a list of models without fields"),
    ],
    ids=str,
)
def test_a_model_that_cannot_be_mapped_is_refused(model: type[BaseModel], reason: str) -> None:
    with pytest.raises(InvalidModel, match=reason):
        schema_of(model)


def test_the_name_of_a_base_class_is_not_that_of_its_subclass() -> None:
    class Later(Named):
        pass

    assert json.loads(schema_of(Later))["name"] == "Later"


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "kind, default, reason",
    [
        (int, "5", "str is not a valid int"),
        (str, None, "NoneType is not a valid str"),
        (str | None, 5, "int is not a valid str"),
        (bool, 1, "int is not a valid bool"),
        (uuid.UUID, "x", "str is not a valid UUID"),
        (bytes, None, "has no counterpart in Avro"),
    ],
)
def test_a_default_of_another_type_is_refused_at_once_and_by_its_field(
    kind: Any, default: object, reason: str
) -> None:
    """pydantic takes a default as it is."""
    with pytest.raises(InvalidModel, match=reason) as refused:
        schema_of(_with(kind, field=default))
    assert refused.value.field == "field"


class _Alias:
    """As ``type Number = int`` makes it, whose class is another one than that of typing_extensions (seen with Python 3.12)."""

    __value__ = int
    __type_params__ = ()


def test_a_name_for_a_type_is_written_as_the_type() -> None:
    for alias in (_Alias(), TypeAliasType("Number", int)):
        assert mapped(alias, (), RecordNames(), "place").schema == "long"


class Values(BaseModel):
    number: int = 0
    at: datetime = datetime(2020, 1, 1, tzinfo=UTC)
    clock: time = time(1)
    text: str = ""
    price: Money = Decimal(0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Values(number=2**63),
        lambda: Values(at=datetime(2020, 1, 1)),  # noqa: DTZ001 - that is the point
        lambda: Values(clock=time(1, tzinfo=UTC)),
        lambda: Values.model_construct(text="\ud800"),
        lambda: Values.model_construct(text=5),
        lambda: Values.model_construct(price=Decimal("0.001")),
    ],
)
def test_a_value_that_does_not_fit_is_refused(events: Events, make: Callable[[], Values]) -> None:
    with pytest.raises(InvalidEvent, match="this Values is not a valid event"):
        events.payload(make())


class Changing(BaseModel):
    """A model that fastavro writes, because of its lists; it would write nearly anything."""

    number: int = 0
    flag: bool = False
    at: datetime = datetime(2020, 1, 1, tzinfo=UTC)
    local: NaiveDatetime = datetime(2020, 1, 1)  # noqa: DTZ001 - that is the point
    day: date = date(2020, 1, 1)
    clock: time = time(1)
    key: uuid.UUID = uuid.UUID(int=0)
    line: Line | None = None
    lines: list[Line] = []
    numbers: list[int] = []
    tags: set[str] = set()
    maybe: int | None = None
    totals: dict[str, int] = {}
    price: Money = Decimal(0)
    prices: list[Money] = []


@pytest.mark.parametrize(
    "field, value",
    [
        ("number", 1.5), ("number", True), ("number", uuid.UUID(int=3)), ("flag", "false"), ("flag", 0), ("flag", None), ("at", 5), ("at", True),
        ("local", 5), ("day", 5), ("day", datetime(2026, 1, 1, 12, tzinfo=UTC)), ("clock", 5), ("key", "text"), ("line", 5), ("line", {"sku": "a"}),
        ("lines", [5]), ("lines", {"a": 1}), ("numbers", b"bytes"), ("numbers", [1.5]), ("numbers", {1: 2}), ("tags", "text"), ("maybe", 1.5),
        ("totals", {"a": 1.5}), ("totals", [1]), ("price", b"A"), ("price", 5), ("prices", [b"A"]), ("prices", [Decimal("NaN")]),
    ],
)  # fmt: skip
def test_a_model_that_was_changed_to_a_wrong_type_is_not_an_event(
    events: Events, field: str, value: Any
) -> None:
    """Nothing of it is rounded, cut or written as something that nobody can read."""
    event = Changing()
    assert events.decode(events.payload(event), Changing) == event
    setattr(event, field, value)
    with pytest.raises(InvalidEvent, match="this Changing is not a valid event"):
        events.payload(event)


def test_fields_are_read_by_their_names_and_not_by_aliases_of_others(events: Events) -> None:
    class Swapped(BaseModel):
        a: int = Field(alias="b")
        b: int = Field(alias="a")
        first: int = Field(default=0, validation_alias=AliasPath("all", 0))
        all: list[int] = []

    event = Swapped.model_validate({"b": 1, "a": 2, "all": [3]})
    event.first = 4
    assert events.decode(events.payload(event), Swapped) == event


def test_members_of_enums_may_be_held_by_their_values(events: Events) -> None:
    class Painted(BaseModel):
        model_config = ConfigDict(use_enum_values=True, validate_default=True)
        colour: Colour
        other: Colour | None = None
        usual: Colour = Colour.RED
        all: list[Colour] = []

    event = Painted(colour=Colour.BLUE, other=Colour.RED, all=[Colour.RED])
    assert event.colour == 2  # type: ignore[comparison-overlap]
    assert events.decode(events.payload(event), Painted) == event
    event.colour = "green"  # type: ignore[assignment]
    with pytest.raises(InvalidEvent, match="'green' is not a valid"):
        events.payload(event)
