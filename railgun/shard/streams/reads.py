"""Gets and pages of a shard's streams: decided in order with everything else, so each sees what was stored before it.

Neither changes anything: a drain of reads alone needs no transaction. Searches that take longer go on in the next drains.
"""

from __future__ import annotations

from railgun.model.refusals import STREAM_NOT_FOUND, TOO_MANY_REQUESTS, Refusal
from railgun.protocol.columnar.read_records import GetPack, ReadReply, ReadRequest
from railgun.semantics.steps import Steps
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.reading import paging
from railgun.semantics.streams.reading.packed_gets import answer_one, answer_pack, refuse_pack
from railgun.shard.long_calls import Answer, Call, LongCalls, Turn
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams


class Reads:
    """Reads of the streams of one shard."""

    def __init__(self, streams: OwnedStreams, long_calls: LongCalls) -> None:
        self._streams = streams
        self._long_calls = long_calls

    def gets(self, pack: GetPack, drain: OpenDrain) -> None:
        """Answer the gets of a pack: those that need no search at once, each of the others when it is found."""
        stream = self._streams.get(pack.stream)
        if stream is None:
            self.refuse(pack, self._missing(pack.stream), drain)
            return
        answers = answer_pack(stream, pack)
        for reply in answers.replies:
            drain.answer(pack.client, pack.request, reply)
        for index in answers.longer:
            self._long_calls.start(_search(pack, index, stream.incarnation), drain)

    def refuse(self, pack: GetPack, refusal: Refusal, drain: OpenDrain) -> None:
        """Answer every get of the pack with the refusal."""
        drain.answer(pack.client, pack.request, refuse_pack(pack, refusal))

    def page(self, asked: ReadRequest, drain: OpenDrain) -> None:
        """Answer with the page that is asked for, once it is found."""
        stream = self._streams.get(asked.stream)
        if stream is None:
            self.refuse_page(asked, self._missing(asked.stream), drain)
            return

        def begin(now: OwnedStream | None, _: Turn) -> Steps[Answer]:
            if now is None:  # deleted while the read was under way
                return ReadReply(asked.request, refusals=[(0, STREAM_NOT_FOUND)])
            return (yield from paging.page(now, asked))

        crowded = ReadReply(asked.request, refusals=[(0, TOO_MANY_REQUESTS)])
        called = (asked.client, asked.request, asked.stream, stream.incarnation)
        self._long_calls.start(Call(*called, False, begin, crowded), drain)

    def refuse_page(self, asked: ReadRequest, refusal: Refusal, drain: OpenDrain) -> None:
        """Answer the page with the refusal."""
        drain.answer(asked.client, asked.request, ReadReply(asked.request, refusals=[(0, refusal)]))

    def _missing(self, stream: str) -> Refusal:
        return self._streams.aside.refusal(stream) or STREAM_NOT_FOUND


def _search(pack: GetPack, index: int, incarnation: int) -> Call:
    def begin(stream: OwnedStream | None, _: Turn) -> Steps[Answer]:
        return (yield from answer_one(stream, pack, index))

    crowded = refuse_pack(pack, TOO_MANY_REQUESTS, [index])
    return Call(pack.client, pack.request, pack.stream, incarnation, False, begin, crowded)
