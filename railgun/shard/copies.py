"""Copies of messages for other streams, on their way there in packs that fit into a record."""

from __future__ import annotations

from typing import Final

from railgun.model.headers import HeaderList, block_size
from railgun.protocol.commands import PublishPack

_PACK_BYTES: Final = 1024 * 1024  # a larger message travels alone
_MESSAGE_BYTES: Final = 300  # bytes of a message beside its parts, at most


class Copies:
    """Messages by stream, in their order."""

    def __init__(self) -> None:
        self._packs: list[PublishPack] = []
        # By stream: the pack that takes more, and its bytes.
        self._open: dict[str, tuple[PublishPack, int]] = {}

    def add(self, stream: str, subject: str, headers: HeaderList, payload: bytes) -> None:
        size = len(subject) + block_size(headers) + len(payload) + _MESSAGE_BYTES
        pack, held = self._open.get(stream) or (None, 0)
        if pack is None or held + size > _PACK_BYTES:
            pack, held = PublishPack(stream, "", 0, [], [], [], []), 0
            self._packs.append(pack)
        pack.subjects.append(subject)
        pack.headers.append(headers)
        pack.payloads.append(payload)
        self._open[stream] = pack, held + size

    def take(self) -> list[PublishPack]:
        """All packs; none is left."""
        packs, self._packs, self._open = self._packs, [], {}
        return packs
