"""Leases: the messages of a consumer on their way to a client, and the outcome of its pull."""

from __future__ import annotations

from typing import Any, NamedTuple

from railgun.model.headers import HeaderList
from railgun.protocol.avro import headers_in, headers_out


class Lease(NamedTuple):
    """Messages that one client is to work on, as runs in columns, and the outcome of its pull.

    ``subjects``, ``payloads`` and ``times`` hold one value for each message where the lease carries the messages itself;
    otherwise they are empty, and the messages are read from ``topic``.
    """

    stream: str
    incarnation: int
    consumer: str
    number: int
    topic: str
    pull: int = 0
    subject: str = ""
    group: str = ""
    sequences: list[int] = []  # noqa: RUF012 - never changed
    counts: list[int] = []  # noqa: RUF012
    offsets: list[int] = []  # noqa: RUF012
    consumer_sequences: list[int] = []  # noqa: RUF012
    deliveries: list[int] = []  # noqa: RUF012
    subjects: list[str] = []  # noqa: RUF012
    headers: list[HeaderList] = []  # noqa: RUF012
    payloads: list[bytes] = []  # noqa: RUF012
    times: list[int] = []  # noqa: RUF012
    pending: int = 0
    headers_only: bool = False
    done: bool = False
    status: int = 0
    description: str = ""
    status_headers: HeaderList = []  # noqa: RUF012
    reply: str = ""


def lease_out(lease: Lease) -> dict[str, Any]:
    return lease._asdict() | {
        "headers": [headers_out(one) for one in lease.headers],
        "status_headers": headers_out(lease.status_headers),
    }


def lease_in(value: dict[str, Any]) -> Lease:
    """Raises ValueError unless the columns are those of runs, and of their messages if it carries them."""
    counts, carried = value["counts"], len(value["subjects"])
    runs = {len(value[name]) for name in ("sequences", "consumer_sequences", "deliveries")}
    if runs != {len(counts)} or any(count < 1 for count in counts):
        raise ValueError("a lease whose columns of runs do not fit together")
    messages = {len(value[name]) for name in ("payloads", "times")} | {len(value["headers"]) or carried}
    if messages != {carried} or carried not in (0, sum(counts)):
        raise ValueError("a lease that carries only some of its messages")
    if not carried and len(value["offsets"]) != len(counts):
        raise ValueError("a lease that does not say where its messages are")
    return Lease(
        **(
            value
            | {
                "headers": [headers_in(one) for one in value["headers"]],
                "status_headers": headers_in(value["status_headers"]),
            }
        )
    )
