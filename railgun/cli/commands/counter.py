"""``railgun counter …``: add to counters, read them, and list those of a stream."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from railgun.cli.options.arguments import StreamName
from railgun.cli.options.cluster import Cluster
from railgun.cli.output import console, print_json
from railgun.cli.running import command
from railgun.errors import MessageNotFound
from railgun.model.counters import Increment
from railgun.model.durations import rfc3339

if TYPE_CHECKING:
    from railgun.client.facade.railgun import Railgun
    from railgun.client.facade.sync.stream import Stream

app = typer.Typer(help="Add to counters, read them, and list those of a stream.", no_args_is_help=True)

_AT_ONCE: Final = 16  # totals that are asked for together: they share the drains of the owner

Subject = Annotated[str, typer.Argument(help="The counter: a subject of a stream with --allow-counter.")]


@app.command("add", context_settings={"ignore_unknown_options": True})  # -5 is a number
@command
def add(
    subject: Subject,
    cluster: Cluster,
    number: Annotated[int, typer.Argument(metavar="[N]", help="What to add; may be negative.")] = 1,
    msg_id: Annotated[
        str | None, typer.Option("--id", help="An id: a second add with it counts nothing.")
    ] = None,
) -> None:
    """Add a number to a counter, and print the new total."""
    with cluster.act() as rg:
        _tell(subject, rg.counter(subject).add(number, msg_id=msg_id), cluster.as_json)


@app.command("get")
@command
def get(
    subject: Subject,
    cluster: Cluster,
    history: Annotated[
        bool, typer.Option("--history", help="Print the increments that are still stored, oldest first.")
    ] = False,
) -> None:
    """Print the total of a counter; 0 where nothing was counted."""
    with cluster.connect() as rg:
        if not history:
            _tell(subject, rg.counter(subject).value(), cluster.as_json)
            return
        found = rg.counter(subject).history()
    if cluster.as_json:
        print_json([_increment_object(one) for one in found])
        return
    for one in found:
        typer.echo(f"{one.sequence:>12}  {rfc3339(one.time_ns)}  {one.increment:+d}  {one.total}")


@app.command("ls")
@command
def ls(
    stream: StreamName,
    cluster: Cluster,
    subject: Annotated[
        str, typer.Option(metavar="FILTER", help="Only counters on subjects that match this.")
    ] = ">",
) -> None:
    """List the counters of a stream with their totals; other subjects are left out."""
    with cluster.connect() as rg, ThreadPoolExecutor(_AT_ONCE, "railgun-counters") as pool:
        source = rg.stream(stream)
        names = sorted(_subjects(rg, stream, subject))
        found = zip(names, pool.map(partial(_newest, source), names), strict=True)
        totals = {one: newest.total for one, newest in found if newest is not None}
    if cluster.as_json:
        print_json([{"subject": one, "value": total} for one, total in totals.items()])
        return
    width = max(map(len, totals), default=0)
    out = console()
    for one, total in totals.items():
        out.print(f"{one:<{width}}  {total}", markup=False)


def _subjects(rg: Railgun, stream: str, chosen: str) -> set[str]:
    """The subjects of a stream that match: an answer holds a page of them."""
    info = rg.stream(stream).info(subjects=chosen)
    found, total = set(info.state.subjects or ()), info.raw.get("total", 0)
    while len(found) < total:
        asked = json.dumps({"subjects_filter": chosen, "offset": len(found)})
        page = rg.request(f"STREAM.INFO.{stream}", asked)[0].json().get("state", {}).get("subjects") or {}
        if found.issuperset(page):  # some are gone meanwhile
            break
        found.update(page)
    return found


def _newest(stream: Stream, subject: str) -> Increment | None:
    """The newest increment of a subject; None if it is not a counter, or is gone meanwhile."""
    try:
        message = stream.get_last(subject)
    except MessageNotFound:
        return None
    return Increment.of(message.sequence, message)


def _tell(subject: str, total: int, as_json: bool) -> None:
    if as_json:
        print_json({"subject": subject, "value": total})
    else:
        typer.echo(str(total))


def _increment_object(one: Increment) -> dict[str, Any]:
    return {
        "sequence": one.sequence,
        "time": rfc3339(one.time_ns),
        "increment": one.increment,
        "total": one.total,
    }
