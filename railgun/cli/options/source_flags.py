"""The flags that name streams to copy: ``--mirror ORDERS``, ``--source "ORDERS filter=ORDERS.new start-seq=5"``."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from pydantic import ValidationError

from railgun.cli.options.consumer_flags import start
from railgun.cli.options.flags import parser
from railgun.errors import ConfigError
from railgun.model.stream_config import StreamSource

_WORDS: Final = {"filter": "filter_subject", "start-seq": "opt_start_seq", "start-time": "opt_start_time"}
_FORM: Final = (
    'write STREAM, "STREAM filter=SUBJECT start-seq=N start-time=TIME", or the API\'s object as JSON'
)


def source(text: str) -> StreamSource:
    """A stream to copy by its name, by words, or as the JSON object of the API. Raises ValueError."""
    if text.lstrip().startswith("{"):
        return _from_json(text)
    name, *words = text.split() or [""]
    fields: dict[str, Any] = {"name": name}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or key not in _WORDS or not value:
            raise ValueError(f"{word!r} is not a valid part of a source: {_FORM}")
        fields[_WORDS[key]] = _read(key, value)
    if not name or "=" in name:
        raise ValueError(f"{text!r} does not begin with the name of a stream: {_FORM}")
    return StreamSource(**fields)


def start_sequence(text: str) -> int:
    """Where copying begins. Raises ValueError."""
    if not re.fullmatch(r"\d+", text) or int(text) < 1:
        raise ValueError(f"{text!r} is not a valid sequence: sequences begin at 1")
    return int(text)


def start_moment(text: str) -> str:
    """A time, or how long ago, as the API writes times. Raises ValueError."""
    try:
        begin = start(text).given()
        return str(begin["opt_start_time"])
    except (ValueError, KeyError):
        raise ValueError(
            f"{text!r} is not a valid start: use a time (2026-01-31T12:00:00Z) or how long ago (2h)"
        ) from None


SOURCE: Final = parser(source)
SEQUENCE: Final = parser(start_sequence)
MOMENT: Final = parser(start_moment)


def mirror_given(
    mirror: StreamSource | None, filter_subject: str | None, sequence: int | None, moment: str | None
) -> StreamSource | None:
    """The mirror, with what its own flags say about it. Raises ConfigError."""
    said = {"filter_subject": filter_subject, "opt_start_seq": sequence, "opt_start_time": moment}
    details = {name: value for name, value in said.items() if value is not None}
    if mirror is None and details:
        raise ConfigError("say which stream is mirrored: --mirror STREAM")
    return mirror.model_copy(update=details) if mirror is not None else None


def _read(key: str, value: str) -> object:
    if key == "start-seq":
        return start_sequence(value)
    return start_moment(value) if key == "start-time" else value


def _from_json(text: str) -> StreamSource:
    try:
        return StreamSource.from_api(json.loads(text))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise ValueError(f"{text!r} is not a valid source: {where}: {fault['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{text!r} cannot be read as JSON: {error}") from None
