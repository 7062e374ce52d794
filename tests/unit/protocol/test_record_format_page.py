"""docs/record-format.md names everything that clients and workers agree on, as the code has it."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any, Final

import pytest

from railgun.kafka.topic_admin import DAY_MS, cell_topics, log_settings
from railgun.model import headers
from railgun.model.cluster_limits import LARGEST_RECORD
from railgun.protocol import advisory_record, avro, commands, registry, statuses
from railgun.protocol.statuses import Status
from railgun.protocol.topics import DEFAULT_PREFIX, Names
from railgun.state import keys
from tests.support.checkout import TOP

PAGE: Final = (TOP / "docs" / "record-format.md").read_text("utf-8")
ROWS: Final = [line for line in PAGE.splitlines() if line.startswith("|")]
PARTITIONS, REPLY_FACTOR = 5, 3


def constants(module: ModuleType, kind: type) -> dict[str, Any]:
    """The public constants of a module that have this type."""
    public = {name: value for name, value in vars(module).items() if name.isupper() and name[0] != "_"}
    return {name: value for name, value in public.items() if type(value) is kind}


def row(first: str) -> str:
    """The one row of a table that begins with this cell."""
    (found,) = [line for line in ROWS if line.startswith(f"| {first} |")]
    return found


@pytest.mark.parametrize("kind", constants(commands, str).values())
def test_kinds_of_commands(kind: str) -> None:
    assert f"`{kind}`" in PAGE


@pytest.mark.parametrize(
    "schema, field", [("forward", "kind"), ("forward", "outcome"), ("consumer_command", "acks")]
)
def test_symbols_of_schemas(schema: str, field: str) -> None:
    (written,) = [one for one in avro.schema(schema)["fields"] if one["name"] == field]
    symbols = re.findall(r"'symbols': \[([^]]*)\]", str(written["type"]))
    assert symbols
    for symbol in re.findall(r"'(\w+)'", symbols[0]):
        assert f"`{symbol}`" in PAGE


@pytest.mark.parametrize("name", sorted(path.name for path in avro.schema_folder().glob("*.avsc")))
def test_schemas(name: str) -> None:
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("key", constants(registry, bytes).values())
def test_keys_of_the_registry(key: bytes) -> None:
    text = key.decode()
    assert row(f"`{text}<{'name' if text == 'stream/' else 'shard'}>`" if text.endswith("/") else f"`{text}`")


def test_the_registry_has_keys() -> None:
    assert len(constants(registry, bytes)) == 4


@pytest.mark.parametrize(
    "status", [*constants(statuses, Status).values(), statuses.exceeded("MaxRequestBatch", "…")]
)
def test_statuses(status: Status) -> None:
    assert [
        line for line in ROWS if line.startswith(f"| {status.code} ") and f"`{status.description}`" in line
    ]


@pytest.mark.parametrize("plan", cell_topics(Names(), PARTITIONS, REPLY_FACTOR), ids=lambda plan: plan.name)
def test_topics_and_their_settings(plan: Any) -> None:
    told = row_of_topic(plan.name)
    count = {1: "1", PARTITIONS: "N", PARTITIONS * REPLY_FACTOR: "N × R"}[plan.partitions]
    assert told.split("|")[2].strip() == count
    settings = plan.settings
    assert ("compacted" in told) == (settings.get("cleanup.policy") == "compact")
    assert ("LogAppendTime" in told) == (settings.get("message.timestamp.type") == "LogAppendTime")
    retentions = {str(7 * DAY_MS): "7 days", str(DAY_MS): "1 day", "3600000": "1 hour"}
    for milliseconds, text in retentions.items():
        assert (f"| {text}" in told) == (settings.get("retention.ms") == milliseconds)
    assert settings["max.message.bytes"] == str(LARGEST_RECORD)
    assert f"up to {LARGEST_RECORD // 2**20} MiB" in PAGE


def test_the_settings_of_a_log() -> None:
    told = row_of_topic(Names().log("") + "<STREAM>")
    for compacted in (False, True):
        settings = log_settings(compacted=compacted)
        assert settings["cleanup.policy"] in told
        assert settings["message.timestamp.type"] in told


def row_of_topic(name: str) -> str:
    assert name.startswith(DEFAULT_PREFIX)
    return row_starting(f"| `{name}` |")


def row_starting(text: str) -> str:
    (found,) = [line for line in ROWS if line.startswith(text)]
    return found


def test_names_that_are_not_topics() -> None:
    assert f"`{Names().group}`" in PAGE
    assert f"`{Names().transactional_id(0).removesuffix('0')}<partition>`" in PAGE


@pytest.mark.parametrize("subject", constants(advisory_record, str).values())
def test_subjects_of_advisories(subject: str) -> None:
    assert f"`{subject}.<stream>" in PAGE


@pytest.mark.parametrize("name", advisory_record.TYPES.values())
def test_types_of_advisories(name: str) -> None:
    assert f"`{name.removeprefix('io.nats.jetstream.')}`" in PAGE


@pytest.mark.parametrize(
    "name",
    [
        one
        for one in constants(headers, str).values()
        if one.startswith(headers.RESERVED_PREFIX) and one[-1] != "-"
    ],
)
def test_headers_of_railgun(name: str) -> None:
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("letter", constants(keys, bytes).values())
def test_keys_of_the_changelog(letter: bytes) -> None:
    assert [line for line in ROWS if re.match(rf"\| `{letter.decode()}`( \w+)* \|", line)]
