"""The flags that name Kafka topics to adopt: ``--from-topic orders --subject-from 'orders.{key}' --from-topic-start end``."""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import ValidationError

from railgun.cli.options.source_flags import start_moment
from railgun.errors import ConfigError
from railgun.model.stream_config import TopicSource

_PLACES: Final = ("beginning", "end")


def topics_given(
    topics: list[str] | None, subject: str | None, message_id: str | None, start: str | None
) -> list[TopicSource] | None:
    """The topics, each with what the other flags say about them; None if no flag was given. Raises ConfigError."""
    said: dict[str, Any] = {"subject": subject, "message_id": message_id}
    details = {name: value for name, value in said.items() if value is not None}
    if start in _PLACES:
        details["start"] = start
    elif start is not None:
        try:
            details["opt_start_time"] = start_moment(start)
        except ValueError:
            raise ConfigError(
                f"--from-topic-start: {start!r} is not a valid start: use beginning, end, a time (2026-01-31T12:00:00Z) or how "
                "long ago (2h)"
            ) from None
    if topics is None:
        if details:
            raise ConfigError("say which topic is adopted: --from-topic TOPIC")
        return None
    return [_topic(text).model_copy(update=details) for text in topics]


def _topic(text: str) -> TopicSource:
    if not text.lstrip().startswith("{"):
        return TopicSource(topic=text)
    try:
        return TopicSource.from_api(json.loads(text))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise ConfigError(f"--from-topic: {text!r} is not a valid topic: {where}: {fault['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--from-topic: {text!r} cannot be read as JSON: {error}") from None
