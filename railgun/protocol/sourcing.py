"""What the owners of two streams tell each other when one stream copies the other: records in ``forwards``.

The stream that copies asks (:class:`SourceCommand`), its upstream answers (:class:`SourceLease`). Both travel in the
transactions of the shards that decide them, so none is lost and none comes twice; a *session* tells leases that were asked
for from those that are void.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from railgun.model.durations import parse_rfc3339
from railgun.model.headers import HeaderList, Headers
from railgun.model.refusals import Refusal
from railgun.protocol.avro import WireError, decode, encode, headers_in, headers_out

# Values of Forward.command_kind.
SOURCE: Final = "source"  # SourceCommand
SOURCED: Final = "sourced"  # SourceLease

LARGEST: Final = 1 << 62  # no sequence, no time and no number of bytes is above it
_LARGEST_SIZE: Final = 1 << 40  # of a lease, far above what a record holds: sums of it are numbers, too


class SourceCommand(NamedTuple):
    """A step in the life of a connection: ``attach``, ``ack`` or ``detach``."""

    kind: str
    upstream: str
    upstream_incarnation: int
    stream: str
    incarnation: int
    origin: str
    session: int = 0
    position: int = 0
    copied: int = 0
    window: int = 0
    filters: tuple[str, ...] = ()
    start_sequence: int = 0
    start_time: str = ""

    def encode(self) -> bytes:
        return encode("source_command", self._asdict() | {"filters": list(self.filters)})

    @classmethod
    def decode(cls, data: bytes) -> SourceCommand:
        value = decode("source_command", data)
        if any(
            not 0 <= value[name] <= LARGEST for name in ("position", "copied", "window", "start_sequence")
        ):
            raise WireError("not a source_command: there is no such place in a stream")
        if value["start_time"]:
            try:
                parse_rfc3339(value["start_time"])
            except ValueError as error:
                raise WireError(f"not a source_command: {error}") from error
        return cls(**(value | {"filters": tuple(value["filters"])}))


class SourceLease(NamedTuple):
    """Messages for the stream that copies, as columns; or, with a ``code``, why there are none."""

    upstream: str
    upstream_incarnation: int
    stream: str
    incarnation: int
    origin: str
    session: int
    sequences: list[int] = []  # noqa: RUF012 - never changed
    counts: list[int] = []  # noqa: RUF012
    subjects: list[str] = []  # noqa: RUF012
    headers: Sequence[Headers] = []
    payloads: list[bytes] = []  # noqa: RUF012
    times: list[int] = []  # noqa: RUF012
    after: int = 0
    reached: int = 0
    size: int = 0
    pending: int = 0
    missing: int = 0
    retains: bool = False
    code: int = 0
    err_code: int = 0
    description: str = ""

    @property
    def refusal(self) -> Refusal | None:
        """Why there are no messages; None if all is well."""
        return Refusal(self.code, self.err_code, self.description) if self.code else None

    def encode(self) -> bytes:
        headers: list[Any] = [headers_out(one) for one in self.headers] if any(self.headers) else []
        return encode("source_lease", self._asdict() | {"headers": headers})

    @classmethod
    def decode(cls, data: bytes) -> SourceLease:
        """Raises WireError unless its columns fit together."""
        value = decode("source_lease", data)
        carried = sum(value["counts"])
        headers: list[HeaderList] = [headers_in(one) for one in value["headers"]]
        columns = {len(value[name]) for name in ("subjects", "payloads", "times")}
        columns.add(len(headers) or carried)
        if columns != {carried} or len(value["sequences"]) != len(value["counts"]):
            raise WireError("not a source_lease: its columns differ in length")
        places = [value[name] for name in ("after", "reached", "pending", "missing")]
        if any(not 0 <= number <= LARGEST for number in chain(places, value["times"])) or not (
            0 <= value["size"] <= _LARGEST_SIZE and _ascend(value["sequences"], value["counts"])
        ):
            raise WireError("not a source_lease: there are no such messages")
        return cls(**(value | {"headers": headers}))


def _ascend(firsts: list[int], counts: list[int]) -> bool:
    """Whether these are runs of a stream, one behind the other: a mirror stores them as they come."""
    before = 0
    for first, count in zip(firsts, counts, strict=True):
        if count < 1 or not before < first <= LARGEST:
            return False
        before = first + count - 1
    return True
