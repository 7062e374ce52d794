"""Batches by their headers, as any client may send them."""

from __future__ import annotations

from typing import Any

from railgun.client.facade.railgun import Railgun
from railgun.client.facade.sync.stream import Stream
from railgun.model import headers as h
from railgun.model.messages import PubAck
from tests.support.raw import Refused


def headers(batch: str, sequence: int | str, commit: str | None = None, **others: Any) -> dict[str, str]:
    """The headers of one message; ``others`` are names with underscores for dashes."""
    given = {h.BATCH_ID: batch, h.BATCH_SEQUENCE: str(sequence)}
    if commit is not None:
        given[h.BATCH_COMMIT] = commit
    return given | {name.replace("_", "-"): str(value) for name, value in others.items()}


def committed(rg: Railgun, *messages: tuple[str, bytes], **options: Any) -> PubAck | None:
    """The ack of a batch of these subjects and payloads; ``options`` are those of its last message."""
    with rg.batch() as batch:
        for number, (subject, payload) in enumerate(messages, 1):
            batch.add(subject, payload, **(options if number == len(messages) else {}))
    return batch.ack


class Sender:
    """Sends messages of batches to ``<stream>.<token>``."""

    def __init__(self, rg: Railgun, stream: Stream) -> None:
        self._rg, self._stream = rg, stream

    def send(
        self,
        batch: str,
        sequence: int | str,
        commit: str | None = None,
        *,
        token: str = "a",
        payload: bytes | None = None,
        **others: Any,
    ) -> dict[str, Any] | None:
        """The answer; None for one of zero bytes. The payload is the sequence, unless another is given."""
        body = str(sequence).encode() if payload is None else payload
        given = headers(batch, sequence, commit, **others)
        (reply,) = self._rg.request(f"{self._stream.name}.{token}", body, headers=given)
        return reply.json() if reply.body else None

    def refused(self, batch: str, sequence: int | str, commit: str | None = None, **others: Any) -> Refused:
        """The error of the answer; fails if there is none."""
        answer = self.send(batch, sequence, commit, **others)
        assert answer is not None, "the message was staged"
        assert "error" in answer, answer
        error = answer["error"]
        return error["err_code"], error["code"], error["description"]

    def stage(self, batch: str, count: int, **others: Any) -> None:
        """The first messages of a batch."""
        for sequence in range(1, count + 1):
            assert self.send(batch, sequence, **others) is None


def payloads(stream: Stream) -> list[bytes]:
    """All payloads, in order."""
    state = stream.info().state
    return [stream.get(number).payload for number in range(state.first_seq, state.last_seq + 1)]
