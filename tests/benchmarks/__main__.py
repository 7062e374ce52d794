"""``python -m tests.benchmarks [--quick] [--only NAME …] [--update] [--out DIR]``: measure, print the table, write the page.

A whole run writes ``latest.json``, ``README.md`` and the plot into docs/benchmarks. One that was cut short (``--quick``,
``--only``) prints its table and writes only where ``--out`` says; with ``--update`` the rows that it has measured take the place of
those of the last whole run there, and the page says which. Exit code 1 when a row could not be measured.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.benchmarks.arena import Arena
from tests.benchmarks.contest import Row, measure
from tests.benchmarks.machine import machine, versions
from tests.benchmarks.plot import draw
from tests.benchmarks.render import markdown_page, text_table
from tests.benchmarks.results import Report, Result
from tests.benchmarks.rows import GOALS, ROWS
from tests.benchmarks.scale import FULL, QUICK, Scale

PLOT: Final = "latest.svg"
LATEST: Final = "latest.json"
_DOCS: Final = Path(__file__).parents[2] / "docs" / "benchmarks"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small counts, two minutes: to try it")
    parser.add_argument("--only", nargs="+", metavar="NAME", help=", ".join(row.key for row in ROWS))
    parser.add_argument(
        "--update", action="store_true", help="with --only: put these rows into the results that are there"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help=f"where results are written; else {_DOCS}")
    options = parser.parse_args(arguments)
    unknown = set(options.only or ()) - {row.key for row in ROWS}
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    if options.update and (options.quick or options.only is None):
        parser.error("--update goes with --only, and without --quick")
    rows = [row for row in ROWS if options.only is None or row.key in options.only]
    partly = options.quick or (options.only and not options.update)
    out = options.out or (None if partly else _DOCS)
    before = Report.from_json((out / LATEST).read_text(encoding="utf-8")) if options.update else None

    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # so that everything that was started ends in order
    report = run(rows, QUICK if options.quick else FULL)
    print(text_table(report, GOALS))
    if options.quick:
        print(
            f"A quick run, to try it: {QUICK.many:,} stored where a row says {FULL.many:,}; goals are not judged by it."
        )
    if out is not None:
        write(report if before is None else before.renewed(report, [row.name for row in ROWS]), out)
    return 1 if report.missing else 0


def run(rows: Sequence[Row], scale: Scale) -> Report:
    """Measure the rows. One that fails is told and left out; the others are measured."""
    results: list[Result] = []
    missing: dict[str, str] = {}
    begin = time.monotonic()
    with Arena() as arena:
        for row in rows:
            _say(f"[{time.monotonic() - begin:4.0f} s] {row.name}")
            try:
                results += measure(row, arena, scale, _say)
            except Exception as error:  # noqa: BLE001 - the other rows go on; the exit code tells
                traceback.print_exc()
                missing[row.name] = f"{type(error).__name__}: {error}"
    _say(f"[{time.monotonic() - begin:4.0f} s] done")
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return Report(date, machine(), versions(), tuple(results), missing)


def write(report: Report, out: Path) -> None:
    """The results as JSON, as a page and as a picture."""
    out.mkdir(parents=True, exist_ok=True)
    (out / LATEST).write_text(report.to_json(), encoding="utf-8")
    (out / "README.md").write_text(markdown_page(report, GOALS, PLOT), encoding="utf-8")
    draw(report, out / PLOT)
    _say(f"written to {out}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
