"""``python -m tests.soak``: run, measure, judge. Exit code 1 if something grows, or a message was lost, doubled or unanswered.

``SOAK_MINUTES`` says how long (30), ``SOAK_OUT`` where samples, plot and the workers' logs go (.railgun/soak).
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.chaos.cluster import PREFIX
from tests.soak.cluster import TAKEOVER_EVERY, SoakCluster
from tests.soak.load import UNANSWERED_SECONDS, Activity, activities
from tests.soak.plot import draw
from tests.soak.samples import Sample, take, write
from tests.soak.verdict import SHORTEST, trends

MINUTES: Final = float(os.environ.get("SOAK_MINUTES") or 30)
OUT: Final = Path(os.environ.get("SOAK_OUT") or ".railgun/soak").absolute()
SAMPLE_EVERY: Final = 30.0


def run(minutes: float, out: Path) -> int:
    """The exit code."""
    shutil.rmtree(out / "cluster", ignore_errors=True)
    cluster = SoakCluster(out / "cluster")
    samples: list[Sample] = []
    try:
        cluster.start()
        load = activities(cluster.broker.bootstrap, PREFIX)
        for activity in load:
            activity.start()
        _drive(cluster, load, samples, minutes * 60)
        faults = _finish(load)
    finally:
        cluster.stop()
    if samples:
        write(samples, out / "samples.csv")
        draw(samples, out / "samples.png")
    shutil.rmtree(out / "cluster" / "broker", ignore_errors=True)  # large, and told already
    return _say(samples, load, faults, out)


def _drive(cluster: SoakCluster, load: Sequence[Activity], samples: list[Sample], seconds: float) -> None:
    """Takeovers and samples, by turns, while the load goes on."""
    began = time.monotonic()
    every = min(SAMPLE_EVERY, seconds / 12)
    next_sample, next_takeover = every, TAKEOVER_EVERY
    taken = {
        "kill -9": 0.0,
        "SIGTERM": 0.0,
    }  # by how the worker ended: a dead one is missed only after its session
    while (now := time.monotonic() - began) < seconds and not any(one.faults for one in load):
        if now >= next_takeover:
            next_takeover += TAKEOVER_EVERY
            cluster.await_members()
            started = time.monotonic()
            done = cluster.take_over()
            cluster.await_answers()
            seconds_taken = time.monotonic() - started
            taken[done.partition(" of ")[0]] = seconds_taken
            print(f"{now / 60:6.1f} min  {done}: every shard answers after {seconds_taken:.1f} s", flush=True)
        elif now >= next_sample:
            next_sample = now + every
            sample = take(cluster, now)
            sample |= {f"takeover after {how}, s": value for how, value in taken.items()}
            samples.append(sample)
            told = ", ".join(
                f"{name} {sample[name]:.4g}" for name in ("table entries", "changelog records", "restore, s")
            )
            print(f"{now / 60:6.1f} min  {told}, {sum(one.done for one in load)} operations", flush=True)
        else:
            time.sleep(0.2)


def _finish(load: Sequence[Activity]) -> list[str]:
    """End the load; all that went wrong."""
    faults: list[str] = []
    for activity in load:
        activity.ending.set()
        activity.join(4 * UNANSWERED_SECONDS)
        if activity.is_alive():
            faults.append(f"{activity.name} does not end")
        faults += activity.faults
    return faults + load[0].ledger.faults


def _say(samples: Sequence[Sample], load: Sequence[Activity], faults: Sequence[str], out: Path) -> int:
    judged = samples[-1]["seconds"] >= SHORTEST if samples else False
    growing = []
    for trend in trends(samples) if samples else ():
        grows = judged and trend.grows
        growing += [trend.name] if grows else []
        mark = "GROWS" if grows else "flat" if judged else "-"
        print(f"{mark:>5}  {trend.name:<28} {trend.before:12.4g} → {trend.after:.4g}")
    if not judged:
        print(f"growth is not judged below {SHORTEST / 60:.0f} minutes: warming up looks the same")
    for activity in load:
        print(f"{activity.name}: {activity.done} operations")
    for fault in faults[:20]:
        print(f"FAULT  {fault}")
    print(f"samples and plot: {out}")
    verdict = "faults" if faults else f"growing: {', '.join(growing)}" if growing else "all is well"
    print(f"soak: {verdict}")
    return 1 if faults or growing else 0


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    sys.exit(run(MINUTES, OUT))
