"""Less noise in the log: while no broker answers, aiokafka logs the same three sentences thirty times a second."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

_EVERY: Final = 5.0  # seconds
_TALKATIVE: Final = (
    "aiokafka",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.consumer.fetcher",
    "aiokafka.consumer.group_coordinator",
)


class RepeatFilter(logging.Filter):
    """Lets the same sentence of the same logger through once in a while, with how often it was held back."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._said: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        sentence, now = (record.name, str(record.msg)), time.monotonic()
        with self._lock:
            last, held = self._said.get(sentence, (float("-inf"), 0))
            if now - last < _EVERY:
                self._said[sentence] = (last, held + 1)
                return False
            self._said[sentence] = (now, 0)
        if held:
            record.msg = f"{record.msg} (and {held} times before)"
        return True


def limit_repeats() -> None:
    """Once per process."""
    for name in _TALKATIVE:
        logger = logging.getLogger(name)
        if not any(isinstance(one, RepeatFilter) for one in logger.filters):
            logger.addFilter(RepeatFilter())
