"""Captures: streams that store what shards themselves send out, which is advisories and republished messages.

The registrar knows all subjects. Whenever a stream comes to capture a subject that shards send to, or ceases to, it sends the
list to every shard. So a shard looks at a short list, which is empty most of the time, and asks no other shard. A copy travels
to the owner of the capturing stream in the transaction that sends it out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from railgun.model.headers import HeaderList
from railgun.model.stream_config import StreamConfig
from railgun.model.subjects import Filter, Patterns
from railgun.protocol.avro import WireError
from railgun.protocol.commands import CAPTURES, PACK, Forward
from railgun.protocol.routing import partition_of
from railgun.shard.copies import Copies
from railgun.state import keys
from railgun.state.table import Overlay

log = logging.getLogger("railgun.shard")

EVENTS = "$JS.EVENT.>"
Send = Callable[[int, Forward], None]


def captured(configs: Iterable[StreamConfig], sent: Sequence[str]) -> dict[str, list[str]]:
    """Streams that capture what is sent out on these subjects, with the subjects by which they do."""
    met = Patterns(sent)
    found = {config.name: [own for own in config.subjects if met.collide(own)] for config in configs}
    return {name: subjects for name, subjects in sorted(found.items()) if subjects}


def destination(config: StreamConfig) -> str | None:
    """The subjects that the stream sends messages out to, as a pattern."""
    return None if config.republish is None else _pattern(config.republish.dest)


def _pattern(destination: str) -> str:
    """The subjects that a transform can lead to; a placeholder may become several tokens."""
    tokens = destination.split(".")
    for at, token in enumerate(tokens):
        if token.startswith("$") and token[1:].isdigit():
            tokens[at] = "*"
        elif "{{" in token:
            return ".".join([*tokens[:at], ">"])
    return ".".join(tokens)


class Captures:
    """The captures that one shard knows, and the copies that this drain has for them."""

    def __init__(self, overlay: Overlay, partition: int, partitions: int, send: Send) -> None:
        self._overlay = overlay
        self._partition = partition
        self._partitions = partitions
        self._send = send
        self._streams: dict[str, Filter] = {}
        self._text = b""
        self._offered = Copies()

    def load(self) -> None:
        """Read the list from the table; copies of a dropped drain are forgotten."""
        self._text = self._overlay.get(keys.CAPTURES) or b""
        try:
            self._streams = _parse(self._text) if self._text else {}
        except WireError as error:  # the registrar sends it again with the next change
            log.error("shard %d: which streams capture advisories cannot be read: %s", self._partition, error)
            self._streams = {}
        self._offered = Copies()

    def learn(self, text: bytes) -> None:
        """The list, as the registrar sends it. Raises WireError."""
        streams = _parse(text)
        if text != self._text:
            self._streams, self._text = streams, text
            self._overlay.put(keys.CAPTURES, text)

    def distribute(self, capturing: Mapping[str, list[str]]) -> None:
        """The registrar's own shard: the list is sent to all shards, if it has changed."""
        text = json.dumps(capturing).encode("utf-8")
        if text != (self._text or b"{}"):
            self.learn(text)
            for partition in range(self._partitions):
                if partition != self._partition:
                    list_of_captures = Forward(
                        self._partition, "command", "", command_kind=CAPTURES, command=text
                    )
                    self._send(partition, list_of_captures)

    @property
    def any(self) -> bool:
        return bool(self._streams)

    def offer(self, subject: str, headers: HeaderList, payload: bytes) -> None:
        """A message is sent out on the subject: a stream that captures it gets a copy when the drain ends."""
        for stream, own in self._streams.items():
            if own.matches(subject):
                self._offered.add(stream, subject, headers, payload)
                return  # no two streams capture the same subject (CFG-08)

    def send_copies(self) -> None:
        """Send the copies to the owners of the streams."""
        for pack in self._offered.take():
            copy = Forward(self._partition, "command", pack.stream, command_kind=PACK, command=pack.encode())
            self._send(partition_of(pack.stream, self._partitions), copy)


def _parse(text: bytes) -> dict[str, Filter]:
    try:
        given: Mapping[str, list[str]] = json.loads(text)
        return {name: Filter(subjects) for name, subjects in given.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise WireError(f"not a list of captures: {error}") from error
