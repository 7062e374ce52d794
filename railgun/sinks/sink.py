"""A sink of any class, for connectors that have no configuration of their own here."""

from __future__ import annotations

from pydantic import Field

from railgun.sinks.stream_sink import StreamSink


class Sink(StreamSink):
    """A sink that the connector of ``connector_class`` runs, with ``settings``; the plugin must be installed in Connect.

    After a crash of Connect it gets records again: unless the connector puts rows by a key, they are there twice.
    """

    connector_class: str = Field(min_length=1)

    def connector(self) -> str:
        return self.connector_class
