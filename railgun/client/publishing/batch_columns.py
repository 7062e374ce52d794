"""The messages of one batch, with its headers, as the columns of the packs that carry them."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, islice
from typing import Final

from railgun.avro.events import Events, Unframed
from railgun.client.publishing.packs import PACK_BYTES, PACK_MESSAGES, Lane, Pack, message_size
from railgun.model import headers as h
from railgun.model.headers import HeaderList

_PLACES: Final = h.BATCH_PLACES
_COMMIT: Final = (h.BATCH_COMMIT, b"1")
_END: Final = 2  # bytes behind all headers of a message


class BatchColumns:
    """What was added to a batch so far. Its id is in the headers of every message."""

    __slots__ = ("_bytes", "_headers", "_own", "_own_bytes", "_sizes", "payloads", "subjects", "unframed")

    def __init__(self, identity: str) -> None:
        self.subjects: list[str] = []
        self.payloads: list[bytes] = []
        self.unframed = False  # a payload waits for the schema of its model
        self._headers: list[HeaderList] = []
        self._sizes: list[int] = []
        self._bytes = 0
        self._own = (h.BATCH_ID, identity.encode())
        self._own_bytes = h.block_size([self._own, (h.BATCH_SEQUENCE, b"")])

    def add(self, subject: str, payload: bytes, given: HeaderList | None) -> None:
        """One more message, with the headers of the batch behind its own. Raises MessageTooLarge."""
        number = len(self.payloads) + 1
        place = _PLACES[number] if number < len(_PLACES) else (h.BATCH_SEQUENCE, b"%d" % number)
        others = self._own_bytes + len(place[1])
        # The end of all headers is counted once.
        size = message_size(subject, payload, "", given, others - _END if given else others)
        if type(payload) is Unframed:
            self.unframed = True
        self.subjects.append(subject)
        self.payloads.append(payload)
        self._headers.append([*given, self._own, place] if given else [self._own, place])
        self._sizes.append(size)
        self._bytes += size

    def finish(self, events: Events) -> None:
        """Ask the registry for the schemas of models that were met first. Raises EventError: nothing was sent."""
        self.payloads = list(map(events.finish, self.payloads))

    def end(self) -> None:
        """The last message commits the batch."""
        self._headers[-1].append(_COMMIT)
        size = message_size(self.subjects[-1], self.payloads[-1], "", self._headers[-1])
        self._bytes += size - self._sizes[-1]
        self._sizes[-1] = size

    def packs(self, lane: Lane, timeout: float) -> list[Pack]:
        """The messages in as few packs as may be."""
        found, start, count = [], 0, len(self.payloads)
        while start < count:
            end, size = min(count, start + PACK_MESSAGES), self._bytes
            if start or end < count or size > PACK_BYTES:
                ends = list(accumulate(islice(self._sizes, start, end)))
                end = start + max(1, bisect_right(ends, PACK_BYTES))
                size = ends[end - start - 1]
            pack = Pack(lane.stream, silent=lane.no_ack)
            pack.whole, pack.patience, pack.size = True, timeout, size
            pack.subjects, pack.payloads = self.subjects[start:end], self.payloads[start:end]
            pack.headers = self._headers[start:end]
            found.append(pack)
            start = end
        return found
