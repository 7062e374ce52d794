"""The ``railgun`` command. Each command or noun is a module of ``commands``; this module brings them together."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from railgun.cli import pipelines, tour
from railgun.cli.commands import (
    batch,
    consumer,
    counter,
    dlq,
    doctor,
    events,
    init,
    kv,
    publish,
    stream,
    subscribe,
    up,
    worker,
)
from railgun.cli.sinks import sink
from railgun.errors import RailgunError

# Habits of those who come from the `nats` command.
_SHORT: Final = {"str": "stream", "s": "stream", "con": "consumer", "c": "consumer"}


class Root(TyperGroup):
    """The commands, which some know by shorter names."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, _SHORT.get(cmd_name, cmd_name))


app = typer.Typer(
    name="railgun",
    cls=Root,
    help="Streams with subjects, acknowledgement and de-duplication on ordinary Kafka topics.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # `run` turns our errors into one line; anything else is a defect to be seen whole
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("up")(up.up)
app.command("worker")(worker.worker)
app.add_typer(stream.app, name="stream")
app.add_typer(consumer.app, name="consumer")
app.add_typer(counter.app, name="counter")
app.add_typer(kv.app, name="kv")
app.command("pub")(publish.pub)
app.command("batch")(batch.batch)
app.command("sub")(subscribe.sub)
app.command("req")(publish.req)
app.command("events")(events.events)
app.add_typer(dlq.app, name="dlq")
app.add_typer(pipelines.app, name="pipeline")
app.add_typer(sink.app, name="sink")
app.command("doctor")(doctor.doctor)
app.command("init")(init.init)
app.command("tour")(tour.tour)


def _show_version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"railgun {version('railgun')}")
        except PackageNotFoundError:
            typer.echo("railgun (not installed)")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Options that come before the command."""


def run() -> None:
    """The console script: an error of ours is one line on stderr and exit code 1; Ctrl-C is 130, without a trace."""
    try:
        app()
    except RailgunError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run()
