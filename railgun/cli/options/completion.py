"""Completion for shells: the names of streams, consumers and buckets. Any failure means that there is nothing to complete."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from railgun.cli.options.cluster import Cluster

if TYPE_CHECKING:
    from railgun.client.facade.railgun import Railgun

_PATIENCE = 2.0  # seconds; a shell that waits longer is a broken shell


def known_streams(context: typer.Context, incomplete: str) -> list[str]:
    """The streams of the cluster that the line so far names."""
    with contextlib.suppress(Exception), _connected(context) as rg:
        return [info.config.name for info in rg.streams() if info.config.name.startswith(incomplete)]
    return []


def known_consumers(context: typer.Context, incomplete: str) -> list[str]:
    """The consumers of the stream that the line so far names."""
    with contextlib.suppress(Exception), _connected(context) as rg:
        found = rg.stream(str(context.params["stream"])).consumers()
        return [info.name for info in found if info.name.startswith(incomplete)]
    return []


def known_buckets(context: typer.Context, incomplete: str) -> list[str]:
    """The buckets of the cluster that the line so far names."""
    with contextlib.suppress(Exception), _connected(context) as rg:
        return [status.bucket for status in rg.buckets() if status.bucket.startswith(incomplete)]
    return []


@contextlib.contextmanager
def _connected(context: typer.Context) -> Iterator[Railgun]:
    given = context.params
    cluster = Cluster(
        server=given.get("server"),
        prefix=given.get("prefix") or "railgun",
        kafka=given.get("kafka"),
        kafka_config=given.get("kafka_config"),
        timeout=_PATIENCE,
    )
    with cluster.connect() as rg:
        yield rg
