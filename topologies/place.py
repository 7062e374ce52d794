"""The cluster that a pipeline works on: its address and settings, for the facade and for Spark alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import railgun


@dataclass(frozen=True)
class Place:
    """A cluster of railgun. ``kafka`` are settings of librdkafka (SASL, TLS …); Spark gets the same in its own words."""

    server: str = "localhost:9092"
    prefix: str = "railgun"
    kafka: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = 30.0

    def connect(self) -> railgun.Railgun:
        """The facade; close it."""
        return railgun.connect(
            self.server, prefix=self.prefix, timeout=self.timeout, kafka=dict(self.kafka) or None
        )

    def info(self, stream: str, **details: Any) -> railgun.StreamInfo:
        """The stream as its owner knows it once every command that was sent before is decided. Raises StreamNotFound."""
        with self.connect() as rg:
            return rg.stream(stream).info(**details)

    def options(self) -> dict[str, Any]:
        """The arguments of ``railgun.spark`` that say where to read and publish."""
        return {"server": self.server, "prefix": self.prefix, "kafka": dict(self.kafka) or None}
