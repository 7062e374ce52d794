"""Rows to be published: their columns brought to one form, and those refused that could never become messages."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, MapType, StringType

from railgun.errors import ConfigError
from railgun.model import headers as h
from railgun.model.cluster_limits import LARGEST_MESSAGE

# Possessive, as everything that repeats here: Java keeps a place on its stack for each token of a subject that it could still go back to, and a
# stack that is full ends the JVM.
_TOKEN: Final = r"[^.\x00 \t\r\n\f]++"
_SUBJECT: Final = rf"\A{_TOKEN}(?:\.{_TOKEN})*+\z"
_WILDCARD: Final = r"(?:\A|\.)[*>](?:\.|\z)"
_NO_HEADERS: Final = "cast(array() as array<struct<key:string,value:binary>>)"


def checked_columns(df: DataFrame, ids: str | None) -> DataFrame:
    """The columns ``subject``, ``payload``, ``headers`` (as Kafka's sink wants them) and ``msg_id``. Raises ConfigError."""
    fields = {field.name: field.dataType for field in df.schema.fields}
    for name in ("subject", "payload", *([] if ids is None else [ids])):
        if name not in fields:
            known = " (or ids=None, to publish without)" if name == ids else ""
            raise ConfigError(f"the frame has no column {name!r}: add it{known}")
    if not isinstance(fields["subject"], StringType):
        raise ConfigError("the column 'subject' is not a valid one: it must be of strings")
    if not isinstance(fields["payload"], BinaryType | StringType):
        raise ConfigError("the column 'payload' is not a valid one: it must be binary, or of strings")
    return df.select(
        F.col("subject"),
        F.coalesce(F.col("payload").cast("binary"), F.lit(b"")).alias("payload"),
        _headers(fields.get("headers"), ids).alias("headers"),
        (F.lit(None) if ids is None else F.col(_quoted(ids))).cast("string").alias("msg_id"),
        F.lit(ids is not None).alias("wants_id"),
    )


def _quoted(name: str) -> str:
    """The name of a column as Spark takes it, whatever characters it has: a dot would lead into one."""
    return "`" + name.replace("`", "``") + "`"


def _headers(kind: object, ids: str | None) -> Column:
    if kind is None:
        return F.expr(_NO_HEADERS)
    if not isinstance(kind, MapType) or not isinstance(kind.keyType, StringType):
        raise ConfigError("the column 'headers' is not a valid one: it must be a map of strings")
    # Names of railgun's own would make the record another command. An id of the row takes the place of one among its headers.
    own = f" and x.key <> '{h.MSG_ID}'" if ids is not None else ""
    return F.expr(
        f"""coalesce(transform(
            filter(map_entries(headers), x -> not startswith(x.key, '{h.RESERVED_PREFIX}'){own}),
            x -> struct(x.key as key, encode(coalesce(cast(x.value as string), ''), 'utf-8') as value)
        ), {_NO_HEADERS})"""
    )


def refuse_wrong_rows(rows: DataFrame, stream: str) -> int:
    """How many rows there are, if all of them can be sent. Raises ConfigError, with the number of the others and an example."""
    subject = F.col("subject")
    wrong = subject.isNull() | ~subject.rlike(_SUBJECT) | subject.rlike(_WILDCARD)
    nameless = F.col("wants_id") & (F.coalesce(F.col("msg_id"), F.lit("")) == "")
    # With the names and values of its headers, and all that railgun adds, it has to fit into a record.
    size = (
        F.octet_length("payload")
        + F.octet_length("subject")
        + F.coalesce(F.octet_length("msg_id"), F.lit(0))
        + F.expr("aggregate(headers, 0, (sum, x) -> sum + octet_length(x.key) + octet_length(x.value) + 8)")
    )
    large = size > LARGEST_MESSAGE
    (found,) = rows.agg(
        F.count(F.lit(1)).alias("total"),
        F.count_if(wrong).alias("wrong"),
        F.first(F.when(wrong, F.coalesce(subject, F.lit("null"))), ignorenulls=True).alias("example"),
        F.count_if(nameless).alias("nameless"),
        F.first(F.when(nameless, subject), ignorenulls=True).alias("nameless_example"),
        F.count_if(large).alias("large"),
        F.first(F.when(large, subject), ignorenulls=True).alias("large_example"),
    ).collect()
    if found["wrong"]:
        raise ConfigError(
            f"{found['wrong']} of {found['total']} rows have no valid subject for {stream}, such as {found['example']!r}: "
            "nothing was sent"
        )
    if found["nameless"]:
        raise ConfigError(
            f"{found['nameless']} of {found['total']} rows have no id, such as one of {found['nameless_example']!r}: nothing was sent"
        )
    if found["large"]:
        raise ConfigError(
            f"{found['large']} of {found['total']} rows are larger than {LARGEST_MESSAGE} bytes, such as one of "
            f"{found['large_example']!r}: nothing was sent"
        )
    return int(found["total"])
