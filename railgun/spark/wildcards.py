"""Subject filters as conditions on a column, with the meaning that they have everywhere else in railgun."""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from railgun.errors import ConfigError
from railgun.model.subjects import has_wildcard, is_valid


def subject_filter(column: Column | str, filter: str) -> Column:
    """Whether the subject in this column matches: ``*`` stands for one token, ``>`` at the end for one or more.

    Raises ConfigError for what is not a valid filter. A null subject gives null, which no ``where`` lets pass.
    """
    if not is_valid(filter):
        raise ConfigError(
            f"{filter!r} is not a valid subject filter: tokens joined by dots, * and, at the end, >"
        )
    subject = F.col(column) if isinstance(column, str) else column
    if not has_wildcard(filter):
        return subject == F.lit(filter)
    condition = subject.rlike(expression(filter))
    head = _literal_head(filter)
    # A comparison of bytes is many times as fast as an expression, and in most streams it decides most rows.
    return subject.startswith(head) & condition if head else condition


def expression(filter: str) -> str:
    """The filter as an expression of Java."""
    tokens = filter.split(".")
    parts = [r"[^.]+" if token == "*" else _escaped(token) for token in tokens]
    if tokens[-1] == ">":
        # Possessive: Java would keep a place on its stack for each token to go back to, and a stack that is full ends the JVM.
        parts[-1] = r"[^.]++(?:\.[^.]++)*+"
    return r"\A" + r"\.".join(parts) + r"\z"


def _escaped(token: str) -> str:
    # Not re.escape: it is made for Python's own expressions. Java takes a backslash before whatever is not a letter or digit.
    return re.sub(r"([^A-Za-z0-9_\u0080-\U0010ffff])", r"\\\1", token)


def _literal_head(filter: str) -> str:
    """The text with which every subject that matches begins."""
    head: list[str] = []
    for token in filter.split("."):
        if token in ("*", ">"):
            break
        head.append(f"{token}.")
    return "".join(head)
