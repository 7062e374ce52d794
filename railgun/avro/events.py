"""Typed events of one connection: models to payloads and back, by the schemas of its registry.

With a registry a model travels as an Avro record in Confluent's frame, without one as JSON. Reading looks at the payload alone: a frame is
read by the schema that its id names, anything else is JSON. Thread-safe. The registry is asked once for each model that is written
and for each id that is read; all else is in memory.
"""

from __future__ import annotations

import io
import struct
import threading
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin

import fastavro
from fastavro.read import SchemaResolutionError
from pydantic import BaseModel, TypeAdapter

from railgun.avro import framing
from railgun.avro.errors import InvalidEvent, UnknownSchemaId, UnreadableEvent
from railgun.avro.mapping import is_alias
from railgun.avro.naming import record_name
from railgun.avro.parsing import FINGERPRINTS, fingerprint, full_name, has_endless_lists, holds_itself, parsed
from railgun.avro.quick_writing import quick_writer
from railgun.avro.records import Record, record_of
from railgun.avro.registry import Registry
from railgun.avro.resolving import as_read, as_written, read
from railgun.errors import ConfigError

M = TypeVar("M", bound=BaseModel)
CONTENT_TYPE: Final = "Content-Type"
_LONGEST_REASON: Final = 500
_TOO_DEEP: Final = "it is nested too deeply"
_DAMAGE: Final = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError)


class Unframed(bytes):
    """A payload whose frame still lacks the id of its schema. It has the length of the whole one."""

    model: type[BaseModel]


class _Writer:
    """A model as it is written."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.record, _ = record_of(model)
        self.schema = parsed(self.record.schema)
        self.header = (CONTENT_TYPE, f"application/avro; record={self.record.name}".encode())
        self.quick = quick_writer(self.schema)
        self.frame: bytes | None = None

    def write(self, event: BaseModel, frame: bytes) -> bytes:
        """The event behind a frame. Raises InvalidEvent."""
        try:
            if self.quick is not None:
                return self.quick(event.__dict__, frame)
            out = io.BytesIO()
            out.write(frame)
            fastavro.schemaless_writer(out, self.schema, self.record.datum(event))
            return out.getvalue()
        except RecursionError as error:
            raise InvalidEvent(model=type(event).__name__, reason=_TOO_DEEP) from error
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError, struct.error) as error:
            raise InvalidEvent(model=type(event).__name__, reason=str(error)) from error


class _Reader:
    """A model as it is read: the record, and the schema that others are resolved to."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.record: Record
        self.record, _ = record_of(model)
        self.own = parsed(self.record.schema)
        self.schema = as_read(self.own)


class _Plan(NamedTuple):
    """How payloads of one schema are read as one type."""

    written: Any
    schema: Any  # to resolve it to; None where that would change nothing
    make: Callable[[Any], Any]
    nested: bool  # whether a record of it holds itself
    names: bool = True  # whether records in unions come with their names, by which models know them


class Events:
    """Models to payloads and back. ``rg.events`` is that of a connection."""

    def __init__(self, registry: Registry | None = None) -> None:
        if registry is not None and not isinstance(registry, Registry):
            raise ConfigError(
                f"{registry!r} is not a valid registry: give avro.SchemaRegistry(url) or avro.SchemaFolder(folder)"
            )
        self.registry = registry
        self._writers: dict[type[BaseModel], _Writer] = {}
        self._readers: dict[type[BaseModel], _Reader] = {}
        self._plans: dict[tuple[int, Any], _Plan] = {}  # by id and wanted type
        self._schemas: dict[int, Any] = {}  # of writers, by id
        self._lock = threading.Lock()

    # ------------------------------------------------------------ writing

    def use(self, *models: type[BaseModel]) -> None:
        """Check the models against the registry, and add the schemas that are new: at the start of a program, say.

        Raises InvalidModel, IncompatibleSchema, UnknownSchema, RegistryUnavailable. Without a registry nothing is to be done.
        """
        if self.registry is None:
            return
        for model in models:
            writer = self._writer(model)
            if writer.frame is None:
                number = self.registry.use(writer.record.name, writer.record.schema)
                if number not in FINGERPRINTS:
                    raise ConfigError(f"{number!r} of {self.registry!r} is not a valid id of a schema")
                writer.frame = framing.frame(number)

    def is_ready(self, model: type[BaseModel]) -> bool:
        """Whether events of this model are written without asking the registry."""
        if self.registry is None:
            return True
        writer = self._writers.get(model)
        return writer is not None and writer.frame is not None

    def payload(self, event: BaseModel) -> bytes:
        """The payload of an event. Raises InvalidEvent, and what :meth:`use` raises when the model is met first."""
        found = self.begin(event)
        return self.finish(found) if type(found) is Unframed else found

    def begin(self, event: BaseModel) -> bytes:
        """The payload, or an :class:`Unframed` one when the registry must be asked first. Never waits."""
        if self.registry is None:
            return event.__pydantic_serializer__.to_json(event, by_alias=True)
        model = type(event)
        writer = self._writers.get(model) or self._writer(model)
        if writer.frame is not None:
            return writer.write(event, writer.frame)
        unframed = Unframed(writer.write(event, framing.UNKNOWN))
        unframed.model = model
        return unframed

    def written(self, event: object) -> tuple[bytes, tuple[str, bytes]] | None:
        """Payload and header of an event whose model is ready; None for any other, and for what is no event.

        It is what :meth:`begin` and :meth:`header` give, with one look at the type. Raises InvalidEvent.
        """
        writer = self._writers.get(type(event))  # type: ignore[arg-type]
        if writer is None or writer.frame is None:
            return None
        return writer.write(event, writer.frame), writer.header  # type: ignore[arg-type]

    def finish(self, payload: bytes) -> bytes:
        """The payload with its frame; one that has it already is left as it is. Raises what :meth:`use` raises."""
        if type(payload) is not Unframed:
            return payload
        self.use(payload.model)
        return (self._writers[payload.model].frame or b"") + payload[framing.SIZE :]

    def header(self, event: BaseModel) -> tuple[str, bytes] | None:
        """The header that says what the payload is; None for JSON."""
        return None if self.registry is None else self._writers[type(event)].header

    def _writer(self, model: type[BaseModel]) -> _Writer:
        with self._lock:
            found = self._writers.get(model)
            if found is None:
                found = self._writers[model] = _Writer(model)
            return found

    # ------------------------------------------------------------ reading

    def check(self, wanted: Any) -> None:
        """Raises InvalidModel for models that no Avro record can be read as. Without a registry all types are read from JSON."""
        if self.registry is not None:
            for model in _models(wanted):
                self._reader(model)

    def decode(self, payload: bytes, wanted: type[M]) -> M:
        """The payload as the wanted model. Raises UnreadableEvent, pydantic's ValidationError, RegistryUnavailable, InvalidModel."""
        if payload[:1] != framing.MAGIC:
            return wanted.model_validate_json(payload)
        found: M = self.framed(payload, wanted)
        return found

    def framed(self, payload: bytes, wanted: Any) -> Any:
        """A payload with a frame as any type. Of a union of models that one is made whose name the writer's schema has.

        A type that is no model gets what the writer's schema says, validated by pydantic. Raises as :meth:`decode`.
        """
        number = framing.schema_id(payload)
        if number is None:
            raise UnreadableEvent("it begins with a zero byte, and is too short for a frame")
        plan = self._plans.get((number, wanted))
        if plan is None:
            plan = self._plans[number, wanted] = self._plan(number, wanted)
        try:
            return plan.make(_read(payload, number, plan))
        except RecursionError as error:
            raise UnreadableEvent(_TOO_DEEP, schema_id=number) from error

    def _plan(self, number: int, wanted: Any) -> _Plan:
        """How payloads of this schema become what is wanted. Raises UnreadableEvent if they never do."""
        written = self._schemas.get(number)
        if written is None:
            written = self._schema(number)
        if has_endless_lists(written):
            raise UnreadableEvent(f"its schema {number} has a list of what takes no bytes", schema_id=number)
        models = _models(wanted)
        if not models:
            return _Plan(
                written, None, TypeAdapter(wanted).validate_python, holds_itself(written), names=False
            )
        name = full_name(written)
        for model in models:
            if record_name(model) == name:
                reader = self._reader(model)
                same = fingerprint(written) == fingerprint(reader.own)
                nested = holds_itself(written)
                if same:
                    return _Plan(written, None, reader.record.event, nested)
                return _Plan(as_written(written), reader.schema, reader.record.event, nested)
        names = ", ".join(map(record_name, models))
        raise UnreadableEvent(f"it is a {name}, and {names} is wanted", schema_id=number)

    def _schema(self, number: int) -> Any:
        if self.registry is None:
            raise UnreadableEvent(
                f"it has the schema {number} of a registry, and this connection has none: connect(…, registry=…)",
                schema_id=number,
            )
        found = self.registry.schema(number)
        if found is None:
            raise UnknownSchemaId(f"{self.registry!r} has no schema {number}", schema_id=number)
        self._schemas[number] = found
        return found

    def _reader(self, model: type[BaseModel]) -> _Reader:
        found = self._readers.get(model)
        if found is None:
            found = self._readers[model] = _Reader(model)  # twice at the same time: both are right
        return found


def _models(wanted: Any) -> tuple[type[BaseModel], ...]:
    """The models of a type: of a model itself, or of a union of nothing but models and perhaps None, which no payload is."""
    types = [one for one in _branches(wanted) if one is not type(None)]
    found = tuple(one for one in types if isinstance(one, type) and issubclass(one, BaseModel))
    return found if len(found) == len(types) else ()


def _branches(wanted: Any) -> list[Any]:
    """The types of a union, of unions in it and behind names for them; another type alone."""
    if is_alias(wanted):
        return _branches(wanted.__value__)
    if get_origin(wanted) is Annotated:
        return _branches(get_args(wanted)[0])
    if get_origin(wanted) in (Union, UnionType):
        return [branch for one in get_args(wanted) for branch in _branches(one)]
    return [wanted]


def _read(payload: bytes, number: int, plan: _Plan) -> Any:
    source = io.BytesIO(payload)
    source.seek(framing.SIZE)
    try:
        found = read(source, plan.written, plan.schema, nested=plan.nested, names=plan.names)
    except SchemaResolutionError as error:
        said = str(error)[:_LONGEST_REASON]  # it quotes both schemas
        raise UnreadableEvent(f"its schema {number} is not compatible: {said}", schema_id=number) from error
    except _DAMAGE as error:
        raise UnreadableEvent(
            f"it is not what its schema {number} says ({error!r})", schema_id=number
        ) from error
    if source.tell() != len(payload):
        left = len(payload) - source.tell()
        raise UnreadableEvent(f"it has {left} bytes more than its schema {number} says", schema_id=number)
    return found
