"""Shards without a broker, whose streams copy each other."""

from __future__ import annotations

from typing import Any

from railgun.model import headers as h
from railgun.protocol.routing import partition_of
from tests.support.shards import NAMES, Shards

SECOND = 1_000_000_000
PARTITIONS = 3


class Cluster(Shards):
    """Shards with streams that copy each other."""

    def __init__(self) -> None:
        super().__init__(PARTITIONS)

    def make(self, name: str, *sources: dict[str, Any], **fields: Any) -> None:
        config = {"name": name, "subjects": [f"{name}.>"], **fields}
        if sources:
            config["sources"] = list(sources)
        self.ask(f"STREAM.CREATE.{name}", config)

    def ask(self, api: str, body: dict[str, Any] | bytes = b"") -> dict[str, Any]:
        request = self.request(api, body)
        self.settle()
        answer = self.answer(request)
        assert "error" not in answer, answer
        return answer

    def rest(self) -> None:
        """Whatever was put off is tried again, until all upstreams are copied."""
        for _ in range(8):
            self.settle()
            self.now += 40 * SECOND
        self.settle()

    def state(self, name: str) -> Any:
        found = self.cores[partition_of(name, PARTITIONS)]._streams.get(name)
        assert found is not None
        return found

    def texts(self, name: str) -> list[bytes]:
        """The payloads of a stream's messages, from its log."""
        topic = NAMES.log(name)
        return [self.written[topic, entry.sequence].payload for entry in self.state(name).iterate()]

    def increments(self, name: str, subject: str) -> int:
        """The sum over the log of what was added to a counter."""
        topic = NAMES.log(name)
        found = [self.written[topic, entry.sequence] for entry in self.state(name).iterate()]
        return sum(int(h.first(one.headers, h.INCREMENT) or b"0") for one in found if one.subject == subject)
