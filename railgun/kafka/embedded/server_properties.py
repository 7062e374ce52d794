"""The settings of a single local node, as ``server.properties``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from railgun.kafka.embedded.ports import LOOPBACK

NODE_ID: Final = 1
MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024

_SINGLE_NODE: Final[dict[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": str(NODE_ID),
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    # One node: one copy of everything.
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Internal topics have 50 partitions by default: files and seconds that one machine does not need.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    # Eight handlers and three network threads wake each other on a small machine: a transaction took a sixth more of its time.
    "num.network.threads": "1",
    "num.io.threads": "2",
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "true",
    "message.max.bytes": str(MAX_MESSAGE_BYTES),
    "replica.fetch.max.bytes": str(MAX_MESSAGE_BYTES),
    "log.cleaner.enable": "true",
    # A deleted topic's files go soon, not after a minute.
    "log.segment.delete.delay.ms": "1000",
    # After a kill -9 the broker registers again only when its old session is over (9 s by default).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "200",
    # A controlled shutdown takes the leaders away first. On a single broker there is nobody to take over, and a commit that
    # ends in that moment was seen to be marked complete without its markers: half a transaction, after the restart.
    "controlled.shutdown.enable": "false",
}

JVM_FLAGS: Final = (
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
)

LOG4J_CONFIGURATION: Final = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %m (%c{1})%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""


def server_properties(
    *,
    data: Path,
    port: int,
    controller_port: int,
    extra_listeners: Mapping[str, str],
    overrides: Mapping[str, str],
) -> dict[str, str]:
    """All settings of the node. ``overrides`` win over everything, also over listeners and ports."""
    listeners = [f"PLAINTEXT://{LOOPBACK}:{port}"]
    listeners += [f"{protocol}://{address}" for protocol, address in extra_listeners.items()]
    controller = f"CONTROLLER://{LOOPBACK}:{controller_port}"
    protocols = [
        "CONTROLLER:PLAINTEXT",
        "PLAINTEXT:PLAINTEXT",
        *(f"{name}:{name}" for name in extra_listeners),
    ]
    return {
        **_SINGLE_NODE,
        "log.dirs": str(data),
        "listeners": ",".join([*listeners, controller]),
        "advertised.listeners": ",".join([*listeners, controller]),
        "listener.security.protocol.map": ",".join(protocols),
        "controller.quorum.bootstrap.servers": f"{LOOPBACK}:{controller_port}",
        **overrides,
    }


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    """Write a Java properties file; replaces the old one."""
    file.write_text(
        "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in properties.items()), encoding="ascii"
    )


def read_properties(file: Path) -> dict[str, str]:
    """Read a simple Java properties file: one ``key=value`` a line, ``#`` comments."""
    lines = (line.strip() for line in file.read_text(encoding="utf-8", errors="replace").splitlines())
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, value in pairs}


def _escaped(value: str) -> str:
    """The value as Java reads it: a file of properties is Latin-1, and other characters are written by their UTF-16 numbers."""
    plain = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return "".join(one if one.isascii() else _numbered(one) for one in plain)


def _numbered(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
