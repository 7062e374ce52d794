"""One pydantic model as an Avro record: its schema, what fastavro writes of an instance, and an instance of what it has read."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any, Final

from pydantic import AliasChoices, BaseModel, RootModel
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from railgun.avro.errors import InvalidModel
from railgun.avro.mapping import mapped
from railgun.avro.naming import is_name, record_name
from railgun.avro.parsing import has_endless_lists, parsed
from railgun.avro.resolving import KIND, MISSING
from railgun.avro.scalars import Convert, Mapped, NoSuchType

_EMPTY: Final = (list, dict, set, frozenset, tuple)  # factories whose value is known: nothing


class Record:
    """A model in Avro. Made once for each model and schema; :func:`record_of` keeps the whole ones."""

    def __init__(self, model: type[BaseModel], name: str) -> None:
        self.model = model
        self.name = name
        self.schema: dict[str, Any] = {"type": "record", "name": name}
        self._writes: list[tuple[str, Convert]] = []
        self._reads: list[tuple[str, Convert]] = []
        self._defaulted = False
        self._default_json: list[tuple[str, Convert]] = []

    def fill(self, records: RecordNames) -> None:
        """Map the fields; apart from the constructor, so that a model may hold itself."""
        doc = vars(self.model).get("__doc__")
        if doc:
            self.schema["doc"] = inspect.cleandoc(doc)
        self.schema["fields"] = []
        for name, info in self.model.model_fields.items():
            if info.exclude:
                if info.is_required():
                    raise self._refused(name, "it is excluded and has no default: no reader could make it")
                continue
            if not is_name(name):
                raise self._refused(name, "an Avro name has letters, digits and _ only")
            try:
                found = mapped(info.annotation, info.metadata, records, f"{self.name}_{name}")
            except NoSuchType as error:
                raise self._refused(name, str(error)) from error
            self._add(name, info, found)

    def _add(self, name: str, info: FieldInfo, found: Mapped) -> None:
        field: dict[str, Any] = {"name": name, "type": found.schema}
        known, value = _default(info)
        if known:
            try:
                if found.write is not None:
                    found.write(value)  # pydantic takes a default as it is, whatever its type
                default = found.default(value)
                json.dumps(default, allow_nan=False)
            except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
                raise self._refused(
                    name, f"its default {value!r} has no counterpart in Avro: {error}"
                ) from error
            if found.position is not None:  # a default is of the first branch
                place = found.position(value)
                field["type"] = [found.schema[place], *found.schema[:place], *found.schema[place + 1 :]]
            field["default"] = default
            self._defaulted = True
        if info.description:
            field["doc"] = info.description
        aliases = _earlier_names(info, name)
        if aliases:
            field["aliases"] = aliases
        self.schema["fields"].append(field)
        self._default_json.append((name, found.default))
        if found.write is not None:
            self._writes.append((name, found.write))
        if found.read is not None:
            self._reads.append((name, found.read))

    def _refused(self, field: str, reason: str) -> InvalidModel:
        return InvalidModel(model=self.model.__name__, field=field, reason=reason)

    # ------------------------------------------------------------ values

    def datum(self, event: BaseModel) -> dict[str, Any]:
        """The instance as fastavro writes it. Raises ValueError, TypeError or AttributeError for a value that is not of its type."""
        if not isinstance(event, self.model):
            raise TypeError(f"{type(event).__name__} is not a valid {self.model.__name__}")
        values = event.__dict__
        if not self._writes:
            return values
        values = values.copy()
        for name, write in self._writes:
            values[name] = write(values[name])
        return values

    def values(self, datum: Any) -> Any:
        """What fastavro has read, as the model validates it: without fields that the writer did not have."""
        if datum.pop(KIND, None) is not None and self._defaulted:
            datum = {name: value for name, value in datum.items() if value is not MISSING}
        for name, read in self._reads:
            if name in datum:
                datum[name] = read(datum[name])
        return datum

    def event(self, datum: Any) -> Any:
        """An instance. Raises pydantic's ValidationError."""
        # Never by alias: that of one field may be the name of another one.
        return self.model.__pydantic_validator__.validate_python(
            self.values(datum), by_alias=False, by_name=True
        )

    def default_json(self, event: BaseModel) -> dict[str, Any]:
        """An instance as the default of a field."""
        return {name: convert(getattr(event, name)) for name, convert in self._default_json}


class RecordNames:
    """The named types of one schema, by their names."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self._owners: dict[str, object] = {}

    def of_model(self, model: type[BaseModel]) -> Mapped:
        check_model(model)
        name = record_name(model)
        again = self._claimed(name, model)
        if not again:
            self.records[name] = Record(model, name)
            self.records[name].fill(self)
        record = self.records[name]
        return Mapped(
            name if again else record.schema,
            (model,),
            record.datum,
            record.event,
            record.default_json,
            branch=name,
        )

    def of_symbols(self, name: str, symbols: tuple[str, ...], owner: object) -> Any:
        name = name.replace(".", "_") if owner is symbols else name
        if self._claimed(name, owner):
            return name
        return {"type": "enum", "name": name, "symbols": list(symbols)}

    def _claimed(self, name: str, owner: object) -> bool:
        """Whether the name was used before, for the same. Raises InvalidModel if it was for another."""
        if name not in self._owners:
            self._owners[name] = owner
            return False
        if self._owners[name] is not owner:
            raise InvalidModel(
                model=name,
                reason="two different types have this name in one schema: give one an __avro_name__",
            )
        return True


def record_of(model: type[BaseModel]) -> tuple[Record, RecordNames]:
    """The record of a model, with all that is inside. Raises InvalidModel."""
    names = RecordNames()
    names.of_model(model)
    record = names.records[record_name(model)]
    record.schema = _written_out_first(record.schema)
    if has_endless_lists(parsed(record.schema, f"what {model.__name__} was mapped to")):
        raise InvalidModel(
            model=model.__name__,
            reason="a list of models without fields has no bytes for its items: count them instead",
        )
    return record, names


def _written_out_first(schema: Any) -> Any:
    """The schema with each record and enum written out where it comes first: the branch of a default comes first in its union (``_add``), and may have
    been met behind the place where its type is written out.
    """
    known: dict[str, Any] = {}
    written: set[str] = set()

    def learn(one: Any) -> None:
        if isinstance(one, list):
            for branch in one:
                learn(branch)
        elif isinstance(one, dict):
            if "name" in one:
                known[one["name"]] = one
            for inside in (
                *(field["type"] for field in one.get("fields", ())),
                one.get("items"),
                one.get("values"),
            ):
                learn(inside)

    def write(one: Any) -> Any:
        if isinstance(one, list):
            return [write(branch) for branch in one]
        name = one if isinstance(one, str) else one.get("name")
        if name in written:
            return name
        if name not in known:
            changed = (
                {key: write(one[key]) for key in ("items", "values") if key in one}
                if isinstance(one, dict)
                else {}
            )
            return {**one, **changed} if changed else one
        written.add(name)
        found = known[name]
        if "fields" not in found:
            return found
        return {**found, "fields": [{**field, "type": write(field["type"])} for field in found["fields"]]}

    learn(schema)
    return write(schema)


def check_model(model: type[BaseModel]) -> None:
    """Raises InvalidModel for a model that writes or holds more than its fields."""
    refuse: Callable[[str], InvalidModel] = lambda why: InvalidModel(model=model.__name__, reason=why)  # noqa: E731
    if issubclass(model, RootModel):
        raise refuse("a RootModel has no fields: use a model that has one")
    if not model.__pydantic_complete__:
        try:
            model.model_rebuild()
        except (PydanticUserError, NameError) as error:
            raise refuse(
                f"its types cannot be resolved ({error}): define them at the top of a module"
            ) from error
    if model.model_config.get("extra") == "allow":
        raise refuse("extra='allow' takes fields that no schema has, and they would be lost")
    decorators = model.__pydantic_decorators__
    if decorators.field_serializers or decorators.model_serializers:
        raise refuse("a serializer of its own says what is written, and Avro would not ask it")


def _default(info: FieldInfo) -> tuple[bool, Any]:
    """Whether the default is known before an instance is made, and what it is."""
    if info.default_factory in _EMPTY:
        return True, info.default_factory()
    if info.is_required() or info.default_factory is not None:
        return False, None
    return True, info.default


def _earlier_names(info: FieldInfo, name: str) -> list[str]:
    """Other names that the field is read from, as pydantic's AliasChoices give them: names that it had in earlier versions."""
    choices = info.validation_alias
    if not isinstance(choices, AliasChoices):
        return []
    return [one for one in choices.choices if isinstance(one, str) and one != name and is_name(one)]
