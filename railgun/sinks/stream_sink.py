"""The common part of all sinks: what they read, how, and where the records go that they cannot take.

The settings that make a sink of a stream right are the same for all classes and cannot be given otherwise: committed records only, from
the beginning on, in the order of the sequence, without records that are not messages, and dead letters to a topic of their own.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from railgun.errors import ConfigError
from railgun.model import headers as h
from railgun.protocol.topics import Names
from railgun.sinks.secrets import ADVICE, literal_secret

#: Notes in the configuration of a connector, which Connect keeps and does not read.
STREAM: Final = "railgun.stream"
PREFIX: Final = "railgun.prefix"
INCARNATION: Final = "railgun.incarnation"

STRING_CONVERTER: Final = "org.apache.kafka.connect.storage.StringConverter"
BYTES_CONVERTER: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_GUARD: Final = "railgunMessage"  # the predicate, and in front of all transforms the filter, of that name
_LARGEST_RECORD: Final = str(8 * 1024 * 1024)
# Decided here, so that no sink leaks aborted records, skips some, or writes to a log.
_OWN: Final = frozenset(
    {
        "connector.class",
        "consumer.override.auto.offset.reset",
        "consumer.override.group.id",
        "consumer.override.isolation.level",
        "errors.deadletterqueue.topic.name",
        "name",
        "predicates",
        "tasks.max",
        "topics",
        "topics.regex",
        "transforms",
    }
)


class StreamSink(BaseModel):
    """A sink of one stream.

    Unknown fields, settings that are railgun's own, and secrets that are written out are refused; an error never shows a value.
    ``transforms`` are Connect's, in their order, behind the filter that lets only messages through: each has its settings, ``type``
    among them. ``settings`` are more settings of the connector. ``dead_letters`` names the topic for records that a converter or a
    transform cannot read; it is never one of railgun's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    CONNECTOR: ClassVar[str] = ""  # the class of the connector
    OWN: ClassVar[frozenset[str]] = _OWN  # settings that cannot be given

    name: str
    stream: str = Field(min_length=1)
    settings: dict[str, str] = Field(default_factory=dict)
    transforms: dict[str, dict[str, str]] = Field(default_factory=dict)
    dead_letters: str = ""
    dead_letter_copies: int = Field(default=1, ge=1)

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError("is not a valid name of a sink: use letters, digits, - and _")
        return value

    @field_validator("settings")
    @classmethod
    def _are_free_settings(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name in cls.OWN or name.startswith(("transforms.", "predicates.", "railgun.")):
                raise ValueError(f"the setting {name} is railgun's own and cannot be given: leave it out")
        return _without_secrets(value)

    @field_validator("transforms")
    @classmethod
    def _are_transforms(cls, value: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        for name, settings in value.items():
            if not _NAME.fullmatch(name) or name.startswith("railgun") or "type" not in settings:
                raise ValueError("a transform has a name that does not begin with railgun, and a type")
            _without_secrets(settings)
        return value

    def dead_letter_topic(self, names: Names) -> str:
        """The topic of what cannot be converted: ``<prefix>.sink.<name>.connect-dlq`` unless another one is named. Raises ConfigError."""
        topic = self.dead_letters or dead_letter_topic(names, self.name)
        fixed = (names.commands, names.forwards, names.changelog, names.replies, names.registry,
                 names.advisories, names.rejected)  # fmt: skip
        if not _TOPIC.fullmatch(topic) or topic in fixed or topic.startswith(names.log("")):
            raise ConfigError(
                f"{topic!r} is not a valid topic for dead letters: it is not a topic's name, or only workers write to it"
            )
        return topic

    def connector(self) -> str:
        """The class of the connector."""
        return self.CONNECTOR

    def rendered(self, names: Names, incarnation: int) -> dict[str, str]:
        """The configuration of the connector, for the stream of that incarnation in that cell. Raises ConfigError."""
        transforms = self.all_transforms()
        flat = {
            f"transforms.{name}.{key}": value
            for name, settings in transforms.items()
            for key, value in settings.items()
        }
        return {
            **self.defaults(),
            **self.settings,
            "name": self.name,
            "connector.class": self.connector(),
            "topics": names.log(self.stream),
            "tasks.max": "1",  # a log is one partition
            "consumer.override.isolation.level": "read_committed",
            "consumer.override.auto.offset.reset": "earliest",
            # A stream that was deleted and made again has a new log: offsets of the former one mean nothing there.
            "consumer.override.group.id": f"{names.prefix}-sink-{self.name}-{incarnation}",
            "errors.deadletterqueue.topic.name": self.dead_letter_topic(names),
            "transforms": ",".join(transforms),
            "predicates": _GUARD,
            f"predicates.{_GUARD}.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
            f"predicates.{_GUARD}.name": h.LOG_SEQUENCE,
            **flat,
            STREAM: self.stream,
            PREFIX: names.prefix,
            INCARNATION: str(incarnation),
        }

    def all_transforms(self) -> dict[str, dict[str, str]]:
        """The transforms in their order: first what drops tombstones and records that others wrote, which have no sequence."""
        drop = {"type": "org.apache.kafka.connect.transforms.Filter", "predicate": _GUARD, "negate": "true"}
        return {_GUARD: drop, **self.transforms}

    def defaults(self) -> dict[str, str]:
        """Settings that ``settings`` may replace."""
        return {
            "key.converter": STRING_CONVERTER,
            "value.converter": BYTES_CONVERTER,
            "header.converter": STRING_CONVERTER,
            "errors.tolerance": "all",
            "errors.log.enable": "true",
            "errors.log.include.messages": "false",  # payloads are nobody's who reads logs
            "errors.deadletterqueue.context.headers.enable": "true",
            "errors.deadletterqueue.topic.replication.factor": str(self.dead_letter_copies),
            "producer.override.max.request.size": _LARGEST_RECORD,
        }


def _without_secrets(settings: dict[str, str]) -> dict[str, str]:
    secret = literal_secret(settings)
    if secret is not None:
        raise ValueError(f"the setting {secret} holds a secret: {ADVICE}")
    return settings


def dead_letter_topic(names: Names, sink: str) -> str:
    """The topic of a sink's dead letters. It is never a log: those begin with ``<prefix>.log.``."""
    return f"{names.prefix}.sink.{sink}.connect-dlq"
