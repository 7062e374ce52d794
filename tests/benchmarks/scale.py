"""How much work a run does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PAYLOAD: Final = b"x" * 128
AT_ONCE: Final = 256  # requests in the air where a row says "at once"


@dataclass(frozen=True)
class Scale:
    """Counts of one run. Every side of a row does the same amount of work in a round."""

    rounds: int
    pipelined: int  # messages of one round
    one_by_one: int
    gets: int
    puts: int  # and gets, of keys
    consumed: int  # messages that a consumer gets in one round
    iterated: int  # the same where it iterates
    sparse: int  # stored, of which a filter wants one in a hundred
    in_flight: int  # delivered and not acked
    fetches: int  # of ten messages, in a growth row
    few: int  # messages stored in the small stream of a growth row …
    many: int  # … and in the large one
    updates: int  # of one key
    changelog: int  # records of a restore
    takeovers: int


FULL: Final = Scale(
    rounds=5,
    pipelined=80_000,
    one_by_one=200,
    gets=256,
    puts=10_240,
    consumed=50_000,
    iterated=200_000,
    sparse=200_000,
    in_flight=10_000,
    fetches=100,
    few=1_000,
    many=1_000_000,
    updates=10_000_000,
    changelog=300_000,
    takeovers=3,
)
QUICK: Final = Scale(
    rounds=2,
    pipelined=20_000,
    one_by_one=50,
    gets=256,
    puts=2_560,
    consumed=10_000,
    iterated=40_000,
    sparse=20_000,
    in_flight=5_000,
    fetches=50,
    few=1_000,
    many=50_000,
    updates=200_000,
    changelog=50_000,
    takeovers=1,
)
