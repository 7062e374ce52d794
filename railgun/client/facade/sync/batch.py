# Generated from ../aio/batch.py by `python -m tests.twins`. Change that file, then run `make twins`.
"""Atomic batches: ``with rg.batch() as batch: batch.add(…)`` (docs/rules, BAT)."""

from __future__ import annotations

from typing import Self, Unpack

from railgun.client import steps
from railgun.client.operations.batch_messages import BatchMessages
from railgun.client.publishing.arguments import Event, MessageOptions
from railgun.model.messages import PubAck


class Batch:
    """Messages that are stored together or not at all; a context manager. Made by ``rg.batch``.

    Leaving the block sends and commits them; an exception in the block gives them up, and nothing was sent.
    """

    def __init__(self, messages: BatchMessages) -> None:
        self._messages = messages
        #: After the block: the id and the size of the batch, and the sequence of its last message. None if it was empty.
        self.ack: PubAck | None = None

    @property
    def id(self) -> str:
        """The id that the stored messages carry as ``Nats-Batch-Id``."""
        return self._messages.id

    def __len__(self) -> int:
        return len(self._messages)

    def add(
        self,
        subject: str,
        payload: Event = b"",
        *,
        msg_id: str | None = None,
        **options: Unpack[MessageOptions],
    ) -> None:
        """One more message, with the options of ``publish``; nothing is sent yet.

        All subjects belong to one stream. Expectations compare with the stream before the batch. Raises ConfigError, also for
        a ``msg_id``, which no batch takes, MessageTooLarge and EventError.
        """
        self._messages.add(subject, payload, msg_id, options)

    def __enter__(self) -> Self:
        self._messages.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Commit. Raises the refusal of the batch, ConfigError if its subjects belong to several streams; RequestTimeout,
        after which it is stored as a whole or not at all."""
        if kind is not None:
            self._messages.give_up()
        else:
            self.ack = steps.run(self._messages.commit())
