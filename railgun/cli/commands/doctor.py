"""``railgun doctor``: what is wrong, and what to do about it."""

from __future__ import annotations

import typer

from railgun.cli.doctor.findings import print_findings
from railgun.cli.options.cluster import Cluster
from railgun.cli.output import print_json
from railgun.cli.running import EXIT_WRONG, command


@command
def doctor(cluster: Cluster) -> None:
    """Examine Java, broker, permissions, topics, workers and transactions. Exit code 1 if something is wrong."""
    from railgun.cli.doctor.checks import examine

    if cluster.as_json:
        seen = list(examine(cluster))
        healthy = all(one.verdict != "wrong" for one in seen)
        print_json(
            {"server": cluster.address, "healthy": healthy, "findings": [one.as_object() for one in seen]}
        )
    else:
        seen = print_findings(examine(cluster))
    if any(one.verdict == "wrong" for one in seen):
        raise typer.Exit(EXIT_WRONG)
