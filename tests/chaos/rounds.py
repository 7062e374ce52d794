"""Which torments come, and in which order: all of it from one seed.

``RAILGUN_CHAOS_SEED`` chooses the seed (a new one each time, printed), ``RAILGUN_CHAOS_ROUNDS``,
``RAILGUN_CHAOS_CONSUMER_ROUNDS``, ``RAILGUN_CHAOS_SOURCING_ROUNDS`` and ``RAILGUN_CHAOS_BUCKET_ROUNDS`` how many rounds there are (3), and
``RAILGUN_CHAOS_PIPELINE_ROUNDS`` and ``RAILGUN_CHAOS_SINK_ROUNDS`` how many with each pipeline that writes, and with a sink (1).
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable
from typing import Final

SEED: Final = int(os.environ.get("RAILGUN_CHAOS_SEED") or secrets.randbelow(2**31))
ROUNDS: Final = int(os.environ.get("RAILGUN_CHAOS_ROUNDS", "3"))
CONSUMER_ROUNDS: Final = int(os.environ.get("RAILGUN_CHAOS_CONSUMER_ROUNDS", "3"))
SOURCING_ROUNDS: Final = int(os.environ.get("RAILGUN_CHAOS_SOURCING_ROUNDS", "3"))
BUCKET_ROUNDS: Final = int(os.environ.get("RAILGUN_CHAOS_BUCKET_ROUNDS", "3"))
PIPELINE_ROUNDS: Final = int(os.environ.get("RAILGUN_CHAOS_PIPELINE_ROUNDS", "1"))
SINK_ROUNDS: Final = int(os.environ.get("RAILGUN_CHAOS_SINK_ROUNDS", "1"))
BEHIND: Final = 0.3  # seconds: some moment of a batch


def turn_of(number: int, kinds: int, salt: str = "") -> int:
    """Which of so many torments a round brings: all of them in a shuffled order, then again in another."""
    order = list(range(kinds))
    random.Random(f"{SEED}{salt}-{number // kinds}").shuffle(order)
    return order[number % kinds]


def dice_of(number: int, salt: str = "") -> random.Random:
    """What else is left to chance in a round."""
    return random.Random(f"{SEED}{salt}+{number}")


def any_moment_behind(reached: Callable[[], bool], dice: random.Random) -> Callable[[], bool]:
    """True from some moment on behind the one at which a condition came true."""
    delay, due = dice.uniform(0, BEHIND), None

    def now() -> bool:
        nonlocal due
        if due is None and reached():
            due = time.monotonic() + delay
        return due is not None and time.monotonic() >= due

    return now
