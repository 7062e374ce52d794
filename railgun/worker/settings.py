"""A node's configuration: one TOML file with the sections ``cluster`` and ``node`` (CLU-01).

The file is ``railgun.toml`` in the working directory, or the one named on the command line. The environment is not read
and files are not layered. A missing default file means defaults; a named one must exist. A value that cannot be used is a
:class:`~railgun.errors.ConfigError` that names the key.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from railgun.errors import ConfigError
from railgun.kafka.settings import DEFAULT_BOOTSTRAP, KafkaSettings
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.durations import to_nanos
from railgun.protocol.registry import Protected
from railgun.protocol.topics import DEFAULT_PREFIX, Names

DEFAULT_FILE: Final = "railgun.toml"

_Count = Annotated[int, Field(ge=0)]
_Positive = Annotated[int, Field(ge=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ClusterSection(_Section):
    """Settings of the whole cluster. The first four are protected: fixed at the first start (CLU-02)."""

    name: str = "railgun"
    prefix: str = DEFAULT_PREFIX
    partitions: Annotated[int, Field(ge=1, le=1024)] = 8
    reply_factor: Annotated[int, Field(ge=1, le=64)] = 1
    replication_factor: _Positive = 1  # 3 in production: one stalled leader stalls its shard
    max_store_bytes: _Count = 0
    max_in_flight: _Count = 0
    require_max_bytes: bool = False
    max_stream_bytes: _Count = 0
    max_batches: _Count = 1_000
    max_stream_batches: _Count = 50
    max_batch_messages: _Positive = 1_000
    batch_timeout: Annotated[float, Field(gt=0, le=86_400)] = 10.0  # seconds


class NodeSection(_Section):
    """Settings of this process; they take effect at a restart."""

    name: str = ""
    bootstrap: str = DEFAULT_BOOTSTRAP
    kafka: dict[str, Any] = Field(default_factory=dict, repr=False)  # may hold passwords
    data_dir: str = ".railgun/worker"
    web_port: Annotated[int, Field(ge=0, le=65535)] = 0  # 0: no web server; two workers fit on one machine
    test_clock: bool = False


class _File(_Section):
    cluster: ClusterSection = ClusterSection()
    node: NodeSection = NodeSection()


@dataclass(frozen=True)
class NodeSettings:
    """The whole configuration of a worker."""

    cluster: ClusterSection
    node: NodeSection
    kafka: KafkaSettings

    @property
    def names(self) -> Names:
        return Names(self.cluster.prefix)

    @property
    def protected(self) -> Protected:
        section = self.cluster
        return Protected(section.name, section.prefix, section.partitions, section.reply_factor)

    @property
    def limits(self) -> ClusterLimits:
        section = self.cluster
        return ClusterLimits(
            max_store_bytes=section.max_store_bytes,
            max_in_flight=section.max_in_flight,
            require_max_bytes=section.require_max_bytes,
            max_stream_bytes=section.max_stream_bytes,
            replicas=section.replication_factor,
            max_batches=section.max_batches,
            max_stream_batches=section.max_stream_batches,
            max_batch_messages=section.max_batch_messages,
            batch_timeout=to_nanos(section.batch_timeout),
            own_topics=f"{section.prefix}.",
        )

    @property
    def data_dir(self) -> Path:
        return Path(self.node.data_dir).expanduser().absolute() / self.cluster.prefix


def load_settings(path: Path | None = None, *, data_dir: Path | None = None) -> NodeSettings:
    """Read the file, or take the defaults when none is named and ``./railgun.toml`` does not exist."""
    file = path if path is not None else Path(DEFAULT_FILE)
    fields: dict[str, Any] = {}
    if path is not None or file.exists():
        try:
            fields = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"the configuration file {file} cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"the configuration file {file} is not TOML: {error}") from error
    try:
        read = _File.model_validate(fields)
    except ValidationError as error:
        raise ConfigError(f"the configuration file {file}: {_first_fault(error)}") from error
    node = read.node if data_dir is None else read.node.model_copy(update={"data_dir": str(data_dir)})
    try:
        Names(read.cluster.prefix)
    except ValueError as error:
        raise ConfigError(f"the configuration file {file}: cluster.prefix: {error}") from error
    try:
        kafka = KafkaSettings(node.bootstrap, _flat(node.kafka))
        kafka.aiokafka_auth()  # settings that the worker cannot use are refused now, not at the first rebalance
    except ConfigError as error:
        raise ConfigError(f"the configuration file {file}: {error}") from error
    return NodeSettings(read.cluster, node, kafka)


def _flat(table: dict[str, Any], head: str = "") -> dict[str, Any]:
    """TOML reads an unquoted ``sasl.username`` as a table within a table; Kafka's names are the whole paths."""
    result: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            result |= _flat(value, f"{head}{name}.")
        else:
            result[f"{head}{name}"] = value
    return result


def _first_fault(error: ValidationError) -> str:
    """One sentence without the value: it may be a secret."""
    fault = error.errors(include_input=False)[0]
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"unknown key {key!r}"
    return f"{key}: {fault['msg']}"
