"""Transactions of a message: ``async with message.transaction() as t: t.publish(…)`` (docs/rules, EXO-08)."""

from __future__ import annotations

from typing import Self, Unpack

from railgun.client import steps
from railgun.client.operations.handed_messages import HandedMessages
from railgun.client.publishing.arguments import Event, MessageOptions


class AsyncTransaction:
    """Publishes that happen together with the acknowledgement of a message, or not at all; an async context manager.

    Made by ``message.transaction``. Leaving the block acknowledges the message and hands the publishes over to the owners of their
    streams; an exception in the block gives them up, and the message stays unacknowledged.
    """

    def __init__(self, messages: HandedMessages) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def publish(
        self,
        subject: str,
        payload: Event = b"",
        *,
        msg_id: str | None = None,
        **options: Unpack[MessageOptions],
    ) -> None:
        """One more publish, with the options of ``rg.publish``; nothing is sent yet.

        Async: it only collects, so it is not awaited.

        Raises ConfigError, also beyond 1,000 messages and for messages of a batch, MessageTooLarge and EventError.
        """
        self._messages.add(subject, payload, msg_id, options)

    async def __aenter__(self) -> Self:
        self._messages.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Acknowledge and hand over. Raises NotPending if the message is another delivery's by now, NoStreamResponse if no stream
        captures a subject, MessageTooLarge, AlreadyAcknowledged: nothing was done then; and RequestTimeout, after which it was done
        as a whole or not at all."""
        if kind is not None:
            self._messages.give_up()
        else:
            await steps.run_async(self._messages.commit())
