"""Removing values of a bucket (KV): deletes, purges, markers, compaction, and the history that is left."""

from __future__ import annotations

from typing import Any

import pytest

import railgun
from railgun.errors import ConfigError, KeyNotFound, KeyWrongLastSequence
from railgun.model import headers as h
from railgun.testing import Clock
from tests.support.buckets import MakeBucket


def texts(config: railgun.Bucket, key: str) -> list[str]:
    return [entry.text for entry in config.history(key)]


def stored(rg: railgun.Railgun, config: railgun.Bucket, key: str) -> dict[str, bytes]:
    """The headers of the newest message of a key, but for those that say where it was stored."""
    found = rg.stream(config.config.stream).get_last(f"kv.{config.name}.{key}").headers
    return {name: value for name, value in found if not name.startswith("KV-Origin")}


@pytest.mark.rule("KV-28")
def test_the_history_is_what_is_stored_of_a_key(bucket: MakeBucket) -> None:
    config = bucket(history=3)
    assert config.history("a") == []
    for number in range(5):
        config.put("a", str(number))
        config.put("b", "x")
    found = config.history("a")
    assert [(entry.text, entry.delta, entry.revision) for entry in found] == [
        ("2", 2, 5),
        ("3", 1, 7),
        ("4", 0, 9),
    ]
    assert {entry.key for entry in found} == {"a"}
    single = bucket()
    single.put("a", "1")
    single.put("a", "2")
    assert texts(single, "a") == ["2"]


@pytest.mark.rule("KV-28")
def test_a_history_may_be_large(bucket: MakeBucket) -> None:
    config = bucket(history=12)
    for number in range(12):
        config.put("a", bytes([number]) * 700_000)
    found = config.history("a")
    assert [(entry.raw[0], len(entry.raw)) for entry in found] == [(number, 700_000) for number in range(12)]


@pytest.mark.rule("KV-20")
def test_a_delete_leaves_nothing_of_its_key(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket(history=5)
    for key in ("a", "b"):
        for number in range(3):
            config.put(key, str(number))
    revision = config.delete("a")
    with pytest.raises(KeyNotFound):
        config.get("a")
    for number in range(1, revision + 1):
        assert config.get("a", None, revision=number) is None
    assert config.history("a") == []
    assert list(config.keys()) == ["b"]
    assert config.status().values == 3
    assert texts(config, "b") == ["0", "1", "2"]
    assert stored(rg, config, "a") == {h.KV_OPERATION: b"DEL", h.ROLLUP: b"sub", h.TTL: b"30m"}
    config.put("a", "again")
    assert texts(config, "a") == ["again"]
    config.delete("never-there")
    assert config.get("never-there", None) is None


@pytest.mark.rule("KV-20")
def test_a_delete_is_gone_after_half_an_hour(rg: railgun.Railgun, bucket: MakeBucket, clock: Clock) -> None:
    config = bucket()
    config.put("a", "1")
    config.put("b", "2")
    config.delete("a")
    clock.advance(29 * 60)
    assert config.status().stream.state.messages == 2
    clock.advance(2 * 60)
    assert config.status().stream.state.messages == 1
    assert list(config.keys()) == ["b"]


@pytest.mark.rule("KV-21")
def test_a_delete_with_a_marker_keeps_the_history(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket(history=5)
    config.put("a", "1")
    config.put("a", "2")
    revision = config.delete("a", marker=True)
    with pytest.raises(KeyNotFound):
        config.get("a")
    assert config.get("a", revision=1).text == "1"
    assert [(one.operation, one.value) for one in config.history("a")] == [
        ("PUT", b"1"),
        ("PUT", b"2"),
        ("DEL", None),
    ]
    assert config.history("a")[-1].revision == revision
    assert stored(rg, config, "a") == {h.KV_OPERATION: b"DEL"}
    assert config.status().values == 2
    with_markers = bucket(history=5, marker_deletes=True)
    with_markers.put("a", "1")
    with_markers.delete("a")
    assert texts(with_markers, "a") == ["1", ""]
    assert rg.bucket(with_markers.name).config.marker_deletes
    with_markers.delete("a", marker=False)
    assert with_markers.history("a") == []


@pytest.mark.rule("KV-23")
def test_a_purge_replaces_the_history(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket(history=5)
    for key in ("a", "b"):
        for number in range(3):
            config.put(key, str(number))
    revision = config.purge("a")
    with pytest.raises(KeyNotFound):
        config.get("a")
    (left,) = config.history("a")
    assert (left.operation, left.value, left.revision, left.delta) == ("PURGE", None, revision, 0)
    assert stored(rg, config, "a") == {h.KV_OPERATION: b"PURGE", h.ROLLUP: b"sub"}
    assert texts(config, "b") == ["0", "1", "2"]


@pytest.mark.rule("KV-24")
@pytest.mark.parametrize("how", ["delete", "purge"])
def test_deletes_and_purges_may_expect_a_revision(bucket: MakeBucket, how: str) -> None:
    config = bucket(history=5)
    first = config.put("a", "1")
    second = config.put("a", "2")
    remove = getattr(config, how)
    with pytest.raises(KeyWrongLastSequence) as caught:
        remove("a", revision=first)
    assert (caught.value.key, caught.value.actual) == ("a", second)
    assert config.get("a").text == "2"
    remove("a", revision=second)
    assert config.get("a", None) is None
    with pytest.raises(KeyWrongLastSequence):
        config.delete("a", revision=second, marker=True)


@pytest.mark.rule("KV-25")
def test_compact_keeps_the_newest_values(bucket: MakeBucket) -> None:
    config = bucket(history=10)
    for key in ("a", "b"):
        for number in range(5):
            config.put(key, str(number))
    assert config.compact("a", 2) == 3
    assert texts(config, "a") == ["3", "4"]
    assert texts(config, "b") == ["0", "1", "2", "3", "4"]
    assert config.compact("a", 2) == config.compact("a", 99) == config.compact("nothing", 1) == 0
    assert texts(config, "a") == ["3", "4"]
    for wrong in (0, -1, None):
        with pytest.raises(ConfigError, match="is not a valid number of values"):
            config.compact("a", wrong)  # type: ignore[arg-type]


@pytest.mark.rule("KV-26")
def test_a_purge_of_the_whole_bucket_keeps_the_bucket(bucket: MakeBucket) -> None:
    config = bucket(history=2)
    for key in ("a", "b", "b"):
        revision = config.put(key, "1")
    assert config.purge_all() == 3
    assert config.status().values == 0
    assert config.put("a", "2") == revision + 1
    assert texts(config, "a") == ["2"]


@pytest.mark.rule("KV-27")
def test_old_markers_are_removed(rg: railgun.Railgun, bucket: MakeBucket, clock: Clock) -> None:
    config = bucket(history=5, nats_mode=True)
    for key in ("old", "young", "kept", "again"):
        config.put(key, "1")
        config.put(key, "2")
    config.delete("old")
    config.purge("again")
    clock.advance(31 * 60)
    config.delete("young")
    config.put("again", "3")
    assert config.purge_deletes() == 1
    assert config.history("old") == []
    assert [entry.operation for entry in config.history("young")] == ["DEL"]
    assert texts(config, "kept") == ["1", "2"]
    assert [entry.operation for entry in config.history("again")] == ["PURGE", "PUT"]
    assert config.purge_deletes(older_than=0) == 1
    assert config.history("young") == []
    assert sorted(config.keys()) == ["again", "kept"]
    assert config.purge_deletes(0) == 0


@pytest.mark.rule("KV-27")
@pytest.mark.parametrize("age", [float("nan"), float("inf"), -1, "30m", None])
def test_ages_that_are_none(bucket: MakeBucket, age: Any) -> None:
    with pytest.raises(ConfigError, match="is not a valid age"):
        bucket().purge_deletes(age)
