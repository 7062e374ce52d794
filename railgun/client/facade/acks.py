"""``ack``, the one answer that every message gets: by hand, because the sync one must not cost a second call.

Everything else that can be said about a message is in :mod:`~railgun.client.facade.aio.message` and its twin.
"""

from __future__ import annotations

from railgun.client.consuming.delivery import Delivery


class Acks(Delivery):
    """A delivery that is acknowledged by a plain call."""

    __slots__ = ()

    ack = Delivery._ack  # not a call to it: every message is acknowledged


class AsyncAcks(Delivery):
    """A delivery that is acknowledged by an awaited call."""

    __slots__ = ()

    async def ack(self) -> None:
        """Done: do not deliver it again. At least once: an ack that is lost with this process is a second delivery (EXO-06).

        Raises AlreadyAcknowledged, ConnectionClosed.
        """
        self._ack()
