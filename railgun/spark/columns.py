"""The columns of a message, decoded from a record of Spark's Kafka source by SQL alone (docs/record-format.md).

The twin of :mod:`railgun.protocol.log_record`: what is not a message there is not one here. Railgun's headers are the last three, so
they are taken by their place: a search by name would go through all headers of every record, in lambdas that Spark interprets.
"""

from __future__ import annotations

import time
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from railgun.model import headers as h

#: The columns of every frame, as Spark writes a schema.
SCHEMA: Final = (
    "sequence bigint, subject string, time timestamp, time_ns bigint, "
    "headers map<string,string>, payload binary, offset bigint"
)
#: The end of a query that meets messages of a later stream of the same name.
MADE_ANEW: Final = (
    "the stream was deleted and made again: read it anew, and give a streaming query another checkpoint"
)
_OWN: Final = 3  # railgun's headers, at the end
_DAY: Final = 86_400 * 10**9  # ns
_DIGITS_OF_TIME: Final = 19  # as many as a number of 63 bits has
_DAYS_AHEAD: Final = 2  # the end of tomorrow: how far the clock of a broker may be ahead of Spark's
_NUMBER: Final = "try_cast(cast({0} as string) as bigint)"
# Spark's cast also takes blanks and signs, which all sort below '0'; the cast refuses everything else.
_DIGITS: Final = "{0} >= X'30' and substring({0}, -1, 1) >= X'30'"


def _from_end(place: int) -> str:
    return f"get(headers, size(headers) - {place})"


_SEQUENCE: Final = f"{_from_end(3)}.value"
_TIME: Final = f"{_from_end(2)}.value"
_SUBJECT: Final = "substring_index(cast(key as string), '\\0', 1)"
# A value that is not UTF-8 has U+FFFD in place of such bytes, and one that is null is empty.
_VALUE: Final = "coalesce(make_valid_utf8(cast({0}.value as string)), '')"
_NAMES: Final = f"slice(headers.key, 1, size(headers) - {_OWN})"
_VALUES: Final = f"cast(slice(headers.value, 1, size(headers) - {_OWN}) as array<string>)"
# Several headers whose names differ and whose values are UTF-8: a null among them makes the joined text invalid as well.
_ORDINARY: Final = f"""size(array_distinct({_NAMES})) = size(headers) - {_OWN}
    and is_valid_utf8(array_join({_VALUES}, ' ', cast(X'FF' as string)))"""
# Most messages have no header or one, their id. The first of several of one name counts, as in the facade; that takes lambdas, which
# Spark interprets: they run only for records that need them.
_PUBLISHED: Final = f"""case
    when size(headers) = {_OWN} then cast(map() as map<string,string>)
    when size(headers) = {_OWN + 1} then map(get(headers, 0).key, {_VALUE.format("get(headers, 0)")})
    when {_ORDINARY} then map_from_arrays({_NAMES}, {_VALUES})
    else map_from_entries(filter(
        transform(
            slice(headers, 1, size(headers) - {_OWN}), x -> struct(x.key as key, {_VALUE.format("x")} as value)
        ),
        (x, i) -> array_position(transform(headers, y -> y.key), x.key) = i + 1
    )) end
"""


def messages(
    records: DataFrame, incarnation: int, first: int = 1, last: int | None = None, *, asked: int | None = None
) -> DataFrame:
    """The messages of one incarnation among the records of a log, between two sequences.

    Tombstones, foreign and damaged records are left out, and so is what an earlier stream of the name has left. A message of a later one
    ends the query with an error: what the frame was to give is gone, and rows of two streams must not pass for those of one.

    ``asked``: when the incarnation was the one that lives, in ns; now, unless told. A record of a later one that is older than that, or of the
    future, is forged and left out: it must not keep everybody from the stream for ever.
    """
    when = _NUMBER.format(_TIME)
    asked = time.time_ns() if asked is None else asked
    return records.where(_is_message(incarnation, max(first, 1), last, asked)).select(
        F.expr(_NUMBER.format(_SEQUENCE)).alias("sequence"),
        F.expr(_SUBJECT).alias("subject"),
        F.expr(f"timestamp_micros({when} div 1000)").alias("time"),
        F.expr(when).alias("time_ns"),
        F.expr(_PUBLISHED).alias("headers"),
        F.col("value").alias("payload"),
        F.col("offset"),
    )


def _is_message(incarnation: int, first: int, last: int | None, asked: int) -> Column:
    """Whether a record has the three headers in their places, well formed, and of this incarnation.

    What decides most is first. The name of the middle one follows from those on both sides.
    """
    number = _NUMBER.format(_SEQUENCE)
    conditions = [
        "value is not null",
        f"{_from_end(1)}.key = '{h.LOG_INCARNATION}'",
        _of_incarnation(incarnation, asked),
        f"{_from_end(3)}.key = '{h.LOG_SEQUENCE}'",
        _DIGITS.format(_SEQUENCE),
        f"{number} >= {first}L" if last is None else f"{number} between {first}L and {last}L",
        f"{_NUMBER.format(_TIME)} is not null",
        "substring(key, 1, 1) > X'00'",  # a key that is null or empty, or a marker's
        "is_valid_utf8(cast(key as string))",
    ]
    return F.expr(" and ".join(f"({one})" for one in conditions))


def _of_incarnation(incarnation: int, asked: int) -> str:
    """Whether a record is of this incarnation; numbers of incarnations grow. The bytes are compared: equal ones are nearly all."""
    value = f"{_from_end(1)}.value"
    # Computed with the query: a frame may be made today and looked at tomorrow. By the day, because Spark writes the time into the code of
    # each micro-batch: with another one the code is compiled anew, and slow until the JVM has made it fast again (seen: a sixth of a batch). So it
    # does with numbers, and not with texts, which is why the time of the call is one.
    latest = f"(unix_date(current_date()) + {_DAYS_AHEAD}) * {_DAY}L"
    later = f"""{_DIGITS.format(value)} and {_NUMBER.format(value)} > {incarnation}L
        and {_from_end(2)}.key = '{h.LOG_TIME}' and {_DIGITS.format(_TIME)}
        and lpad(cast({_TIME} as string), {_DIGITS_OF_TIME}, '0') >= '{asked:0{_DIGITS_OF_TIME}}' and {_NUMBER.format(_TIME)} <= {latest}"""
    return f"""case
        when {value} = X'{str(incarnation).encode("ascii").hex()}' then true
        when {later} then raise_error('{MADE_ANEW}')
        else false end"""
