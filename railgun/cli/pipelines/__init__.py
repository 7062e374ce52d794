"""``railgun pipeline …``: archives, backfills, totals, audits and reports, on Spark.

The jobs are those of ``topologies/pipelines``, which a wheel carries as ``railgun._topologies``; what a job does and promises is in its own
module. Here are the arguments, the start of Spark, and what is printed.
"""

from __future__ import annotations

import typer

from railgun.cli.pipelines import judging, writing

app = typer.Typer(help="Archive, backfill, audit and sum up streams with Spark.", no_args_is_help=True)
app.command("archive")(writing.archive)
app.command("backfill")(writing.backfill)
app.command("totals")(writing.totals)
app.command("audit")(judging.audit)
app.command("dead-letters")(judging.dead_letters)
app.command("ack-latency")(judging.ack_latency)
