"""The agreed conflicts with NATS as masks: each says which difference it explains, by its number in docs/rules/conflicts.md.

The first mask that explains a difference counts.
"""

from __future__ import annotations

from typing import Final

from tests.differ.consumer_masks import CONSUMER_MASKS
from tests.differ.message_masks import MESSAGE_MASKS
from tests.differ.moments import Mask
from tests.differ.pending_masks import PENDING_MASKS
from tests.differ.stream_masks import STREAM_MASKS

MASKS: Final[tuple[Mask, ...]] = (*STREAM_MASKS, *MESSAGE_MASKS, *CONSUMER_MASKS, *PENDING_MASKS)
