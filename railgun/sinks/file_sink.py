"""A file of payloads, one on a line, for development."""

from __future__ import annotations

from pydantic import Field

from railgun.sinks.stream_sink import STRING_CONVERTER, StreamSink


class FileSink(StreamSink):
    """A sink that appends each payload to a file on Connect's machine, as text, one on a line.

    For development: after a crash of Connect, lines may be there twice.
    """

    CONNECTOR = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    OWN = StreamSink.OWN | {"file"}

    file: str = Field(min_length=1)

    def defaults(self) -> dict[str, str]:
        return {**super().defaults(), "value.converter": STRING_CONVERTER, "file": self.file}
