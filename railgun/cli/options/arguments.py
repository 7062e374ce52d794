"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from railgun.cli.options.completion import known_streams

StreamName = Annotated[
    str, typer.Argument(metavar="STREAM", help="The stream's name.", autocompletion=known_streams)
]
Force = Annotated[
    bool, typer.Option("--force", "-f", help="Do not ask; needed without a terminal, and with --json.")
]
