"""Writes the sync twins of the facade; with ``--check`` it only compares, names what differs, and fails."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.support.checkout import TOP
from tests.twins.rooms import FACADE, different, write
from tests.twins.translation import Untranslatable


def main(arguments: list[str] | None = None, facade: Path = FACADE) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.twins", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a twin differs")
    check = parser.parse_args(arguments).check
    try:
        if not check:
            write(facade)
            return 0
        wrong = different(facade)
    except Untranslatable as error:
        print(error, file=sys.stderr)
        return 1
    for path in wrong:
        shown = path.relative_to(TOP) if path.is_relative_to(TOP) else path
        print(f"{shown} is not the twin of its async module: run `make twins`", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
