"""``python -m tests.rules [pytest arguments]``: run the tests that show rules, then print the rules that none shows."""

from __future__ import annotations

import sys

from tests import parts
from tests.rules.book import HERE, REPORT
from tests.rules.show import main as show

TESTS = HERE.parent


def main(arguments: list[str]) -> int:
    """Run in processes of their own, so that a crash of the tests still leaves the list. Its exit code is the tests'."""
    REPORT.unlink(missing_ok=True)
    chosen = arguments or [str(TESTS / room) for room in ("unit", "contract", "integration", "chaos")]
    code = parts.run(["-q", *chosen])
    return show() or code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
