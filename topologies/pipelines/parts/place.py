"""The cluster that a pipeline works on: one description of it, for the facade and for Spark alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import railgun
from railgun.spark.cluster import Cluster


@dataclass(frozen=True)
class Place:
    """A cluster of railgun. ``kafka`` are settings of librdkafka (SASL, TLS …); Spark gets the same in its own words."""

    server: str = "localhost:9092"
    prefix: str = "railgun"
    kafka: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = 30.0

    @property
    def cluster(self) -> Cluster:
        """The same for Spark's Kafka source. Raises ConfigError for what is not an address, a prefix or a setting."""
        return Cluster(**self.options())

    def options(self) -> dict[str, Any]:
        """The arguments of ``railgun.spark`` that say where to read and publish."""
        return {"server": self.server, "prefix": self.prefix, "kafka": dict(self.kafka) or None}

    def connect(self) -> railgun.Railgun:
        """The facade; close it."""
        return self.cluster.connect(self.timeout)
