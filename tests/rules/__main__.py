"""``python -m tests.rules [pytest arguments]``: run the tests that show rules, then print the rules that none shows."""

from __future__ import annotations

import subprocess
import sys

from tests.rules.book import HERE, REPORT
from tests.rules.show import main as show

TESTS = HERE.parent


def main(arguments: list[str]) -> int:
    """Run in a process of its own, so that a crash of the tests still leaves the list. Its exit code is the tests'."""
    REPORT.unlink(missing_ok=True)
    chosen = arguments or [str(TESTS / room) for room in ("unit", "contract", "integration", "chaos")]
    ran = subprocess.run([sys.executable, "-m", "pytest", "-q", *chosen], cwd=TESTS.parent, check=False)
    return show() or ran.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
