"""Why a sink cannot be applied, or does not run.

::

    RailgunError
    ├── ConnectionLost
    │   └── ConnectUnreachable   no Kafka Connect answers at the given address, or it stays busy
    └── SinkError                a sink (field ``sink``) is not in the state that was asked for
        ├── SinkNotFound         Connect has no connector of that name that was applied here
        ├── SinkRefused          Connect cannot run it as given, or the name is another's; nothing was changed
        └── SinkFailed           it was applied, and a task of it ended with an error (field ``reason``)
"""

from __future__ import annotations

from railgun.errors import ConnectionLost, RailgunError


class ConnectUnreachable(ConnectionLost):
    """No Kafka Connect answers at the given address, or it stays busy; whether the request counted is unknown."""


class SinkError(RailgunError):
    """A sink is not in the state that was asked for."""

    def __init__(self, sink: str, text: str) -> None:
        self.sink = sink
        super().__init__(text)


class SinkNotFound(SinkError):
    """Connect has no connector of that name that was applied here; nothing was changed."""

    def __init__(self, sink: str) -> None:
        super().__init__(sink, f"there is no sink {sink}: `railgun sink ls` lists them")


class SinkRefused(SinkError):
    """Connect cannot run the sink as given, or its name is that of another connector; nothing was changed."""


class SinkFailed(SinkError):
    """The sink is applied, but a task of it ended with an error. Nothing is lost: mend the reason, then restart it."""

    def __init__(self, sink: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            sink, f"the sink {sink} has failed: {reason} (mend it, then `railgun sink restart {sink}`)"
        )
