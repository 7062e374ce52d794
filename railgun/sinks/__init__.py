"""Sinks of Kafka Connect for streams: typed configurations, and a client of Connect's REST API.

>>> from railgun.sinks import Connect, JdbcSink
>>> sink = JdbcSink(
...     name="orders", stream="ORDERS", url="jdbc:postgresql://localhost/shop",
...     user="shop", password="${env:PG_PASSWORD}", table="orders",
... )
>>> status = Connect("http://localhost:8083").apply(sink, rg)  # doctest: +SKIP

Connect reads the log of the stream, committed records only, and never asks railgun; railgun is asked once, when a sink is
applied, for the stream that lives under the name. Importing it needs httpx2.
"""

from __future__ import annotations

from importlib.util import find_spec

from railgun.errors import ConfigError

if find_spec("httpx2") is None:
    raise ConfigError("railgun.sinks needs httpx2: pip install 'railgun[sinks]'")

from railgun.sinks.bridge import Bridged, dead_letters
from railgun.sinks.connect import Connect
from railgun.sinks.errors import ConnectUnreachable, SinkError, SinkFailed, SinkNotFound, SinkRefused
from railgun.sinks.file_sink import FileSink
from railgun.sinks.jdbc_sink import JdbcSink
from railgun.sinks.sink import Sink
from railgun.sinks.status import SinkStatus, TaskStatus

__all__ = [
    "Bridged",
    "Connect",
    "ConnectUnreachable",
    "FileSink",
    "JdbcSink",
    "Sink",
    "SinkError",
    "SinkFailed",
    "SinkNotFound",
    "SinkRefused",
    "SinkStatus",
    "TaskStatus",
    "dead_letters",
]
