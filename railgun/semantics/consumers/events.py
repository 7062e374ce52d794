"""Events of a consumer that are reported to others: advisories, metrics, dead letters."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["max_deliver", "terminated", "nak", "ack_sample", "created", "deleted", "dead"]


class Event(NamedTuple):
    """An event. Fields that do not apply to its kind are 0 or empty.

    ``dead``: the message ran out of deliveries or was terminated, and its consumer names a stream that takes a copy. It is
    raised before a work queue removes the message.
    """

    kind: Kind
    consumer: str
    stream_seq: int = 0
    consumer_seq: int = 0
    deliveries: int = 0
    reason: str = ""
    ack_time: int = 0  # ns from the newest delivery or sign of progress to the acknowledgement
