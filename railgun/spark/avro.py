"""Payloads in Avro that a schema registry has framed: a zero byte, the id of the writer's schema in four bytes, the data.

Spark's own ``from_avro`` takes such a payload for data and decodes it to something else, without an error. Here the frame is looked
at first, and the writer's schema is chosen by its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro import functions as spark_avro

from railgun.avro.framing import SIZE
from railgun.avro.parsing import FINGERPRINTS, holds_itself, parsed
from railgun.errors import ConfigError

PERMISSIVE: Final = "PERMISSIVE"
FAILFAST: Final = "FAILFAST"


def from_avro(
    column: Column | str,
    writers: Mapping[int, str],
    reader: str | None = None,
    mode: str = PERMISSIVE,
) -> Column:
    """The record in a framed payload. ``writers``: schemas, as JSON, by their id; ``reader``: the schema to resolve all of them to.

    Without a reader's schema all writers must have the same columns. ``PERMISSIVE``: a payload that is null, not framed, or of an id that
    is not given, gives null, and damaged data a record of nulls. ``FAILFAST``: all but null ends the query with an error that says which.
    Raises ConfigError.
    """
    if mode not in (PERMISSIVE, FAILFAST):
        raise ConfigError(f"{mode!r} is not a valid mode: use {PERMISSIVE} or {FAILFAST}")
    if not writers:
        raise ConfigError("from_avro needs the schema of at least one writer")
    for number, schema in writers.items():
        _check_schema(schema, f"the schema of writer {number}", of_columns=reader is None)
        if number not in FINGERPRINTS:
            raise ConfigError(f"{number!r} is not a valid id of a schema")
    if reader is not None:
        _check_schema(reader, "the reader's schema", of_columns=True)
    payload = F.col(column) if isinstance(column, str) else column
    options = {"mode": mode} if reader is None else {"mode": mode, "avroSchema": reader}
    body = payload.substr(F.lit(SIZE + 1), F.length(payload))
    framed = (F.length(payload) >= SIZE) & (payload.substr(1, 1) == F.lit(b"\0"))
    writer = F.when(framed, F.conv(F.hex(payload.substr(2, 4)), 16, 10).cast("bigint"))
    decoded: Column | None = None
    for number, schema in writers.items():
        of_this = spark_avro.from_avro(F.when(writer == number, body), schema, options)
        decoded = (
            F.when(writer == number, of_this) if decoded is None else decoded.when(writer == number, of_this)
        )
    assert decoded is not None
    if mode == PERMISSIVE:
        return decoded
    return (
        F.when(payload.isNull(), F.lit(None))
        .when(
            ~framed,
            F.raise_error(F.lit("a payload is not framed: it does not begin with a zero byte and an id")),
        )
        .when(
            ~writer.isin(list(writers)),
            F.raise_error(F.concat(F.lit("no schema is given of the writer "), writer.cast("string"))),
        )
        .otherwise(decoded)
    )


def _check_schema(schema: str, what: str, *, of_columns: bool) -> None:
    """Raises ConfigError for what is not a schema and, if columns are made of it, for one that Spark has no type for."""
    if holds_itself(parsed(schema, what)) and of_columns:
        raise ConfigError(
            f"{what} has a record that holds itself, for which Spark has no type: give a reader's schema without that field"
        )
