"""The state of a sink as Connect tells it, in one word, with the reason of each task that failed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from railgun.sinks.stream_sink import INCARNATION, STREAM

RUNNING: Final = "RUNNING"
FAILED: Final = "FAILED"
STARTING: Final = "STARTING"
_CAUSE: Final = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_LONGEST_REASON: Final = 500
# Where a trace speaks of something else than what is wrong.
_MEANINGS: Final = {
    "Unable to determine Dialect without JDBC metadata": "the database does not answer at its address, or refuses the account",
}


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task of a sink; ``reason`` is empty unless it failed."""

    number: int
    state: str
    worker: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """A sink as it is now: ``RUNNING``, ``FAILED``, ``PAUSED``, ``STOPPED``, ``UNASSIGNED``, ``RESTARTING`` or ``STARTING``."""

    name: str
    stream: str
    incarnation: int
    connector_class: str
    connector: TaskStatus  # the connector itself, which starts the tasks
    tasks: tuple[TaskStatus, ...]

    @property
    def state(self) -> str:
        """The state of all together: one task that failed is enough."""
        states = [self.connector.state, *(task.state for task in self.tasks)]
        if FAILED in states:
            return FAILED
        if self.connector.state != RUNNING:
            return self.connector.state
        if not self.tasks:
            return STARTING
        return next((state for state in states if state != RUNNING), RUNNING)

    @property
    def reason(self) -> str:
        """The reason of the first failure; empty if there is none."""
        return next((one.reason for one in (self.connector, *self.tasks) if one.state == FAILED), "")

    def as_object(self) -> dict[str, Any]:
        """The status for machines."""
        return {
            "name": self.name,
            "state": self.state,
            "stream": self.stream,
            "incarnation": self.incarnation,
            "class": self.connector_class,
            "reason": self.reason,
            "tasks": [
                {"id": one.number, "state": one.state, "worker": one.worker, "reason": one.reason}
                for one in self.tasks
            ],
        }


def status_of(config: Mapping[str, str], told: Mapping[str, Any]) -> SinkStatus:
    """The status from a connector's configuration and what Connect tells of it."""
    connector = told.get("connector") or {}
    number = str(config.get(INCARNATION, ""))
    return SinkStatus(
        name=str(config.get("name", told.get("name", ""))),
        stream=config.get(STREAM, ""),
        incarnation=int(number) if number.isdecimal() else 0,
        connector_class=config.get("connector.class", ""),
        connector=_one(-1, connector),
        tasks=tuple(_one(task.get("id", 0), task) for task in told.get("tasks") or ()),
    )


def _one(number: int, told: Mapping[str, Any]) -> TaskStatus:
    return TaskStatus(
        number,
        str(told.get("state", STARTING)),
        str(told.get("worker_id", "")),
        reason_in(str(told.get("trace") or "")),
    )


def reason_in(trace: str) -> str:
    """The first line of a stack trace and, if that is another one, its innermost cause; in words where both mislead."""
    for sign, meaning in _MEANINGS.items():
        if sign in trace:
            return meaning
    first = trace.strip().partition("\n")[0].strip()
    causes = _CAUSE.findall(trace)
    text = f"{first} ({causes[-1].strip()})" if causes and causes[-1].strip() not in first else first
    return text if len(text) <= _LONGEST_REASON else text[: _LONGEST_REASON - 1] + "…"
