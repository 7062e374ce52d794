"""Templates for the records of an adopted topic: the subject that a copy is stored under, and its message id (TOP-04 to TOP-06).

A template is text with placeholders: ``orders.{key}``, ``{header:type}.{partition}``. In a subject, what stands for a placeholder is
always one whole token or a part of one, never several: bytes that a token may not have are written as ``%XX``, and nothing that is
written can be mistaken for another value. :func:`decode_token` is the way back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from railgun.model.subjects import is_literal

ABSENT: Final = "%-"  # the token of a record without a key, or without that header
EMPTY: Final = "%"
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_HEADER: Final = "header:"
_NAMES: Final = "{key}, {header:NAME}, {topic}, {partition} and {offset}"
_SPECIAL: Final = [*range(0x21), 0x7F, *map(ord, ".*>%")]
# Bytes that are not UTF-8 arrive here as the characters U+DC80 to U+DCFF.
_ENCODED: Final = {one: f"%{one:02X}" for one in _SPECIAL} | {
    0xDC00 + one: f"%{one:02X}" for one in range(0x80, 0x100)
}
_DECODED: Final = re.compile(rb"%([0-9A-F]{2})")


class RecordParts(NamedTuple):
    """The parts of a record that a template may name."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


def encode_token(value: bytes | None) -> str:
    """The value as one token of a subject; different values become different tokens."""
    if value is None:
        return ABSENT
    return value.decode("utf-8", "surrogateescape").translate(_ENCODED) or EMPTY


def decode_token(token: str) -> bytes | None:
    """The value that :func:`encode_token` made this token of; None: there was none."""
    if token == ABSENT:
        return None
    if token == EMPTY:
        return b""
    return _DECODED.sub(lambda found: bytes.fromhex(found[1].decode()), token.encode("utf-8"))


class Template:
    """A template, read once. Raises ValueError for one that names something that records do not have."""

    def __init__(self, text: str) -> None:
        pieces = _PLACEHOLDER.split(text)  # text, placeholder, text, …
        if any("{" in one or "}" in one for one in pieces[::2]):
            raise ValueError(
                f"{text!r} is not a valid template: a brace is not closed; placeholders are {_NAMES}"
            )
        self._texts = pieces[::2]
        self._values = [_value_of(name, text) for name in pieces[1::2]]

    def subject(self, record: RecordParts) -> str:
        """The subject of the record's copy."""
        written = [self._texts[0]]
        for value, text in zip(self._values, self._texts[1:], strict=True):
            written += (encode_token(value(record)), text)
        return "".join(written)

    def text(self, record: RecordParts) -> str | None:
        """The values as they are, for an id; None if the record does not have one of them."""
        written = [self._texts[0]]
        for value, text in zip(self._values, self._texts[1:], strict=True):
            found = value(record)
            if found is None:
                return None
            written += (found.decode("utf-8", "backslashreplace"), text)
        return "".join(written)

    @property
    def makes_subjects(self) -> bool:
        """Whether every record has a subject by it."""
        return is_literal("x".join(self._texts))


@lru_cache(maxsize=1_000)
def template(text: str) -> Template:
    """The template of this text, read once. Raises ValueError."""
    return Template(text)


def _value_of(name: str, text: str) -> Callable[[RecordParts], bytes | None]:
    if name.startswith(_HEADER) and name != _HEADER:
        return _header(name.removeprefix(_HEADER))
    found = _VALUES.get(name)
    if found is None:
        raise ValueError(f"{text!r} is not a valid template: {{{name}}} is not one of {_NAMES}")
    return found


def _header(wanted: str) -> Callable[[RecordParts], bytes | None]:
    def value(record: RecordParts) -> bytes | None:
        # Kafka's headers may repeat, and then the last one counts, as for Kafka's own lastHeader().
        return next((found for name, found in reversed(record.headers) if name == wanted), None)

    return value


_VALUES: Final[dict[str, Callable[[RecordParts], bytes | None]]] = {
    "key": lambda record: record.key,
    "topic": lambda record: record.topic.encode("utf-8"),
    "partition": lambda record: b"%d" % record.partition,
    "offset": lambda record: b"%d" % record.offset,
}
