"""Handles of a stream: a name and the connection it lives on. A handle holds no state of the stream and is free to make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railgun.client import operations
from railgun.model.messages import StoredMessage, StreamInfo

if TYPE_CHECKING:
    from railgun.client.async_facade import AsyncRailgun
    from railgun.client.facade import Railgun


class Stream:
    """One stream. All calls raise StreamNotFound if there is none of that name."""

    def __init__(self, railgun: Railgun, name: str) -> None:
        self._railgun = railgun
        self.name = name

    def __repr__(self) -> str:
        return f"Stream({self.name!r})"

    def info(self, *, subjects: str | None = None, deleted: bool = False) -> StreamInfo:
        """Configuration and state. ``subjects``: with the counts of the subjects that match it; ``deleted``: with gaps."""
        return self._railgun.call(operations.stream_info(self.name, subjects=subjects, deleted=deleted))

    def get(self, sequence: int) -> StoredMessage:
        """The message of that sequence. Raises MessageNotFound (GET-01)."""
        return self._railgun.call(operations.get_message(self.name, seq=sequence))

    def get_last(self, subject: str) -> StoredMessage:
        """The newest message on the subject, wildcards allowed. Raises MessageNotFound (GET-02)."""
        return self._railgun.call(operations.get_message(self.name, last_by_subj=subject))

    def get_next(self, subject: str, *, sequence: int | None = None) -> StoredMessage:
        """The first message on the subject from that sequence on. Raises MessageNotFound (GET-03)."""
        return self._railgun.call(operations.get_message(self.name, next_by_subj=subject, seq=sequence))

    def delete_message(self, sequence: int, *, erase: bool = True) -> None:
        """Remove one message; ``erase=False`` only unlinks it. Raises MessageNotFound, NotPermitted, StreamSealed."""
        self._railgun.call(operations.delete_message(self.name, sequence, erase=erase))

    def purge(
        self, *, subject: str | None = None, sequence: int | None = None, keep: int | None = None
    ) -> int:
        """Remove messages: all, those on a subject, those below a sequence, or all but the newest. How many went."""
        return self._railgun.call(operations.purge(self.name, subject=subject, sequence=sequence, keep=keep))


class AsyncStream:
    """As :class:`Stream`; every call is awaited."""

    def __init__(self, railgun: AsyncRailgun, name: str) -> None:
        self._railgun = railgun
        self.name = name

    def __repr__(self) -> str:
        return f"AsyncStream({self.name!r})"

    async def info(self, *, subjects: str | None = None, deleted: bool = False) -> StreamInfo:
        """See :meth:`Stream.info`."""
        return await self._railgun.call(operations.stream_info(self.name, subjects=subjects, deleted=deleted))

    async def get(self, sequence: int) -> StoredMessage:
        """See :meth:`Stream.get`."""
        return await self._railgun.call(operations.get_message(self.name, seq=sequence))

    async def get_last(self, subject: str) -> StoredMessage:
        """See :meth:`Stream.get_last`."""
        return await self._railgun.call(operations.get_message(self.name, last_by_subj=subject))

    async def get_next(self, subject: str, *, sequence: int | None = None) -> StoredMessage:
        """See :meth:`Stream.get_next`."""
        return await self._railgun.call(operations.get_message(self.name, next_by_subj=subject, seq=sequence))

    async def delete_message(self, sequence: int, *, erase: bool = True) -> None:
        """See :meth:`Stream.delete_message`."""
        await self._railgun.call(operations.delete_message(self.name, sequence, erase=erase))

    async def purge(
        self, *, subject: str | None = None, sequence: int | None = None, keep: int | None = None
    ) -> int:
        """See :meth:`Stream.purge`."""
        return await self._railgun.call(
            operations.purge(self.name, subject=subject, sequence=sequence, keep=keep)
        )
