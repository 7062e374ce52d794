"""A real Kafka on this machine, and Kafka Connect if asked for, for development and tests: no Docker, no installation.

>>> from railgun.kafka.embedded import EmbeddedBroker
>>> with EmbeddedBroker() as broker:  # doctest: +SKIP
...     print(broker.bootstrap)
127.0.0.1:40123

Owns: the jars in the per-user cache, the choice of a Java, one broker process and its data folder; beside it, for typed events,
a schema registry (:class:`EmbeddedRegistry`). Needs the
``embedded`` extra. Never use it in production: one node, one copy, no access control unless asked for.
"""

from __future__ import annotations

from railgun.kafka.embedded.apicurio import EmbeddedRegistry
from railgun.kafka.embedded.broker import EmbeddedBroker
from railgun.kafka.embedded.connect import EmbeddedConnect
from railgun.kafka.embedded.errors import (
    BrokerCrashed,
    BrokerNotReady,
    ConnectCrashed,
    ConnectNotReady,
    DataFolderBroken,
    DataFolderInUse,
    JarsUnavailable,
    NoJava,
    NotAPort,
    PortInUse,
)
from railgun.kafka.embedded.ports import free_port

__all__ = [
    "EmbeddedBroker",
    "EmbeddedConnect",
    "EmbeddedRegistry",
    "free_port",
    "BrokerCrashed",
    "BrokerNotReady",
    "ConnectCrashed",
    "ConnectNotReady",
    "DataFolderBroken",
    "DataFolderInUse",
    "JarsUnavailable",
    "NoJava",
    "NotAPort",
    "PortInUse",
]
