"""``railgun sink apply``: which sink the flags mean, and what is refused before anything is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from railgun.cli.sinks.sink_flags import SinkFlags
from railgun.errors import ConfigError
from railgun.sinks import FileSink, JdbcSink, Sink
from tests.support.commands import invoke

URL = "jdbc:postgresql://db/shop"
SECRET = "hunter2-very-secret"


def test_the_kind_follows_from_the_flags() -> None:
    jdbc = SinkFlags(stream="A", jdbc=URL, table="a", password="${env:P}").sink("one")
    assert jdbc == JdbcSink(name="one", stream="A", url=URL, table="a", password="${env:P}")
    assert SinkFlags(stream="A", file="/tmp/x").sink("one") == FileSink(name="one", stream="A", file="/tmp/x")
    plain = SinkFlags(stream="A", connector="a.B", settings=["x=1=2"]).sink("one")
    assert plain == Sink(name="one", stream="A", connector_class="a.B", settings={"x": "1=2"})


def test_flags_go_above_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sink.json"
    file.write_text(json.dumps({"stream": "A", "url": URL, "table": "a", "settings": {"x": "1", "y": "2"}}))
    made = SinkFlags(config=file, table="b", settings=["x=3"]).sink("one")
    assert made == JdbcSink(name="one", stream="A", url=URL, table="b", settings={"x": "3", "y": "2"})


@pytest.mark.parametrize("settings", [[1, 2], "x=1", 7])
def test_settings_of_a_file_that_are_not_an_object_are_refused(tmp_path: Path, settings: Any) -> None:
    file = tmp_path / "sink.json"
    file.write_text(json.dumps({"stream": "A", "file": "/tmp/x", "settings": settings}))
    with pytest.raises(ConfigError, match="are not a JSON object"):
        SinkFlags(config=file, settings=["x=3"]).sink("one")
    with pytest.raises(ConfigError, match="settings: Input should be a valid dictionary"):
        SinkFlags(config=file).sink("one")


@pytest.mark.parametrize(
    "flags, told",
    [
        (SinkFlags(stream="A"), "say what kind of sink"),
        (SinkFlags(stream="A", jdbc=URL, file="x"), "say what kind of sink"),
        (SinkFlags(jdbc=URL, table="a"), "stream: Field required"),
        (SinkFlags(stream="A", file="x", table="a"), "table: Extra inputs"),
        (SinkFlags(stream="A", jdbc=URL, table="a", settings=["x"]), "not KEY=VALUE"),
        (SinkFlags(stream="A", jdbc=URL, table="a", password=SECRET), r"\$\{env:PG_PASSWORD\}"),
        (SinkFlags(stream="A", connector="a.B", settings=[f"token={SECRET}"]), "holds a secret"),
        (SinkFlags(config=Path("/no/such/file")), "cannot be read as JSON"),
    ],
)
def test_what_cannot_be_is_one_sentence_without_a_secret(flags: SinkFlags, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        flags.sink("one")
    assert SECRET not in str(refused.value)


def test_a_cluster_in_memory_has_no_log_for_connect() -> None:
    result = invoke("sink", "apply", "one", "--stream", "A", "--file", "x", "--server", "memory://sinks")
    assert result.exit_code == 1
    assert "a cluster in memory is not a valid source of sinks" in result.stderr
