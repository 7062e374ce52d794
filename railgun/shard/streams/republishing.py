"""Republishing (CFG-25): stored messages are sent out on another subject, to its listeners and to a capturing stream.

Nothing waits for it and nothing is kept of it: a client that does not listen at that moment misses it.
"""

from __future__ import annotations

from functools import lru_cache

from railgun.model import headers as h
from railgun.model.durations import rfc3339
from railgun.model.headers import HeaderList
from railgun.model.stream_config import Republish, SubjectTransform
from railgun.model.transforms import Transform
from railgun.protocol.leases import Lease
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.outcomes import Stored
from railgun.shard.consumers.presence import Listener, Presences
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.captures import Captures
from railgun.shard.streams.owned import OwnedStreams


class Republishing:
    """Sends out the new messages of streams that republish."""

    def __init__(self, streams: OwnedStreams, presences: Presences, captures: Captures) -> None:
        self._streams = streams
        self._presences = presences
        self._captures = captures

    def run(self, drain: OpenDrain) -> None:
        """Send out everything that the drain stored in such streams."""
        for name, stored in drain.logs.items():
            stream = self._streams.get(name)
            if stream is None or stream.config.republish is None or not stored.sequences:
                continue
            if self._presences.listened or self._captures.any:
                self._republish(stream, stream.config.republish, stored, drain)

    def _republish(self, stream: OwnedStream, republish: Republish, stored: Stored, drain: OpenDrain) -> None:
        transform = _compiled(republish.src, republish.dest)
        last = dict(drain.last_before.get(stream.name, {}))
        for number, sequence in enumerate(stored.sequences):
            subject = stored.subjects[number]
            previous, last[subject] = last.get(subject, 0), sequence
            destination = transform.apply(subject)
            if destination is None:
                continue
            payload = stored.payloads[number]
            headers: HeaderList = [
                *stored.headers[number],
                (h.STREAM, stream.name.encode("utf-8")),
                (h.SUBJECT, subject.encode("utf-8")),
                (h.SEQUENCE, b"%d" % sequence),
                (h.TIME_STAMP, rfc3339(stored.times[number]).encode("ascii")),
                (h.LAST_SEQUENCE, b"%d" % previous),
            ]
            if republish.headers_only:
                headers.append((h.MSG_SIZE, b"%d" % len(payload)))
                payload = b""
            self._captures.offer(destination, headers, payload)
            self._send(stream, destination, sequence, stored.times[number], headers, payload, drain)

    def _send(
        self,
        stream: OwnedStream,
        destination: str,
        sequence: int,
        time: int,
        headers: HeaderList,
        payload: bytes,
        drain: OpenDrain,
    ) -> None:
        """Send to every plain listener, and to one member of each group, by turns."""
        listeners = sorted(self._presences.listeners(destination))
        groups: dict[str, list[Listener]] = {}
        for one in listeners:
            groups.setdefault(one.group, []).append(one)
        plain = groups.pop("", [])
        for one in [*plain, *(members[sequence % len(members)] for members in groups.values())]:
            drain.replies(one.client).leases.append(
                Lease(
                    stream.name,
                    stream.incarnation,
                    "",
                    0,
                    stream.topic,
                    subject=destination,
                    group=one.group,
                    sequences=[sequence],
                    counts=[1],
                    offsets=[0],
                    consumer_sequences=[0],
                    deliveries=[0],
                    subjects=[destination],
                    headers=[headers],
                    payloads=[payload],
                    times=[time],
                )
            )


@lru_cache(maxsize=1_000)
def _compiled(source: str, destination: str) -> Transform:
    return Transform(SubjectTransform(src=source, dest=destination))
