"""The handle of a stream: a name and the connection it lives on. It holds no state of the stream and is free to make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from railgun.client.facade.aio.consumer import AsyncConsumer
from railgun.client.facade.aio.ordered import AsyncOrderedConsumer
from railgun.client.facade.aio.stream_read import AsyncStreamRead
from railgun.client.operations import consumers, reading, streams
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.consumer_info import ConsumerInfo
from railgun.model.messages import StoredMessage, StreamInfo
from railgun.protocol.columnar.read_records import BY_SEQUENCE, LAST, NEXT

if TYPE_CHECKING:
    from railgun.client.facade.aio.calls import AsyncCalls


class AsyncStream:
    """One stream. All calls raise StreamNotFound if there is none of that name."""

    def __init__(self, railgun: AsyncCalls, name: str) -> None:
        self._railgun = railgun
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def info(self, *, subjects: str | None = None, deleted: bool = False) -> StreamInfo:
        """Configuration and state. ``subjects``: with the counts of the subjects that match it; ``deleted``: with gaps."""
        return await self._railgun.call(streams.stream_info(self.name, subjects=subjects, deleted=deleted))

    async def get(self, sequence: int) -> StoredMessage:
        """The message of that sequence. Raises MessageNotFound (GET-01)."""
        return await self._get(BY_SEQUENCE, sequence=sequence)

    async def get_last(self, subject: str) -> StoredMessage:
        """The newest message on the subject, wildcards allowed. Raises MessageNotFound (GET-02)."""
        return await self._get(LAST, subject=subject)

    async def get_next(self, subject: str, *, sequence: int | None = None) -> StoredMessage:
        """The first message on the subject from that sequence on. Raises MessageNotFound (GET-03)."""
        return await self._get(NEXT, subject=subject, sequence=sequence or 0)

    async def _get(self, form: int, *, sequence: int = 0, subject: str = "") -> StoredMessage:
        connection = self._railgun.connection
        return await self._railgun.run_steps(
            reading.get(connection, self.name, form, sequence=sequence, subject=subject)
        )

    async def get_many(self, sequences: Iterable[int]) -> dict[int, StoredMessage]:
        """The messages of these sequences, in one request; those that do not exist are left out."""
        return await self._railgun.run_steps(
            reading.get_many(self._railgun.connection, self.name, BY_SEQUENCE, sequences)
        )

    async def get_last_many(self, subjects: Iterable[str]) -> dict[str, StoredMessage]:
        """The newest message on each of these subjects, in one request; subjects without one are left out."""
        return await self._railgun.run_steps(
            reading.get_many(self._railgun.connection, self.name, LAST, subjects)
        )

    def read(
        self,
        subject: str | Sequence[str] | None = None,
        *,
        start: int | datetime | None = None,
        end: int | datetime | None = None,
        reverse: bool = False,
        limit: int | None = None,
        headers_only: bool = False,
        last_per_subject: bool = False,
    ) -> AsyncStreamRead:
        """The messages that the stream holds now, in order: all, or those on a subject or several, wildcards allowed.

        ``start`` and ``end``: a sequence or a datetime, both included. ``reverse``: the newest first. ``headers_only``: without
        payloads, with their size in ``Nats-Msg-Size``. ``last_per_subject``: only the newest message of each subject.
        """
        asked = reading.asked_for(
            self.name,
            subject,
            start,
            end,
            reverse=reverse,
            limit=limit,
            headers_only=headers_only,
            last_per_subject=last_per_subject,
        )
        return AsyncStreamRead(self._railgun, asked, limit)

    async def delete_message(self, sequence: int, *, erase: bool = True) -> None:
        """Remove one message; ``erase=False`` only unlinks it. Raises MessageNotFound, NotPermitted, StreamSealed."""
        await self._railgun.call(streams.delete_message(self.name, sequence, erase=erase))

    async def purge(
        self, *, subject: str | None = None, sequence: int | None = None, keep: int | None = None
    ) -> int:
        """Remove messages: all, those on a subject, those below a sequence, or all but the newest. How many went."""
        return await self._railgun.call(
            streams.purge(self.name, subject=subject, sequence=sequence, keep=keep)
        )

    # -- consumers

    async def create_consumer(
        self, config: ConsumerConfig | str | None = None, /, *, ephemeral: bool = False, **fields: Any
    ) -> AsyncConsumer:
        """Create a consumer; one that exists with the same configuration is left as it is. Raises ApiError.

        A name makes it durable, unless ``ephemeral``; without one it is ephemeral, and vanishes when no client uses it.
        Messages are acknowledged one by one (``ack_policy="explicit"``) by default. ``dead_letter="NAME"``: the
        stream that gets a copy of what runs out of deliveries or is terminated; it is made if there is none.
        """
        chosen = consumers.consumer_config(config, fields, ephemeral=ephemeral)
        made = await self._railgun.run_steps(
            consumers.create(self._railgun.connection, self.name, chosen, consumers.CREATE)
        )
        return AsyncConsumer(self._railgun, self.name, made.name)

    async def update_consumer(self, config: ConsumerConfig | str, /, **fields: Any) -> AsyncConsumer:
        """Change a consumer: a ConsumerConfig replaces the whole configuration; with a name, only the given fields change.

        Its position stays (CON-14). Raises ConsumerNotFound, ApiError for a field that cannot be changed (CON-11).
        """
        made = await self._railgun.run_steps(
            consumers.update(self._railgun.connection, self.name, config, fields)
        )
        return AsyncConsumer(self._railgun, self.name, made.name)

    async def delete_consumer(self, name: str) -> None:
        """Remove a consumer and its position. Raises ConsumerNotFound."""
        await self._railgun.call(consumers.delete_consumer(self.name, name))

    def consumer(self, name: str) -> AsyncConsumer:
        """A handle; whether the consumer exists shows at the first call."""
        return AsyncConsumer(self._railgun, self.name, name)

    async def consumers(self) -> list[ConsumerInfo]:
        """All consumers of the stream, by name."""
        return await self._railgun.run_steps(consumers.list_all(self._railgun.connection, self.name))

    def ordered_consumer(self, **fields: Any) -> AsyncOrderedConsumer:
        """All messages once and in order, for ever, without acknowledgements: ``async with orders.ordered_consumer() as messages``.

        ``filter_subject``, ``filter_subjects``, ``deliver_policy`` with ``opt_start_seq`` or ``opt_start_time``, and
        ``headers_only`` as for any consumer. It leaves no consumer behind (PSH-12).
        """
        return AsyncOrderedConsumer(self._railgun.connection, self.name, fields)
