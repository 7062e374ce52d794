"""The flags of ``railgun kv``: which bucket, and what ``kv add`` says about a new one."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from railgun.cli.options.completion import known_buckets
from railgun.cli.options.flags import DURATION, SIZE, Metadata, notes
from railgun.errors import ConfigError

if TYPE_CHECKING:
    from railgun.client.facade.railgun import Railgun
    from railgun.client.facade.sync.buckets.bucket import Bucket

BucketName = Annotated[
    str, typer.Argument(metavar="BUCKET", help="The bucket's name.", autocompletion=known_buckets)
]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key.")]
ValueArgument = Annotated[
    str | None, typer.Argument(metavar="[VALUE]", help="The value; else standard input is read.")
]
TtlOption = Annotated[
    timedelta | None, typer.Option(parser=DURATION, metavar="DURATION", help="How long it lives (10m).")
]
Revision = Annotated[int | None, typer.Option("--revision", help="Only if this is the newest revision.")]


def value_of(given: str | None) -> bytes:
    """The given text, or else standard input, byte for byte. Raises ConfigError if that is a terminal."""
    if given is not None:
        return given.encode("utf-8")
    if sys.stdin.isatty():
        raise ConfigError("give a VALUE, or send it to standard input")
    return sys.stdin.buffer.read()


@dataclass(frozen=True)
class Chosen:
    """The stream of the bucket, where its name does not follow from the bucket's."""

    stream_name: Annotated[
        str | None, typer.Option("--stream-name", metavar="STREAM", help="The bucket's stream (KV_BUCKET).")
    ] = None

    def open(self, rg: Railgun, name: str) -> Bucket:
        """The handle of the bucket. Raises BucketNotFound, BadBucket."""
        return rg.bucket(name, stream_name=self.stream_name)


@dataclass(frozen=True)
class BucketFlags:
    """Flags for the configuration of a bucket; None: the flag was not given."""

    history: Annotated[int | None, typer.Option(help="How many values of each key are kept (1).")] = None
    ttl: Annotated[
        timedelta | None,
        typer.Option(parser=DURATION, metavar="DURATION", help="How long values are kept (7d)."),
    ] = None
    description: Annotated[str | None, typer.Option(help="What the bucket is for.")] = None
    max_value_size: Annotated[
        int | None, typer.Option(parser=SIZE, metavar="SIZE", help="The largest value (64KB).")
    ] = None
    max_bytes: Annotated[
        int | None, typer.Option(parser=SIZE, metavar="SIZE", help="How many bytes are kept of all values.")
    ] = None
    replicas: Annotated[int | None, typer.Option(help="How many brokers have a copy.")] = None
    storage: Annotated[Literal["file", "memory"] | None, typer.Option(help="Where values are kept.")] = None
    dotted_keys: Annotated[
        bool | None, typer.Option("--dotted-keys", help="Allow . and = in keys, and wildcards in watches.")
    ] = None
    marker_deletes: Annotated[
        bool | None, typer.Option("--marker-deletes", help="Deletes leave a marker and keep the history.")
    ] = None
    nats_mode: Annotated[
        bool | None, typer.Option("--nats-mode", help="Name and keep everything as NATS's own clients do.")
    ] = None
    marker_ttl: Annotated[
        timedelta | None,
        typer.Option(parser=DURATION, metavar="DURATION", help="Leave markers of expired keys, for so long."),
    ] = None
    stream_name: Annotated[
        str | None, typer.Option("--stream-name", metavar="STREAM", help="Its stream (KV_BUCKET).")
    ] = None
    subject_prefix: Annotated[
        str | None, typer.Option(metavar="PREFIX", help="What subjects of keys begin with (kv).")
    ] = None
    metadata: Metadata = None

    def given(self) -> dict[str, Any]:
        """The fields of a BucketConfig that were given. Raises ConfigError."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.metadata is not None:
            found["metadata"] = notes(self.metadata)
        found["limit_marker_ttl"] = found.pop("marker_ttl")
        return {name: value for name, value in found.items() if value is not None}
