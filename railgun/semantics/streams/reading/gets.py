"""Reading messages: the plain get and the direct get (GET-*).

Pure functions of a stream's state and a parsed request. The plain get answers one frame or a refusal; the direct get
always answers frames, whose failures are statuses: messages with headers and no body.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from railgun.model import headers as h
from railgun.model.cluster_limits import LARGE_MESSAGE
from railgun.model.durations import rfc3339
from railgun.model.headers import HeaderList
from railgun.model.messages import StoredMessage
from railgun.model.refusals import BAD_REQUEST, NO_MESSAGE_FOUND, Refusal
from railgun.model.subjects import Filter
from railgun.protocol import statuses
from railgun.protocol.replies import Frame, Located, direct_frame, get_frame
from railgun.protocol.statuses import status_frame
from railgun.semantics.messages import searching
from railgun.semantics.steps import Steps
from railgun.semantics.streams.owned_stream import Entry, OwnedStream

MAX_RESULTS = 1_024
MAX_ANSWER = 4_194_304  # an answer is one record: a batch ends there, and says what is pending
_FRAME = 256  # what a frame costs beside its message, in bytes


class GetRequest(NamedTuple):
    """What to read; zero, empty and None mean not given."""

    seq: int = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    start_time: int | None = None
    batch: int = 0
    max_bytes: int = 0
    multi_last: tuple[str, ...] = ()
    up_to_seq: int = 0
    up_to_time: int | None = None
    no_hdr: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing is selected."""
        return not (
            self.seq
            or self.last_by_subj
            or self.next_by_subj
            or self.multi_last
            or self.start_time is not None
        )

    @property
    def contradicts_itself(self) -> bool:  # GET-05
        starts = (self.seq > 0) + (self.start_time is not None) + bool(self.last_by_subj)
        return starts > 1 or bool(self.last_by_subj and self.next_by_subj)

    @property
    def fits_plain_get(self) -> bool:
        """Whether it selects one message, in one way."""
        return not (self.of_direct_get or self.empty or self.contradicts_itself)

    @property
    def of_direct_get(self) -> bool:
        """Whether it has fields that only a direct get knows (GET-19)."""
        return bool(
            self.batch or self.max_bytes or self.multi_last or self.up_to_seq or self.up_to_time is not None
        )


def plain_get(stream: OwnedStream, request: GetRequest) -> Steps[Frame | Refusal]:
    """The one message that the request asks for (GET-01). The owner answers: what was acked to its publisher is there (GET-06)."""
    if not request.fits_plain_get:
        return BAD_REQUEST
    entry = yield from _one(stream, request)
    if entry is None:
        return NO_MESSAGE_FOUND
    return located(stream, entry, "get", no_headers=request.no_hdr)


def direct_get(stream: OwnedStream, request: GetRequest) -> Steps[list[Frame]]:
    """Messages as they are, with where they came from in their headers; or a status.

    It may be answered by others than the owner (GET-09); here the owner answers, between two decisions: nobody sees half
    of a batch or of a roll-up (GET-20).
    """
    if request.empty:
        return [status_frame(statuses.EMPTY_REQUEST)]
    if _bad_direct(request):
        return [status_frame(statuses.BAD_REQUEST)]
    if request.multi_last:
        return (yield from _multi_last(stream, request))
    if request.batch:
        return (yield from _batch(stream, request))
    entry = yield from _one(stream, request)  # GET-12, GET-14
    if entry is None:
        return [status_frame(statuses.MESSAGE_NOT_FOUND)]
    return [_message(stream, entry, request.no_hdr)]


def direct_get_by_subject(stream: OwnedStream, subject: str, request: GetRequest) -> Steps[list[Frame]]:
    """The short form: the subject is in the name, and the request may select nothing else (GET-10)."""
    if not request.empty or request.batch or request.up_to_seq or request.up_to_time is not None:
        return [status_frame(statuses.BAD_REQUEST)]
    return (yield from direct_get(stream, request._replace(last_by_subj=subject)))


def located(stream: OwnedStream, entry: Entry, form: str, *, no_headers: bool = False) -> Frame:
    """A frame that answers with this message: itself where it is at hand and not large, else its place in the log."""
    sequence = entry.sequence
    body = None if entry.size > LARGE_MESSAGE else stream.body(sequence)
    if body is None:
        return Frame([], b"", place_of(stream, sequence, form, no_headers=no_headers))
    headers, payload = body
    message = StoredMessage(entry.subject, sequence, payload, headers, entry.time)
    make = get_frame if form == "get" else direct_frame
    return make(message, no_headers=no_headers)


def place_of(stream: OwnedStream, sequence: int, form: str, *, no_headers: bool = False) -> Located:
    """Where a message is in the log, at or behind the offset."""
    offset = stream.index.offset(sequence, stream.log_end)
    return Located(form, stream.topic, offset, sequence, stream.incarnation, no_headers)


def _bad_direct(request: GetRequest) -> bool:
    return (
        request.contradicts_itself
        or bool(request.last_by_subj and (request.batch or request.multi_last))
        or bool(request.next_by_subj and request.multi_last)
        or bool(request.up_to_seq and request.up_to_time is not None)
    )


def _one(stream: OwnedStream, request: GetRequest) -> Steps[Entry | None]:
    if request.last_by_subj:  # GET-02
        return stream.entry((yield from searching.newest(stream, Filter(request.last_by_subj))))
    start = _start(stream, request)
    if request.next_by_subj:  # GET-03
        return (yield from searching.following(stream, start, Filter(request.next_by_subj)))
    return stream.entry(start)


def _start(stream: OwnedStream, request: GetRequest) -> int:
    return request.seq if request.start_time is None else stream.first_at(request.start_time)  # GET-04


def _message(stream: OwnedStream, entry: Entry, no_headers: bool, *extra: tuple[str, int]) -> Frame:
    frame = located(stream, entry, "direct", no_headers=no_headers)
    if no_headers:  # GET-18
        return frame
    origin: HeaderList = [  # GET-08
        (h.STREAM, stream.name.encode("utf-8")),
        (h.SUBJECT, entry.subject.encode("utf-8")),
        (h.SEQUENCE, b"%d" % entry.sequence),
        (h.TIME_STAMP, rfc3339(entry.time).encode("ascii")),
    ]
    return frame._replace(
        headers=[*frame.headers, *origin, *((name, b"%d" % value) for name, value in extra)]
    )


class _Allowance:
    """What a batch may still send: the caller's messages and bytes (GET-13), and what one answer can carry."""

    def __init__(self, stream: OwnedStream, request: GetRequest) -> None:
        self._overhead = stream.measure.record  # not sent, so not counted
        self._messages = request.batch or MAX_RESULTS
        self._bytes = request.max_bytes or MAX_ANSWER
        self._room = MAX_ANSWER

    def spend(self, entry: Entry) -> bool:
        """Count a message that is sent; whether another one may follow."""
        self._messages -= 1
        self._bytes -= entry.size - self._overhead
        sent = entry.size if entry.size <= LARGE_MESSAGE else 0  # else only its place is
        self._room -= sent + len(entry.subject) * 4 + _FRAME
        return self._messages > 0 and self._bytes > 0 and self._room > 0


def _frames(
    stream: OwnedStream, request: GetRequest, sequences: Iterable[int], pending: int
) -> tuple[list[Frame], int, int]:
    """Frames of those that still exist; then how many are pending, and the last sequence sent (GET-11)."""
    frames, last = [], 0
    for entry in map(stream.entry, sequences):
        if entry is not None:
            pending = max(pending - 1, 0)
            extra = ((h.NUM_PENDING, pending), (h.LAST_SEQUENCE, last))
            frames.append(_message(stream, entry, request.no_hdr, *extra))
            last = entry.sequence
    return frames, pending, last


def _batch(stream: OwnedStream, request: GetRequest) -> Steps[list[Frame]]:
    start, chosen = _start(stream, request), Filter(request.next_by_subj)
    pending = yield from searching.count_from(stream, start, chosen)
    allowance, found = _Allowance(stream, request), list[int]()

    def collect(entry: Entry) -> bool:
        found.append(entry.sequence)
        return allowance.spend(entry) and len(found) < pending

    if pending:
        yield from searching.all_from(stream, start, chosen, collect)
    frames, pending, last = _frames(stream, request, found, pending)
    if not frames:
        return [status_frame(statuses.MESSAGE_NOT_FOUND)]
    return [*frames, _end_of_batch(pending, last)]


def _end_of_batch(pending: int, last: int, *extra: tuple[str, int]) -> Frame:
    numbers = ((h.NUM_PENDING, pending), (h.LAST_SEQUENCE, last), *extra)
    return status_frame(
        statuses.END_OF_BATCH._replace(headers=[(name, b"%d" % value) for name, value in numbers])
    )


def _multi_last(stream: OwnedStream, request: GetRequest) -> Steps[list[Frame]]:  # GET-15
    up_to = request.up_to_seq or stream.last_seq
    if request.up_to_time is not None:  # GET-16: what was stored before that time
        up_to = stream.first_at(request.up_to_time) - 1
    latest = min(up_to, stream.last_seq)
    found = yield from searching.newest_of_each(stream, Filter(request.multi_last), latest, MAX_RESULTS)
    if len(found) > MAX_RESULTS:
        return [status_frame(statuses.TOO_MANY_RESULTS)]  # GET-17
    if not found:
        return [status_frame(statuses.NO_RESULTS)]
    start, allowance, sent = _start(stream, request), _Allowance(stream, request), []
    late = [sequence for sequence in sorted(found) if sequence >= start]
    for entry in map(stream.entry, late):
        if entry is not None:
            sent.append(entry.sequence)
            if not allowance.spend(entry):
                break
    frames, pending, last = _frames(stream, request, sent, len(late))
    return [*frames, _end_of_batch(pending, last, (h.UP_TO_SEQUENCE, up_to))]
