"""The life of values (KV): of a whole bucket, of single keys, and the markers that tell of their end."""

from __future__ import annotations

from datetime import timedelta

import pytest

import railgun
from railgun.errors import ConfigError, KeyNotFound, MessageRefused
from railgun.testing import Clock
from tests.support.buckets import MakeBucket


@pytest.mark.rule("KV-37")
def test_values_of_a_bucket_with_a_ttl_disappear(bucket: MakeBucket, clock: Clock) -> None:
    config = bucket(ttl=60, history=3)
    config.put("a", "1")
    clock.advance(40)
    config.put("b", "2")
    assert config.get("a").text == "1"
    clock.advance(30)
    with pytest.raises(KeyNotFound):
        config.get("a")
    assert config.get("b").text == "2"
    assert list(config.keys()) == ["b"]
    assert config.history("a") == []
    config.create("a", "3")


@pytest.mark.rule("KV-38")
def test_single_keys_may_live_shorter(bucket: MakeBucket, clock: Clock) -> None:
    config = bucket(history=3)
    config.create("a", "1", ttl=10)
    config.create("b", "2", ttl=timedelta(minutes=5))
    config.create("c", "3", ttl="1h")
    config.put("d", "4")
    config.purge("d", ttl=10)
    clock.advance(20)
    assert sorted(config.keys()) == ["b", "c"]
    assert config.history("d") == []
    clock.advance(300)
    assert list(config.keys()) == ["c"]
    config.create("a", "again")


@pytest.mark.rule("KV-38")
def test_a_put_with_a_ttl_needs_a_history_of_one(bucket: MakeBucket, clock: Clock) -> None:
    config = bucket()
    config.put("a", "1")
    config.put("a", "2", ttl=10)
    clock.advance(20)
    assert config.get("a", None) is None
    with pytest.raises(ConfigError, match="an older value would come back"):
        bucket(history=2).put("a", "1", ttl=10)


@pytest.mark.rule("KV-38")
def test_no_older_value_comes_back_where_the_history_was_raised_meanwhile(
    rg: railgun.Railgun, bucket: MakeBucket, clock: Clock
) -> None:
    opened_before = bucket(history=1)
    rg.update_bucket(opened_before.name, history=5)
    opened_before.put("a", "old")
    opened_before.put("a", "new", ttl=10)
    assert opened_before.get("a").text == "new"
    clock.advance(11)
    with pytest.raises(railgun.KeyNotFound):
        opened_before.get("a")


@pytest.mark.rule("KV-38")
def test_a_ttl_is_allowed_and_long_enough(bucket: MakeBucket) -> None:
    config = bucket()
    for wrong in (0.5, 0, "soon"):
        with pytest.raises(MessageRefused) as caught:
            config.create("a", "1", ttl=wrong)
        assert caught.value.err_code == 10165
    without = bucket(allow_msg_ttl=False)
    with pytest.raises(MessageRefused) as caught:
        without.create("a", "1", ttl=10)
    assert caught.value.err_code == 10166
    without.put("a", "1")
    without.delete("a")  # which then stays until purge_deletes
    assert without.get("a", None) is None
    assert without.purge_deletes(0) == 1


@pytest.mark.rule("KV-17", "KV-36", "KV-39")
def test_an_expiry_is_a_purge_to_watchers(bucket: MakeBucket, clock: Clock) -> None:
    config = bucket(ttl=60, limit_marker_ttl=600, history=2)
    with config.watch_all() as entries:
        assert next(entries) is None
        config.put("a", "1")
        config.create("b", "2", ttl=900)
        assert [next(entries).text for _ in range(2)] == ["1", "2"]  # type: ignore[union-attr]
        clock.advance(90)
        gone = next(entries)
        assert gone is not None
        assert (gone.key, gone.operation, gone.value) == ("a", "PURGE", None)
    assert config.get("a", None) is None
    assert "a" not in list(config.keys())
    config.create("a", "again")
    assert config.get("a").text == "again"


@pytest.mark.rule("KV-36")
@pytest.mark.parametrize("reason, operation", [("MaxAge", "PURGE"), ("Purge", "PURGE"), ("Remove", "DEL")])
def test_markers_are_deletes(rg: railgun.Railgun, bucket: MakeBucket, reason: str, operation: str) -> None:
    config = bucket(history=2)
    config.put("a", "1")
    rg.publish(f"kv.{config.name}.a", b"", headers={"Nats-Marker-Reason": reason})
    assert config.get("a", None) is None
    assert [entry.operation for entry in config.history("a")] == ["PUT", operation]
    with config.watch_all(mode="nats") as entries:
        (found,) = entries.initial()
        assert (found.operation, found.value) == (operation, None)
    config.create("a", "2")
