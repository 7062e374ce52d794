"""Which process of ``make test`` gets which file next. A plugin of pytest, for pytest-xdist.

Files of one suite share what takes long to start: Spark, Connect and PostgreSQL, a worker. So a process goes on with the suite
that it has begun, and begins one that no other has; only when there is none left it helps another process with its own, and
first with the suite that is the cheapest to begin.
Suites come in the order of :data:`SUITES`: those with long tests first, and short tests last, so that all processes end at about
the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadFileScheduling

SUITES: Final = (
    ("tests/pipelines/", "tests/spark/"),
    ("tests/docs/", "tests/sinks/"),
    ("tests/contract/",),
    ("tests/integration/",),
)
LAST: Final = len(SUITES)
"""The number of the suite of all other files, which share nothing."""


def suite_of(file: str) -> int:
    """The place of the file's suite in :data:`SUITES`."""
    return next((at for at, folders in enumerate(SUITES) if file.startswith(folders)), LAST)


def next_file(waiting: Iterable[str], begun: Collection[int], begun_by_others: Collection[int]) -> str:
    """The file that a process gets, which has begun these suites while others have begun those."""

    def turn(file: str) -> tuple[int, int]:
        suite = suite_of(file)
        if suite == LAST:
            return 3, suite
        if suite in begun:
            return 0, suite
        return (2, -suite) if suite in begun_by_others else (1, suite)

    return min(waiting, key=turn)  # of equals the first


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """The scheduler of ``--dist=loadfile``, with another order."""
    if config.option.dist != "loadfile":
        return None

    from xdist.scheduler import LoadFileScheduling

    class BySuite(LoadFileScheduling):
        def _assign_work_unit(self, node: Any) -> None:
            begun = {one: {suite_of(file) for file in files} for one, files in self.assigned_work.items()}
            mine = begun.pop(node, set())
            chosen = next_file(self.workqueue, mine, set().union(*begun.values()))
            self.workqueue.move_to_end(chosen, last=False)
            super()._assign_work_unit(node)

    return BySuite(config, log)
