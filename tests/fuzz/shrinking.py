"""Making a history that fails as short as it gets."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence

from tests.fuzz.operations import Operation
from tests.fuzz.player import Difference, Player


def failure(history: Sequence[Operation]) -> str | None:
    """What goes wrong, None if nothing does."""
    try:
        Player().play(history)
    except Difference as difference:
        return f"Difference: {difference}"
    except Exception:  # noqa: BLE001 - whatever escapes is what the fuzz is looking for
        return traceback.format_exc()
    return None


def shortened(history: Sequence[Operation], seconds: float = 120.0) -> list[Operation]:
    """The history without whatever it still fails without, as far as the time allows."""
    end = time.monotonic() + seconds
    kept = list(history)
    size = max(len(kept) // 2, 1)
    while True:
        at, removed = 0, False
        while at < len(kept) and time.monotonic() < end:
            shorter = kept[:at] + kept[at + size :]
            if failure(shorter) is not None:
                kept, removed = shorter, True
            else:
                at += size
        if time.monotonic() >= end or (size == 1 and not removed):
            return kept
        size = max(size // 2, 1)
