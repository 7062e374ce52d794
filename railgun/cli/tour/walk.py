"""The common part of the tour's steps: the names they use, how they speak, how they check and wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rich.console import Console

from railgun.cli.options.units import show_duration
from railgun.errors import RailgunError, StreamNotFound

if TYPE_CHECKING:
    from railgun.client.facade.railgun import Railgun
    from railgun.client.facade.sync.consumer import Consumer
    from railgun.client.facade.sync.listener import Listener
    from railgun.client.facade.sync.message import Message
    from railgun.client.facade.sync.stream import Stream

MARK: Final = {"railgun-tour": "remove me"}
SLACK: Final = 10.0  # seconds; how much later than due a timer may be seen to act
SIDE_STREAMS: Final = (
    "RECENT",
    "SESSIONS",
    "COUNTER",
    "SUM",
    "QUEUE",
)  # what is made beside the main one: NAME_RECENT …
BUCKET: Final = "CONFIG"  # a bucket beside them


class TourFailed(RailgunError):
    """A step of the tour did not show what it promises."""


class Walk:
    """One walk through a connected cluster. ``stream`` is the main stream's name, and what its subjects begin with."""

    def __init__(self, rg: Railgun, out: Console, real_time: bool) -> None:
        self.rg, self.out, self.real_time = rg, out, real_time
        self.stream = "ORDERS"
        self._step = 0

    # -- time

    def scaled(self, real: timedelta, short: timedelta) -> timedelta:
        """The duration of a wait here: as long as the story says, or a fraction of it."""
        return real if self.real_time else short

    def pause(self, wait: timedelta, why: str = "waiting") -> None:
        self.out.print(f"     [dim]… {why} {show_duration(wait)}[/]")
        time.sleep(wait.total_seconds())

    # -- speech

    def title(self, text: str) -> None:
        self._step += 1
        self.out.print(f"\n[bold]{self._step}. {text}[/]")

    def say(self, line: str) -> None:
        """A command that does what comes next."""
        self.out.print("   [cyan]$[/] ", end="")
        self.out.print(line, style="cyan", markup=False)

    def shown(self, *lines: str) -> None:
        for line in lines:
            self.out.print(f"     {line}", markup=False)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            raise TourFailed(f"the tour did not show that {what}")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for what comes by itself, a moment later."""
        deadline = time.monotonic() + SLACK
        while not holds():
            self.expect(time.monotonic() < deadline, what)
            time.sleep(0.02)

    def receive(self, source: Consumer | Listener, name: str, text: str, wait: float = SLACK) -> Message:
        """The next message of a consumer or listener, which must have this text."""
        message = source.next(wait=wait)
        if message is None:
            raise TourFailed(f"the tour did not show that {name} gets {text!r}")
        self.expect(message.text == text, f"{name} gets {text!r}, and not {message.text!r}")
        return message

    # -- streams

    def side(self, suffix: str) -> str:
        """The name of a stream beside the main one."""
        return f"{self.stream}_{suffix}"

    def anew(self) -> Stream:
        """The main stream, empty, as if there had been none before."""
        if self._exists(self.stream):
            self.rg.delete_stream(self.stream)
        return self.rg.create_stream(self.stream, subjects=[f"{self.stream}.*"], metadata=MARK)

    def choose_names(self) -> None:
        """The story's names, unless this cluster uses them: then others of the same length, and so of the same bytes."""
        for name in ("ORDERS", *(f"TOUR_{letter}" for letter in "ABCDEFGH")):
            wanted = (name, *(f"{name}_{suffix}" for suffix in SIDE_STREAMS))
            taken = any(self.rg.streams(subject=f"{one}.*") or self._exists(one) for one in wanted)
            if not taken and not self._exists(f"KV_{name}_{BUCKET}"):
                self.stream = name
                return
        raise TourFailed("the names of the tour are all taken: remove the streams TOUR_A to TOUR_H")

    def remove_own(self) -> None:
        """Every stream that carries the mark, all at once: each removal waits for Kafka to drop a topic."""
        own = [
            info.config.name
            for info in self.rg.streams()
            if (info.config.metadata or {}).get("railgun-tour") == MARK["railgun-tour"]
        ]
        if own:
            with ThreadPoolExecutor(len(own)) as pool:
                list(pool.map(self.rg.delete_stream, own))

    def _exists(self, name: str) -> bool:
        try:
            self.rg.stream(name).info()
        except StreamNotFound:
            return False
        return True
