"""Connections that are open, so that the end of the interpreter closes them and a forked child leaves them alone."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol

from railgun.client import settlements


class Closable(Protocol):
    """A connection that is closed at the end of the interpreter."""

    def close(self) -> None:
        """Send what waits, then end."""

    def abandon(self) -> None:
        """In a forked child: end without touching what belongs to the parent."""


_open: weakref.WeakSet[Closable] = weakref.WeakSet()
_of_the_parent: list[
    Closable
] = []  # never collected: librdkafka's handles cannot be destroyed without their threads


def opened(connection: Closable) -> None:
    _open.add(connection)


def closed(connection: Closable) -> None:
    _open.discard(connection)


def _after_fork() -> None:
    settlements.renew_guard()
    for connection in list(_open):
        _of_the_parent.append(connection)
        connection.abandon()
    _open.clear()


def _at_exit() -> None:
    for connection in list(_open):
        connection.close()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
