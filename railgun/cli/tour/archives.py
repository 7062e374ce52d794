"""The tour's last part, when asked for: a stream as Parquet files, and an audit of its log, with Spark."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from railgun.cli.options.cluster import Cluster
from railgun.cli.pipelines.starting import SparkFlags, job, require_spark
from railgun.cli.tour.walk import Walk

ORDERS: Final = 300
GONE: Final = 17  # the sequence of an order that is removed


def check_spark(cluster: Cluster) -> None:
    """Raises ConfigError, before the tour begins, if this part of it could not run."""
    require_spark()
    cluster.settings()  # refuses memory://, which has no log that Spark could read


def archive_and_audit(walk: Walk, cluster: Cluster) -> None:
    """A stream with a gap, archived and audited by the jobs of ``topologies/pipelines``."""
    walk.title("Spark: an archive of a stream, and an audit of its log")
    orders = walk.anew()
    walk.say(f"railgun pub {walk.stream}.new 'order {{{{Count}}}}' --count {ORDERS}")
    for number in range(1, ORDERS + 1):
        walk.rg.publish_soon(f"{walk.stream}.new", f"order {number}")
    walk.rg.flush()
    walk.say(f"railgun stream rmm {walk.stream} {GONE}")
    orders.delete_message(GONE)
    flags = SparkFlags()
    with tempfile.TemporaryDirectory(prefix="railgun-tour-") as folder:
        target = str(Path(folder) / "orders")
        walk.say(f"railgun pipeline archive {walk.stream} {target}")
        walk.out.print("     [dim]… starting Spark[/]")
        with flags.session():  # one for both jobs
            with job("archive", cluster, flags) as ready:
                done = ready.run(ready.module.archive, walk.stream, target)
            walk.expect(done.messages == ORDERS - 1, f"the archive holds {ORDERS - 1} messages")
            walk.shown(str(done))
            walk.say(f"railgun pipeline audit {walk.stream}")
            with job("audit", cluster, flags) as ready:
                found = ready.run(ready.module.audit, walk.stream)
            walk.shown(*map(str, found.differences), str(found))
            walk.expect(not found.differences, "the log says what its owner says")
