"""The cache of a bucket (KV-50 … KV-54): what it answers, when, and what it never does."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import railgun
from railgun.client.buckets.cache_feed import NewestDelivery
from railgun.client.buckets.reads import BucketReads
from railgun.client.steps import Blocking, Steps
from railgun.errors import BucketNotFound, ConfigError, InvalidKey, KeyExists, KeyNotFound
from railgun.testing import Clock
from tests.support.buckets import MakeBucket
from tests.support.waiting import wait_until


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys that were read from the store."""
    found: list[str] = []
    get = BucketReads.get

    def noted(self: BucketReads, key: str, revision: int | None) -> Steps[Any]:
        found.append(key)
        return get(self, key, revision)

    monkeypatch.setattr(BucketReads, "get", noted)
    return found


class Gate:
    """Holds the feeds of all caches back while it is shut."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._open = threading.Event()
        self._open.set()
        take = NewestDelivery.round

        def late(delivery: NewestDelivery) -> Steps[list[Any]]:
            found = yield from take(delivery)
            yield Blocking(lambda: self._open.wait(60))
            return found

        monkeypatch.setattr(NewestDelivery, "round", late)

    @contextmanager
    def shut(self) -> Iterator[None]:
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


@pytest.mark.rule("KV-50", "KV-51")
def test_gets_are_answered_from_memory_once_all_values_have_come(
    bucket: MakeBucket, asked: list[str]
) -> None:
    config = bucket(history=3)
    for number in range(5):
        config.put("port", str(number))
    config.put("host", "a")
    config.delete("host")
    with config.cached() as cache:
        assert cache.wait_ready(20)
        asked.clear()
        assert (cache.get("port").text, cache.get("port").revision, cache.get("port").delta) == ("4", 5, 0)
        assert cache.get("host", None) is None
        assert cache.get("never", None) is None
        with pytest.raises(KeyNotFound):
            cache.get("never")
        assert {key: one.text for key, one in cache.get_many(["port", "never"]).items()} == {"port": "4"}
        assert asked == []
        config.put("port", "5")  # by another program
        wait_until(lambda: cache.get("port").text == "5", "the cache learns of it", 20)
        config.delete("port")
        wait_until(lambda: cache.get("port", None) is None, "the cache learns of the delete", 20)
        assert (cache.may_be_stale, config.may_be_stale) == (True, False)
    assert not cache.ready
    assert cache.get("port", None) is None
    assert asked[-1] == "port", "a closed cache asks the bucket"


@pytest.mark.rule("KV-51")
def test_before_it_is_ready_every_get_goes_to_the_store(
    bucket: MakeBucket, asked: list[str], gate: Gate
) -> None:
    config = bucket()
    config.put("a", "1")
    with gate.shut():
        cache = config.cached()
        assert not cache.wait_ready(0.3)
        assert cache.get("a").text == "1"
        assert cache.get("b", None) is None
        assert asked == ["a", "b"]
    assert cache.wait_ready(20)
    assert cache.get("a").text == "1"
    assert asked == ["a", "b"]
    cache.close()


@pytest.mark.rule("KV-51")
def test_the_cache_of_an_empty_bucket_is_ready(bucket: MakeBucket) -> None:
    with bucket().cached() as cache:
        assert cache.wait_ready(20)
        assert cache.get("a", None) is None


@pytest.mark.rule("KV-50", "KV-52")
def test_an_own_write_is_seen_at_once_however_late_the_watch_is(
    bucket: MakeBucket, asked: list[str], gate: Gate
) -> None:
    config = bucket(history=2)
    config.put("a", "old")
    config.put("b", "old")
    with config.cached() as cache:
        assert cache.wait_ready(20)
        with gate.shut():
            revision = cache.put("a", "new")
            assert (cache.get("a").text, cache.get("a").revision) == ("new", revision)
            cache.delete("b")
            assert cache.get("b", None) is None
            cache.create("c", "new")
            assert cache.get("c").text == "new"
            cache.update("c", "newer", cache.get("c").revision)
            assert cache.get("c").text == "newer"
            with cache.transaction() as changes:
                changes.put("a", "together")
                changes.put("d", "together")
            assert (cache.get("a").text, cache.get("d").text) == ("together", "together")
            cache.purge("d")
            assert cache.get("d", None) is None
        wait_until(
            lambda: asked.clear() or (cache.get("a").text, asked) == ("together", []), "it is cached", 20
        )


@pytest.mark.rule("KV-52")
def test_a_write_that_is_refused_drops_its_key_too(bucket: MakeBucket, asked: list[str]) -> None:
    config = bucket()
    config.put("a", "1")
    with config.cached() as cache:
        assert cache.wait_ready(20)
        cache.get("a")
        assert asked == []
        with pytest.raises(KeyExists):
            cache.create("a", "2")
        assert cache.get("a").text == "1"
        assert asked == ["a"]
        assert cache.get("a").text == "1"
        assert asked == ["a"], "what the store said is kept"


@pytest.mark.rule("KV-53")
def test_a_lost_watch_makes_it_not_ready_until_it_has_another(
    rg: railgun.Railgun, bucket: MakeBucket
) -> None:
    config = bucket()
    config.put("a", "1")
    stream = rg.stream(config.config.stream)
    with config.cached() as cache:
        assert cache.wait_ready(20)
        (consumer,) = stream.consumers()
        stream.delete_consumer(consumer.name)
        config.delete("a")
        config.purge_deletes(0)  # no watch that goes on where it was would hear of it
        wait_until(lambda: not cache.ready, "it is not ready", 20)
        assert cache.get("a", None) is None
        assert cache.wait_ready(20)
        assert cache.get("a", None) is None
        assert [one.name for one in stream.consumers()] != [consumer.name]
    assert stream.consumers() == [], "a closed cache leaves nothing behind"


@pytest.mark.rule("KV-53", "KV-12")
def test_a_bucket_that_is_deleted_and_made_again_is_another(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket()
    with config.cached() as cache:
        for number in range(9):
            cache.put("a", str(number))
        assert cache.wait_ready(20)
        rg.delete_bucket(config.name)
        wait_until(lambda: not cache.ready, "it is not ready", 20)
        with pytest.raises(BucketNotFound):
            cache.get("a")
        again = rg.create_bucket(config.name)
        again.put("b", "1")
        assert cache.wait_ready(20)
        assert (cache.get("a", None), cache.get("b").text) == (None, "1")


@pytest.mark.rule("KV-54")
def test_history_and_watches_ask_the_bucket(bucket: MakeBucket, gate: Gate) -> None:
    config = bucket(history=2)
    with config.cached() as cache:
        assert cache.wait_ready(20)
        with gate.shut():
            config.put("a", "1")
            config.put("a", "2")
            assert [one.text for one in cache.history("a")] == ["1", "2"]
            assert list(cache.keys()) == ["a"]
            assert cache.get("a", revision=1).text == "1"
            with cache.watch("a") as entries:
                found = next(iter(entries))
                assert found is not None
                assert found.text == "2"
            assert cache.status().values == 2


@pytest.mark.rule("KV-26", "KV-50")
def test_a_purge_of_all_keys_is_learnt_although_no_message_tells_it(bucket: MakeBucket) -> None:
    config = bucket()
    config.put("a", "1")
    config.put("b", "1")
    with config.cached() as cache:
        assert cache.wait_ready(20)
        assert cache.purge_all() == 2  # by this program: at once
        assert cache.get("a", None) is None
        config.put("a", "2")
        wait_until(lambda: cache.get("a", None) is not None, "it is put", 20)
        config.purge_all()  # by another
        wait_until(lambda: cache.get("a", None) is None, "the cache learns of it", 20)


@pytest.mark.rule("KV-37", "KV-50")
def test_a_value_that_the_bucket_removed_by_its_age_is_not_served(bucket: MakeBucket, clock: Clock) -> None:
    config = bucket(ttl=3600)
    config.put("a", "1")
    with config.cached() as cache:
        assert cache.wait_ready(20)
        assert cache.get("a").text == "1"
        clock.advance(3601)
        wait_until(lambda: cache.get("a", None) is None, "it is gone", 20)


@pytest.mark.rule("KV-38", "KV-50")
def test_a_value_with_a_life_of_its_own_is_read_from_the_store(
    bucket: MakeBucket, clock: Clock, asked: list[str]
) -> None:
    config = bucket()
    config.create("lock", "mine", ttl=60)
    with config.cached() as cache:
        assert cache.wait_ready(20)
        assert cache.get("lock").text == "mine"
        clock.advance(61)
        assert cache.get("lock", None) is None
        assert asked == ["lock", "lock"]


@pytest.mark.rule("KV-50")
def test_a_cache_with_little_room_reads_the_rest_from_the_store(bucket: MakeBucket, asked: list[str]) -> None:
    config = bucket()
    for number in range(20):
        config.put(f"key-{number}", "x" * 1000)
    with config.cached(max_bytes=10_000) as cache:
        assert cache.wait_ready(20)
        assert 1 <= cache.cached_keys < 10
        assert cache.cached_bytes <= 10_000
        for number in range(20):
            assert cache.get(f"key-{number}").raw == b"x" * 1000
        assert 10 < len(asked) < 20
        asked.clear()
        cache.get("key-19")
        assert asked == [], "what was read last is there"
        assert cache.get("never", None) is None
        assert asked == ["never"]
    with pytest.raises(ConfigError, match="max_bytes"):
        config.cached(max_bytes=0)


@pytest.mark.rule("KV-41", "KV-44", "KV-50")
def test_a_cache_decodes_and_hands_out_no_shared_objects(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    name = bucket(dotted_keys=True).name
    codecs = railgun.codecs
    config = rg.bucket(name, key_codec=codecs.PathKeys(), value_codec=codecs.JsonValues())
    config.put("/a/b", {"x": [1]})
    with config.cached() as cache:
        assert cache.wait_ready(20)
        cache.get("/a/b/").value["x"].append(2)
        assert cache.get("/a/b").value == {"x": [1]}
        with pytest.raises(InvalidKey):
            cache.get("a.b")


@pytest.mark.rule("KV-50", "KV-51", "KV-52")
async def test_the_async_cache(arg: railgun.AsyncRailgun, bucket: MakeBucket) -> None:
    config = await arg.bucket(bucket().name)
    await config.put("a", "1")
    async with config.cached() as cache:
        assert await cache.wait_ready(20)
        assert (await cache.get("a")).text == "1"
        for number in range(20):
            revision = await cache.put("a", str(number))
            assert (await cache.get("a")).revision >= revision
        assert await cache.get("never", None) is None


def test_a_cache_that_is_left_open_ends_with_its_connection(bucket: MakeBucket, cluster: Any) -> None:
    name = bucket().name
    with cluster.connect() as rg:
        cache = rg.bucket(name).cached()
        assert cache.wait_ready(20)
    assert not cache.ready
    assert not [thread for thread in threading.enumerate() if thread.name == "railgun-cache"]


def test_a_cache_that_nobody_holds_any_more_ends(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket()
    stream = rg.stream(config.config.stream)
    cache = config.cached()
    assert cache.wait_ready(20)
    assert len(stream.consumers()) == 1
    del cache
    gc.collect()
    wait_until(lambda: stream.consumers() == [], "its watch is gone", 20)
