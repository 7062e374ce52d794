"""The publishes of a transaction as its message's handler collects them, and its end as steps (EXO-08).

Everything leaves in one command to the owner of the message's consumer, which acknowledges the message and passes the publishes on,
in one transaction of Kafka.
"""

from __future__ import annotations

from typing import Final

from railgun.avro.events import Events, Unframed
from railgun.client.consuming.delivery import Delivery
from railgun.client.consuming.handing import LARGEST_TOGETHER
from railgun.client.publishing.arguments import Event, MessageOptions, message_headers, outgoing
from railgun.client.publishing.pack_codec import encode_pack
from railgun.client.publishing.packs import PACK_BYTES, message_size
from railgun.client.steps import Blocking, Steps, waitable
from railgun.errors import ConfigError, MessageTooLarge
from railgun.model import headers as h
from railgun.model.cluster_limits import HANDED_OVER_AT_ONCE, LARGEST_BODY
from railgun.model.headers import HeaderList
from railgun.model.subjects import is_literal
from railgun.protocol.commands import PublishPack

_LARGEST: Final = LARGEST_BODY - 64 * 1024  # bytes of all packs: acknowledgements may travel with them
_OF_BATCHES = frozenset({h.BATCH_ID, h.BATCH_SEQUENCE, h.BATCH_COMMIT})


class HandedMessages:
    """The publishes of one transaction, until they are handed over or given up."""

    def __init__(self, delivery: Delivery, timeout: float | None) -> None:
        """Raises ConfigError for a time that nobody can wait."""
        self._delivery = delivery
        self._events = delivery._events or Events()
        self._timeout = None if timeout is None else waitable(timeout)
        self._messages: list[tuple[str, str, HeaderList, bytes]] = []  # subject, id, headers, payload
        self._size = 0  # bytes of them, about
        self._state = "new"

    def __len__(self) -> int:
        return len(self._messages)

    def open(self) -> None:
        """Begin to collect. Raises ConfigError the second time, AlreadyAcknowledged if the message is resolved."""
        if self._state != "new":
            raise ConfigError("this transaction was used before: begin another with message.transaction()")
        if self._delivery.acknowledged:
            raise self._delivery._refusal()
        self._state = "open"

    def add(self, subject: str, payload: Event, msg_id: str | None, options: MessageOptions) -> None:
        """One more publish. Raises ConfigError for what no transaction takes, MessageTooLarge."""
        if self._state != "open":
            raise ConfigError(
                "publish inside the block of the transaction: with message.transaction() as t: …"
            )
        if len(self._messages) >= HANDED_OVER_AT_ONCE:
            raise ConfigError(f"a transaction publishes {HANDED_OVER_AT_ONCE:,} messages at most")
        headers = message_headers(options) if options else []
        if any(name in _OF_BATCHES for name, _ in headers):
            raise ConfigError("a transaction takes no messages of a batch: it is all or nothing by itself")
        data, given = outgoing(self._events, payload, headers)
        headers = given or []
        self._size += message_size(subject, data, msg_id or "", headers)
        self._messages.append((subject, msg_id or "", headers, data))

    def give_up(self) -> None:
        """Nothing of it was sent, and nothing will be; the message is not acknowledged."""
        self._state, self._messages = "over", []

    def commit(self) -> Steps[None]:
        """Acknowledge the message and publish, all or nothing. Raises why not; after a RequestTimeout that is not known."""
        messages, self._messages, self._state = self._messages, [], "over"
        box = self._delivery._box
        if self._delivery.acknowledged or box is None:
            raise self._delivery._refusal()
        if any(type(message[3]) is Unframed for message in messages):
            finish = self._events.finish
            messages = yield Blocking(lambda: [(*rest, finish(payload)) for *rest, payload in messages])
        link = box.hub.link
        limit = link.timeout if self._timeout is None else self._timeout
        streams: dict[str, str] = {}  # by subject
        for subject in dict.fromkeys(message[0] for message in messages):
            known = link.captured_by(subject) if is_literal(subject) else ""
            streams[subject] = known or (
                yield Blocking(lambda subject=subject: link.find_capturing(subject, limit))  # type: ignore[misc]
            )
        packs = _packs(messages, streams)
        size = self._size
        if size > LARGEST_TOGETHER:
            size = sum(len(encode_pack(pack)) for pack in packs)
        if size > _LARGEST:
            raise MessageTooLarge(
                f"a transaction of {size} bytes is too large: all its messages together may have {_LARGEST} bytes at "
                "most; nothing was sent"
            )
        yield from self._delivery._hand_over(packs, size, self._timeout)


def _packs(messages: list[tuple[str, str, HeaderList, bytes]], streams: dict[str, str]) -> list[PublishPack]:
    """The messages by stream, in their order, in packs that are not larger than a client's others."""
    packs: list[PublishPack] = []
    filling: dict[str, tuple[PublishPack, int]] = {}  # by stream: the pack that takes more, and its bytes
    for subject, msg_id, headers, payload in messages:
        stream = streams[subject]
        size = message_size(subject, payload, msg_id, headers)
        pack, held = filling.get(stream) or (None, 0)
        if pack is None or held + size > PACK_BYTES:
            pack, held = PublishPack(stream, "", 0, [], [], [], []), 0
            packs.append(pack)
        pack.subjects.append(subject)
        pack.ids.append(msg_id)
        pack.headers.append(headers)
        pack.payloads.append(payload)
        filling[stream] = pack, held + size
    return [
        pack._replace(
            ids=pack.ids if any(pack.ids) else [], headers=pack.headers if any(pack.headers) else []
        )
        for pack in packs
    ]
