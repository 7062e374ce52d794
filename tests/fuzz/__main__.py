"""``python -m tests.fuzz [--seconds N] [--seed N]``: histories from fresh seeds until the time is over, or one of them fails."""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.fuzz.operations import history
from tests.fuzz.shrinking import failure, shortened


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--length", type=int, default=150, help="operations in a history")
    parser.add_argument("--seed", type=int, help="play only this history")
    chosen = parser.parse_args()
    end, played = time.monotonic() + chosen.seconds, 0
    while played == 0 or (chosen.seed is None and time.monotonic() < end):
        seed = random.SystemRandom().randrange(1 << 48) if chosen.seed is None else chosen.seed
        played += 1
        operations = history(seed, chosen.length)
        if failure(operations) is not None:
            print(
                f"seed {seed} fails: python -m tests.fuzz --seed {seed} --length {chosen.length}", flush=True
            )
            short = shortened(operations)
            print("shortest history:")
            for operation in short:
                print(f"    {operation},")
            print(failure(short))
            return 1
    print(f"{played} histories, no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
