"""Advisories and metrics (ADV): events of streams and consumers, sent out as JSON.

They leave after the commit of the drain that caused them, and never hold it up (ADV-13). A stream that captures their
subjects stores them too (ADV-01): those copies are sent to its owner in the same transaction.
"""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from typing import Any

from railgun.protocol import advisory_record
from railgun.semantics.consumers.events import Event
from railgun.semantics.consumers.undo import UndoLog
from railgun.shard.drain import Advisory
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.captures import Captures

_DELIVERY = ("consumer_seq", "stream_seq", "deliveries")
# kind of event: subject, type, fields of the event
_KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "max_deliver": (advisory_record.MAX_DELIVERIES, "max_deliver", ("stream_seq", "deliveries")),  # ADV-02
    "terminated": (advisory_record.MSG_TERMINATED, "terminated", (*_DELIVERY, "reason")),  # ADV-03, ADV-04
    "nak": (advisory_record.MSG_NAKED, "nak", _DELIVERY),  # ADV-05
    "ack_sample": (advisory_record.CONSUMER_ACK, "consumer_ack", (*_DELIVERY, "ack_time")),
}
# kind of event: subject, action
_CONSUMER_ACTIONS = {
    "created": (advisory_record.CONSUMER_CREATED, "create"),
    "deleted": (advisory_record.CONSUMER_DELETED, "delete"),
}
_STREAM_ACTIONS = {
    "create": advisory_record.STREAM_CREATED,
    "modify": advisory_record.STREAM_UPDATED,
    "delete": advisory_record.STREAM_DELETED,
}


class Advisories:
    """Makes the advisories of one shard."""

    def __init__(self, partition: int, captures: Captures, undo: UndoLog) -> None:
        self._partition = partition
        self._captures = captures
        self._undo = undo
        self._made = 0  # by this owner

    def of_stream(self, stream: str, action: str, drain: OpenDrain) -> None:
        """A stream was created (``create``), changed (``modify``) or deleted (``delete``) (ADV-12)."""
        subject = f"{_STREAM_ACTIONS[action]}.{stream}"
        self._advise(subject, "stream_action", {"stream": stream, "action": action}, drain)

    def of_batch(self, stream: str, batch: str, reason: str, drain: OpenDrain) -> None:
        """A batch of the stream was abandoned (ADV-11)."""
        fields = {"stream": stream, "batch": batch, "reason": reason}
        self._advise(f"{advisory_record.BATCH_ABANDONED}.{stream}", "batch_abandoned", fields, drain)

    def of_consumer(self, stream: str, event: Event, drain: OpenDrain) -> None:
        """An event of a consumer."""
        fields: dict[str, Any] = {"stream": stream, "consumer": event.consumer}
        if event.kind in _CONSUMER_ACTIONS:
            kind = "consumer_action"
            subject, fields["action"] = _CONSUMER_ACTIONS[event.kind]
        else:
            subject, kind, names = _KINDS[event.kind]
            fields |= {name: getattr(event, name) for name in names}
        self._advise(f"{subject}.{stream}.{event.consumer}", kind, fields, drain)

    def _advise(self, subject: str, kind: str, fields: dict[str, Any], drain: OpenDrain) -> None:
        self._undo.on_undo(partial(setattr, self, "_made", self._made))
        self._made += 1
        seed = f"{self._partition}/{self._made}/{drain.moment}/{subject}"
        identity = blake2b(seed.encode("utf-8"), digest_size=11).hexdigest()
        data = advisory_record.encode(kind, identity, drain.moment, fields)
        drain.decisions.advisories.append(Advisory(subject, data))
        self._captures.offer(subject, [], data)
