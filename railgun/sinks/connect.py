"""Sinks on one Kafka Connect: applied, looked at, paused, restarted, removed."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, Final

from railgun.client.facade.railgun import Railgun
from railgun.sinks.errors import SinkError, SinkFailed, SinkNotFound, SinkRefused
from railgun.sinks.live import incarnation_for, make_dead_letter_topic, transport_of
from railgun.sinks.rest import Query, Refusal, Rest
from railgun.sinks.secrets import ADVICE, is_reference
from railgun.sinks.status import FAILED, RUNNING, SinkStatus, status_of
from railgun.sinks.stream_sink import PREFIX, STREAM, StreamSink

DEFAULT_URL: Final = "http://localhost:8083"
_LOOK_EVERY: Final = 0.2
_SETTLED: Final = 0.6  # seconds for which a sink runs before it counts as running: the status of former tasks stays a moment
_GIVEN_UP: Final = 2.0  # and longer where those have failed: a start that mends it takes its time
_NO_PLUGIN: Final = "Failed to find any class that implements Connector"
_RUNS: Final = frozenset({RUNNING})
_PAUSED: Final = frozenset({"PAUSED"})
_APPLIED: Final = frozenset({RUNNING, "PAUSED", "STOPPED"})  # one that is paused stays so


class Connect:
    """A client of one Kafka Connect cluster; a context manager. Every call ends.

    What takes longer than ``timeout`` seconds is :class:`~railgun.sinks.errors.ConnectUnreachable` if Connect does not answer, and
    :class:`~railgun.sinks.errors.SinkError` if a sink does not come to the state that was asked for. Only connectors that were applied
    from here are listed, changed or removed.
    """

    def __init__(self, url: str = DEFAULT_URL, *, timeout: float = 30.0) -> None:
        self._rest = Rest(url, timeout)

    def close(self) -> None:
        self._rest.close()

    def __enter__(self) -> Connect:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------ applying

    def apply(self, sink: StreamSink, rg: Railgun) -> SinkStatus:
        """Make the sink what is given, and return when it runs. Applying the same again changes nothing.

        Connect validates the configuration first; what it refuses is :class:`~railgun.sinks.errors.SinkRefused`, and nothing is changed. A sink
        that starts and fails is :class:`~railgun.sinks.errors.SinkFailed` with the reason. Of a stream that was deleted and made again, the
        sink reads the log from its beginning once it is applied again.
        """
        names = transport_of(rg).names
        config = sink.rendered(names, incarnation_for(sink, rg))
        known = self._config(sink.name)
        if known is not None and known.get(PREFIX) != names.prefix:
            whose = f"a sink of the prefix {known[PREFIX]}" if PREFIX in known else "not a sink of railgun's"
            raise SinkRefused(
                sink.name, f"the connector {sink.name} of this Connect is {whose}: choose another name"
            )
        if known != config:
            self._validate(sink.name, config)
        make_dead_letter_topic(sink, rg)
        if known != config:
            self._ask(sink.name, "PUT", "connectors", sink.name, "config", body=config)
        return self._await(sink.name, _APPLIED, config)

    def _validate(self, name: str, config: Mapping[str, str]) -> None:
        """Raises SinkRefused."""
        plugin = config["connector.class"]
        try:
            answer = self._rest.call(
                "PUT", "connector-plugins", plugin, "config", "validate", body=dict(config)
            )
        except Refusal as refusal:
            if _NO_PLUGIN in refusal.text:
                raise SinkRefused(
                    name,
                    f"Kafka Connect has no connector {plugin}: install the plugin, in a folder of its plugin.path",
                ) from refusal
            raise SinkRefused(name, f"Kafka Connect refuses the sink {name}: {refusal.text}") from refusal
        with self._rest.understood():
            faults = _faults(name, config, answer)
        if faults:
            raise SinkRefused(name, f"the sink {name} is not a valid configuration: {'; '.join(faults)}")

    # ------------------------------------------------------------ looking

    def status(self, name: str) -> SinkStatus:
        """The sink as it is now. Raises SinkNotFound."""
        return self._status(name, self._own(name))

    def list(self) -> list[SinkStatus]:
        """The sinks of this Connect, by name; connectors that others made are left out."""
        found = self._ask("", "GET", "connectors", expand=["info", "status"]) or {}
        with self._rest.understood():
            return [
                status_of(one["info"]["config"], one.get("status", {}))
                for _, one in sorted(found.items())
                if STREAM in one.get("info", {}).get("config", {})
            ]

    # ------------------------------------------------------------ changing

    def restart(self, name: str) -> SinkStatus:
        """Start the tasks that failed again, and return when all run. Raises SinkNotFound; SinkFailed if one fails again."""
        config = self._own(name)
        self._ask(name, "POST", "connectors", name, "restart", includeTasks="true", onlyFailed="true")
        return self._await(name, _RUNS, config)

    def pause(self, name: str) -> SinkStatus:
        """Stop reading; what was read is kept. Returns when it is paused. Raises SinkNotFound."""
        return self._change(name, "pause", _PAUSED)

    def resume(self, name: str) -> SinkStatus:
        """Go on reading where it was paused. Raises SinkNotFound, SinkFailed."""
        return self._change(name, "resume", _RUNS)

    def delete(self, name: str) -> None:
        """Remove the sink. Rows and dead letters stay; applied again, it goes on where it stopped. Raises SinkNotFound."""
        self._own(name)
        self._ask(name, "DELETE", "connectors", name)

    def _change(self, name: str, verb: str, wanted: Collection[str]) -> SinkStatus:
        config = self._own(name)
        self._ask(name, "PUT", "connectors", name, verb)
        return self._await(name, wanted, config)

    # ------------------------------------------------------------ asking

    def _own(self, name: str) -> dict[str, str]:
        """The configuration of a sink. Raises SinkNotFound, also for a connector that others made."""
        config = self._config(name)
        if config is None or STREAM not in config:
            raise SinkNotFound(name)
        return config

    def _config(self, name: str) -> dict[str, str] | None:
        try:
            found: dict[str, str] = self._rest.call("GET", "connectors", name, "config")
        except Refusal as refusal:
            if refusal.status == 404:
                return None
            raise SinkRefused(name, f"Kafka Connect refuses to show {name}: {refusal.text}") from refusal
        return found

    def _status(self, name: str, config: Mapping[str, str]) -> SinkStatus:
        try:
            told = self._rest.call("GET", "connectors", name, "status")
        except Refusal as refusal:
            if refusal.status == 404:  # applied in this moment: it has no status yet
                return status_of(config, {})
            raise SinkRefused(name, f"Kafka Connect refuses to show {name}: {refusal.text}") from refusal
        with self._rest.understood():
            return status_of(config, told)

    def _ask(self, name: str, method: str, *path: str, body: Any = None, **query: Query) -> Any:
        try:
            return self._rest.call(method, *path, body=body, **query)
        except Refusal as refusal:
            raise SinkRefused(name, f"Kafka Connect refuses the sink {name}: {refusal.text}") from refusal

    def _await(self, name: str, wanted: Collection[str], config: Mapping[str, str]) -> SinkStatus:
        """Wait until the sink has been in a wanted state for a moment. Raises SinkFailed, SinkError, ConnectUnreachable."""
        deadline = time.monotonic() + self._rest.timeout
        since: float | None = None
        failed: float | None = None
        while True:
            found, now = self._status(name, config), time.monotonic()
            since = since or now if found.state in wanted else None
            failed = failed or now if found.state == FAILED else None
            if since is not None and now - since >= _SETTLED:
                return found
            if failed is not None and now - failed >= _GIVEN_UP:
                raise SinkFailed(name, found.reason or "Connect names no reason")
            if now > deadline:
                raise SinkError(
                    name,
                    f"the sink {name} is {found.state} and not {' or '.join(sorted(wanted))} after "
                    f"{self._rest.timeout:.0f} seconds: see `railgun sink status {name}` and Connect's log",
                )
            time.sleep(_LOOK_EVERY)


def _faults(name: str, config: Mapping[str, str], answer: Mapping[str, Any]) -> list[str]:
    """What Connect says against a configuration. Raises SinkRefused for a secret in it."""
    faults = []
    for one in answer.get("configs", ()):
        value = one.get("value") or {}
        kind = (one.get("definition") or {}).get(
            "type"
        )  # null for a setting that the connector does not know
        given = config.get(value.get("name", ""), "")
        if kind == "PASSWORD" and given and not is_reference(given):
            raise SinkRefused(
                name, f"the setting {value['name']} of the sink {name} holds a secret: {ADVICE}"
            )
        faults += [f"{value.get('name')}: {text}" for text in value.get("errors") or ()]
    return faults
