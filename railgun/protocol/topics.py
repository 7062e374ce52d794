"""Names of Kafka topics, groups and transactional ids, all derived from one prefix.

A stream name may hold bytes that a topic name may not: those become ``.xx`` (hex), and a name too long for Kafka ends
in a hash. The mapping is one-way by design: the registry, not the topic name, says what a topic holds.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

DEFAULT_PREFIX = "railgun"
MAX_TOPIC_LENGTH = 249
_PLAIN = re.compile(rb"[A-Za-z0-9_-]")
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def escape_stream(name: str, limit: int = MAX_TOPIC_LENGTH) -> str:
    """The stream's name in the alphabet of topic names; at most ``limit`` characters, still unique."""
    escaped = "".join(
        chr(byte) if _PLAIN.match(bytes([byte])) else f".{byte:02x}" for byte in name.encode("utf-8")
    )
    if len(escaped) <= limit:
        return escaped
    digest = hashlib.sha256(name.encode("utf-8")).hexdigest()[:16]
    return f"{escaped[: limit - 18]}..{digest}"


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one cell: one prefix, one set of topics, one consumer group."""

    prefix: str = DEFAULT_PREFIX

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise ValueError(
                f"the prefix {self.prefix!r} cannot begin a Kafka topic name: use letters, digits, '.', '_' and '-'"
            )

    @property
    def commands(self) -> str:
        return f"{self.prefix}.commands"

    @property
    def forwards(self) -> str:
        return f"{self.prefix}.forwards"

    @property
    def changelog(self) -> str:
        return f"{self.prefix}.changelog"

    @property
    def replies(self) -> str:
        return f"{self.prefix}.replies"

    @property
    def registry(self) -> str:
        return f"{self.prefix}.registry"

    @property
    def advisories(self) -> str:
        return f"{self.prefix}.advisories"

    @property
    def rejected(self) -> str:
        return f"{self.prefix}.rejected"

    @property
    def group(self) -> str:
        """The consumer group of the workers; it is also Faust's application id."""
        return f"{self.prefix}-workers"

    def log(self, stream: str) -> str:
        """The topic that holds the stream's messages."""
        head = f"{self.prefix}.log."
        return head + escape_stream(stream, MAX_TOPIC_LENGTH - len(head))

    def transactional_id(self, partition: int) -> str:
        return f"{self.prefix}-{partition}"
