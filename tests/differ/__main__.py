"""``python -m tests.differ``: the same random operations on nats-server and on railgun, compared answer by answer.

Every difference must be an agreed conflict (docs/rules/conflicts.md). The first that is not is minimised and printed, and the
exit code is 1; ``--keep-going`` collects them by kind.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.nats_server import NatsServer
from tests.differ.drivers import MemoryDriver, NatsDriver
from tests.differ.generator import sequence
from tests.differ.minimising import minimised
from tests.differ.operations import Operation, loads
from tests.differ.report import grouped, script
from tests.differ.running import Arena, Finding
from tests.differ.tables import table_cases

_PER_KIND = 3  # of one kind, no more than these are minimised


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differ", description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=2000, metavar="N", help="random sequences (2000)")
    parser.add_argument("--seed", default="1", help="another seed draws other sequences")
    parser.add_argument(
        "--first", type=int, default=0, metavar="N", help="begin with this sequence of the seed"
    )
    parser.add_argument("--no-tables", action="store_true", help="without the table cases")
    parser.add_argument("--keep-going", action="store_true", help="collect findings instead of stopping")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run this one sequence (JSON)")
    options = parser.parse_args(arguments)
    logging.getLogger("railgun").setLevel(logging.CRITICAL)  # what fails is in the answer
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server ends in order
    with _arena() as arena:
        run = _Run(arena, keep_going=options.keep_going)
        if options.replay is not None:
            run.all("replay", [loads(options.replay.read_text())])
        else:
            if not options.no_tables:
                run.all("table cases", list(table_cases()))
            last = options.first + options.sequences
            run.all(
                "sequences",
                [sequence(f"{options.seed}/{number}") for number in range(options.first, last)],
            )
    return run.summary()


@contextmanager
def _arena() -> Iterator[Arena]:
    with tempfile.TemporaryDirectory(prefix="railgun-differ-") as folder:
        server = NatsServer(Path(folder) / "nats").start()
        try:
            nats = NatsDriver(server.url)
            railgun = MemoryDriver()
            yield Arena(nats, railgun)
            railgun.close()
            nats.close()
        finally:
            server.stop()


class _Run:
    """Runs sequences, believes what comes again, and counts."""

    def __init__(self, arena: Arena, *, keep_going: bool) -> None:
        self._arena = arena
        self._keep_going = keep_going
        self._findings: dict[str, list[Finding]] = defaultdict(list)
        self._explained: Counter[str] = Counter()
        self._ran = self._operations = self._unsteady = 0
        self._begun = time.monotonic()

    def all(self, what: str, sequences: Sequence[list[Operation]]) -> None:
        for number, one in enumerate(sequences):
            if self._findings and not self._keep_going:
                return
            self._one(one)
            self._progress(what, number + 1, len(sequences))

    def _one(self, operations: list[Operation]) -> None:
        outcome = self._arena.run(operations)
        self._ran += 1
        self._operations += outcome.operations
        self._explained += outcome.explained
        finding = outcome.finding
        if finding is None:
            return
        if not self._arena.comes_again(finding):
            self._unsteady += 1
            return
        if len(self._findings[finding.kind]) < _PER_KIND:
            finding = minimised(finding, lambda attempt: self._arena.run(attempt).finding)
            print(f"\n\n{finding.kind}\n{script(finding)}", flush=True)
        self._findings[finding.kind].append(finding)

    def _progress(self, what: str, done: int, of: int) -> None:
        if done % 50 == 0 or done == of:
            found = sum(map(len, self._findings.values()))
            seconds = time.monotonic() - self._begun
            print(f"\r{what}: {done:,} of {of:,}, {found} findings, {seconds:.0f} s", end="", flush=True)

    def summary(self) -> int:
        seconds = time.monotonic() - self._begun
        print(f"\n\n{self._ran:,} sequences, {self._operations:,} operations in {seconds:.0f} s")
        for conflict, count in sorted(self._explained.items()):
            print(f"{count:>5}  differences are {conflict}")
        if self._unsteady:
            print(f"{self._unsteady:>5}  sequences differed once and not again (time)")
        if not self._findings:
            print("Every difference has its C-number.")
            return 0
        print(f"Differences that nothing explains, by kind:\n{grouped(self._findings)}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
