"""A table of messages in a database, each of them once: rows are put by incarnation and sequence, by Debezium's JDBC sink."""

from __future__ import annotations

import re
from typing import Final, Literal, Self

from pydantic import field_validator, model_validator

from railgun.model import headers as h
from railgun.sinks.avro_converter import RegistryUrl, avro_converter
from railgun.sinks.secrets import SafeUrl, SecretReference
from railgun.sinks.stream_sink import BYTES_CONVERTER, STRING_CONVERTER, StreamSink

KEY: Final = ("incarnation", "sequence")
_TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_AT_ONCE: Final = "2000"  # rows of one transaction of the database
_KAFKA: Final = "org.apache.kafka.connect.transforms"
# Header -> column. The subject is put into a header first: it is the key of the record, and HeaderToValue reads headers only.
_COLUMNS: Final = {
    h.LOG_INCARNATION: "incarnation",
    h.LOG_SEQUENCE: "sequence",
    h.LOG_TIME: "time_ns",
    h.PLAIN_SUBJECT: "subject",
}
# A row for each message depends on the first four; the others are fields of the sink.
_DECIDED: Final = frozenset(
    {
        "delete.enabled",
        "insert.mode",
        "primary.key.fields",
        "primary.key.mode",
        "collection.name.format",
        "connection.password",
        "connection.url",
        "connection.username",
    }
)


class JdbcSink(StreamSink):
    """A sink that keeps each message of a stream as one row: ``incarnation``, ``sequence``, ``time_ns``, ``subject``, ``payload``.

    Incarnation and sequence are the key of the table, and rows are put, not added: a record that Connect reads again after a crash
    writes the same row again. Messages of a stream that was deleted and made again have another incarnation, so they replace nothing.
    The table is made at the first message if it is not there.

    ``payload``: ``bytes`` as it is; ``text`` as UTF-8; ``fields`` for a column for each field. Payloads are then typed events whose
    schemas are in ``registry`` (Apicurio, at an address that Connect reaches; fields of records inside get columns too), or what
    the converter in ``settings`` (``value.converter``) decodes. A field that has the name of one of the columns above is
    ``event_<name>``. ``password`` is a reference such as ``${env:PG_PASSWORD}``.
    """

    CONNECTOR = "io.debezium.connector.jdbc.JdbcSinkConnector"
    OWN = StreamSink.OWN | _DECIDED

    url: SafeUrl
    user: str = ""
    password: SecretReference = ""
    table: str
    payload: Literal["bytes", "text", "fields"] = "bytes"
    registry: RegistryUrl = ""

    @field_validator("url")
    @classmethod
    def _is_a_url(cls, value: str) -> str:
        if not value.startswith("jdbc:"):
            raise ValueError(
                "is not a valid address of a database: it begins with jdbc:, as in jdbc:postgresql://host/db"
            )
        return value

    @field_validator("table")
    @classmethod
    def _is_a_table(cls, value: str) -> str:
        if not _TABLE.fullmatch(value):
            raise ValueError(
                "is not a valid name of a table: use letters, digits and _, and SCHEMA.TABLE for a schema"
            )
        return value

    @model_validator(mode="after")
    def _has_a_converter(self) -> Self:
        converter = "value.converter" in self.settings
        if self.registry and self.payload != "fields":
            raise ValueError("a registry needs payload='fields': it is for events, whose fields are columns")
        if self.registry and converter:
            raise ValueError("a registry and a value.converter exclude each other: leave one out")
        if self.payload == "fields" and not self.registry and not converter:
            raise ValueError(
                "payload='fields' needs a registry, or a value.converter in settings, which decodes payloads to fields"
            )
        return self

    def all_transforms(self) -> dict[str, dict[str, str]]:
        steps = super().all_transforms()
        if self.payload != "fields":
            steps["railgunPayload"] = {"type": f"{_KAFKA}.HoistField$Value", "field": "payload"}
        else:
            if self.registry:  # a column of a table holds no record
                steps["railgunFlat"] = {"type": f"{_KAFKA}.Flatten$Value", "delimiter": "_"}
            # HeaderToValue would replace them, and nobody would know.
            renames = ",".join(f"{name}:event_{name}" for name in _COLUMNS.values())
            steps["railgunNames"] = {"type": f"{_KAFKA}.ReplaceField$Value", "renames": renames}
        steps["railgunKey"] = {"type": f"{_KAFKA}.HoistField$Key", "field": "subject"}
        steps["railgunSubject"] = {
            "type": f"{_KAFKA}.HeaderFrom$Key",
            "fields": "subject",
            "headers": h.PLAIN_SUBJECT,
            "operation": "copy",
        }
        steps["railgunColumns"] = {
            "type": "io.debezium.transforms.HeaderToValue",
            "headers": ",".join(_COLUMNS),
            "fields": ",".join(_COLUMNS.values()),
            "operation": "copy",
        }
        numbers = ",".join(f"{name}:int64" for name in (*KEY, "time_ns"))
        steps["railgunNumbers"] = {"type": f"{_KAFKA}.Cast$Value", "spec": numbers}
        return steps

    def defaults(self) -> dict[str, str]:
        account = {"connection.username": self.user, "connection.password": self.password}
        return {
            **super().defaults(),
            "value.converter": STRING_CONVERTER if self.payload == "text" else BYTES_CONVERTER,
            **(avro_converter(self.registry) if self.registry else {}),
            "connection.url": self.url,
            **{name: value for name, value in account.items() if value},
            "collection.name.format": self.table,
            "insert.mode": "upsert",
            "primary.key.mode": "record_value",
            "primary.key.fields": ",".join(KEY),
            "schema.evolution": "basic",
            # One statement for many rows, where the driver makes it one, must not name a row twice.
            "use.reduction.buffer": "true",
            "batch.size": _AT_ONCE,
            "consumer.override.max.poll.records": _AT_ONCE,
            "delete.enabled": "false",
        }
