"""Watches of a bucket (KV): what is there, where that ends, what comes after, and what survives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from itertools import islice

import pytest

import railgun
from railgun.errors import BucketNotFound, ConfigError, ConnectionClosed, InvalidKey
from railgun.testing import Clock
from tests.support.buckets import MakeBucket
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(90)

Seen = tuple[str, str, str] | None


def seen(entries: Iterator[railgun.Entry | None], count: int) -> list[Seen]:
    """Key, operation and text of the next entries."""
    return [one and (one.key, one.operation, one.text) for one in islice(entries, count)]


def lose_consumers(rg: railgun.Railgun, config: railgun.Bucket) -> None:
    stream = rg.stream(config.config.stream)
    for consumer in stream.consumers():
        stream.delete_consumer(consumer.name)


def consumers(rg: railgun.Railgun, config: railgun.Bucket) -> int:
    return len(rg.stream(config.config.stream).consumers())


@pytest.mark.rule("KV-30")
def test_a_watch_of_a_key_begins_with_its_newest_value(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket(history=3)
    for value in ("1", "2"):
        config.put("a", value)
        config.put("b", value)
    with config.watch("a") as entries:
        first = next(entries)
        assert first is not None
        assert (first.bucket, first.key, first.value, first.revision) == (config.name, "a", b"2", 3)
        config.put("b", "3")
        config.put("a", "3")
        config.put("a", "4")
        assert seen(entries, 2) == [("a", "PUT", "3"), ("a", "PUT", "4")]
    assert consumers(rg, config) == 0
    assert list(entries) == []


@pytest.mark.rule("KV-22", "KV-30")
@pytest.mark.parametrize("marker", [False, True])
def test_a_watch_of_a_key_without_a_value_begins_with_nothing(bucket: MakeBucket, marker: bool) -> None:
    config = bucket(history=3)
    config.put("deleted", "1")
    config.delete("deleted", marker=marker)
    for key in ("never", "deleted"):
        with config.watch(key) as entries:
            assert list(entries.initial()) == []
            config.put(key, "2")
            revision = config.delete(key, marker=marker)
            assert seen(entries, 1) == [(key, "PUT", "2")]
            deleted = next(entries)
            assert deleted is not None
            assert (deleted.key, deleted.operation, deleted.value, deleted.revision) == (
                key,
                "DEL",
                None,
                revision,
            )


@pytest.mark.rule("KV-22", "KV-31")
def test_a_watch_of_the_bucket_has_all_that_is_stored(bucket: MakeBucket) -> None:
    config = bucket(history=3)
    for key, value in (("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("d", "5")):
        config.put(key, value)
    config.delete("c")  # of which nothing is left
    config.delete("d", marker=True)
    config.put("a", "6")
    with config.watch_all() as entries:
        found = list(entries.initial())
        assert [(one.key, one.operation, one.text) for one in found] == [
            ("a", "PUT", "1"),
            ("b", "PUT", "2"),
            ("a", "PUT", "3"),
            ("d", "PUT", "5"),
            ("d", "DEL", ""),
            ("a", "PUT", "6"),
        ]
        assert [one.revision for one in found] == sorted(one.revision for one in found)
        assert found[-1].delta == 0
        config.delete("b")
        config.put("c", "7")
        assert seen(entries, 2) == [("b", "DEL", ""), ("c", "PUT", "7")]


@pytest.mark.rule("KV-32")
def test_a_watch_of_an_empty_bucket_says_so(bucket: MakeBucket) -> None:
    config = bucket()
    with config.watch_all() as entries:
        assert next(entries) is None
        config.put("a", "1")
        config.delete("a")
        assert seen(entries, 2) == [("a", "PUT", "1"), ("a", "DEL", "")]
    with config.watch_all() as entries:  # nothing but a delete
        assert next(entries) is None
        config.put("a", "2")
        assert seen(entries, 1) == [("a", "PUT", "2")]


@pytest.mark.rule("KV-33")
def test_a_watch_as_nats_does_it_ends_what_was_there_with_a_none(bucket: MakeBucket) -> None:
    config = bucket(history=3)
    with config.watch_all(mode="nats") as entries:
        assert next(entries) is None
        config.put("a", "1")
        assert seen(entries, 1) == [("a", "PUT", "1")]
    for key, value in (("a", "2"), ("b", "3"), ("a", "4"), ("c", "5")):
        config.put(key, value)
    config.delete("c", marker=True)
    with config.watch_all(mode="nats") as entries:
        found = list(islice(entries, 4))
        assert [one and (one.key, one.operation, one.text, one.delta) for one in found] == [
            ("b", "PUT", "3", 2),
            ("a", "PUT", "4", 1),
            ("c", "DEL", "", 0),
            None,
        ]
        config.put("c", "6")
        assert seen(entries, 1) == [("c", "PUT", "6")]
    with config.watch("a", mode="nats") as entries:
        assert seen(entries, 2) == [("a", "PUT", "4"), None]
    with config.watch("never", mode="nats") as entries:
        assert next(entries) is None
    with pytest.raises(ConfigError, match="is not a valid mode"):
        config.watch_all(mode="other")  # type: ignore[arg-type]


@pytest.mark.rule("KV-33")
def test_a_bucket_in_nats_mode_is_watched_so(bucket: MakeBucket) -> None:
    config = bucket(nats_mode=True, history=2)
    config.put("a.b", "1")
    config.put("a.b", "2")
    with config.watch_all() as entries:
        assert seen(entries, 2) == [("a.b", "PUT", "2"), None]


@pytest.mark.rule("KV-34")
def test_options_of_a_watch(bucket: MakeBucket) -> None:
    config = bucket(history=3)
    for key, value in (("a", "1"), ("a", "2"), ("b", "3")):
        config.put(key, value)
    config.delete("b", marker=True)
    with config.watch("a", include_history=True) as entries:
        assert seen(entries, 2) == [("a", "PUT", "1"), ("a", "PUT", "2")]
    with config.watch_all(include_history=True, mode="nats") as entries:
        assert seen(entries, 5) == [
            ("a", "PUT", "1"),
            ("a", "PUT", "2"),
            ("b", "PUT", "3"),
            ("b", "DEL", ""),
            None,
        ]
    with config.watch_all(ignore_deletes=True, mode="nats") as entries:
        assert seen(entries, 2) == [("a", "PUT", "2"), None]
        config.purge("a")
        config.put("c", "4")
        assert seen(entries, 1) == [("c", "PUT", "4")]
    with config.watch_all(meta_only=True) as entries:
        found = next(entries)
        assert found is not None
        assert (found.key, found.operation, found.value, found.raw) == ("b", "PUT", None, b"")
    with config.watch_all(updates_only=True) as entries:
        assert next(entries) is None
        config.put("d", "5")
        assert seen(entries, 1) == [("d", "PUT", "5")]
    for watch in (
        lambda: config.watch("a", include_history=True, updates_only=True),
        lambda: config.watch_all(include_history=True, updates_only=True),
    ):
        with pytest.raises(ConfigError, match="updates_only"):
            watch()


@pytest.mark.rule("KV-03", "KV-30")
def test_patterns_are_watched_in_a_bucket_with_dotted_keys(bucket: MakeBucket) -> None:
    config = bucket(dotted_keys=True, history=2)
    for key in ("orders.1", "orders.1", "orders.2", "users.1", "orders.2.items"):
        config.put(key, key)
    with config.watch("orders.*") as entries:
        assert [one.key for one in entries.initial()] == ["orders.1", "orders.2"]
        config.put("users.1", "x")
        config.put("orders.3", "y")
        assert seen(entries, 1) == [("orders.3", "PUT", "y")]
    with config.watch(["users.>", "orders.2.*"]) as entries:
        assert sorted(one.key for one in entries.initial()) == ["orders.2.items", "users.1"]
    for wrong in ("", "a..b", "a.>.b", "a b"):
        with pytest.raises(InvalidKey):
            config.watch(wrong)


def test_what_was_there_and_what_comes_after(bucket: MakeBucket) -> None:
    config = bucket()
    config.put("a", "1")
    config.put("b", "2")
    with config.watch_all() as entries:
        assert [one.key for one in entries.initial()] == ["a", "b"]
        assert list(entries.initial()) == []
        config.put("c", "3")
        assert [one.key for one in islice(entries.updates(), 1)] == ["c"]
    with config.watch_all() as entries:
        config.put("d", "4")
        assert [one.key for one in islice(entries.updates(), 1)] == ["d"]


@pytest.mark.rule("KV-35")
def test_a_watch_recovers_from_the_loss_of_its_consumer(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket(history=2)
    config.put("a", "1")
    with config.watch_all() as entries:
        assert seen(entries, 1) == [("a", "PUT", "1")]
        for round in range(2):
            lose_consumers(rg, config)
            config.put("b", f"{round}")
            config.delete("a")
            config.put("a", f"{round}")
            assert seen(entries, 3) == [
                ("b", "PUT", f"{round}"),
                ("a", "DEL", ""),
                ("a", "PUT", f"{round}"),
            ]
        assert entries.restarts == 0


@pytest.mark.rule("KV-35")
def test_a_watch_of_changes_only_misses_none(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket()
    config.put("a", "1")
    with config.watch_all(updates_only=True) as entries:
        assert next(entries) is None
        lose_consumers(rg, config)
        config.put("b", "2")
        assert seen(entries, 1) == [("b", "PUT", "2")]


@pytest.mark.rule("KV-20", "KV-35")
def test_a_watch_that_was_away_for_long_starts_anew(
    rg: railgun.Railgun, bucket: MakeBucket, clock: Clock
) -> None:
    config = bucket()
    for key in ("a", "b"):
        config.put(key, "1")
    with config.watch_all(mode="nats") as entries:
        assert seen(entries, 3) == [("a", "PUT", "1"), ("b", "PUT", "1"), None]
        lose_consumers(rg, config)
        config.delete("a")
        clock.advance(31 * 60)  # the delete is gone: nothing tells of it any more
        assert config.status().stream.state.messages == 1
        assert seen(entries, 2) == [("b", "PUT", "1"), None]
        assert entries.restarts == 1
        config.put("c", "2")
        assert seen(entries, 1) == [("c", "PUT", "2")]


@pytest.mark.rule("KV-12", "KV-35")
@pytest.mark.parametrize("again", [False, True])
def test_a_watch_of_a_deleted_bucket_ends_with_an_error(
    rg: railgun.Railgun, bucket: MakeBucket, again: bool
) -> None:
    config = bucket()
    for number in range(5):
        config.put("a", str(number))
    with config.watch_all() as entries:
        assert seen(entries, 1) == [("a", "PUT", "4")]
        config.destroy()
        if again:
            rg.create_bucket(config.config)
        for _ in range(2):
            with pytest.raises(BucketNotFound):
                next(entries)


def test_a_watch_is_closed_from_another_thread(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket()
    config.put("a", "1")
    entries = config.watch_all()
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.extend(entries), daemon=True)
    reader.start()
    wait_until(lambda: len(found) == 1, "the first entry")
    entries.close()
    entries.close()
    reader.join(20)
    assert not reader.is_alive()
    assert len(found) == 1
    wait_until(lambda: consumers(rg, config) == 0, "the consumer is gone")


def test_a_connection_that_is_closed_ends_its_watches(cluster: object, bucket: MakeBucket) -> None:
    config = bucket()
    with cluster.connect() as other:  # type: ignore[attr-defined]
        entries = other.bucket(config.name).watch_all()
        assert next(entries) is None
    with pytest.raises(ConnectionClosed):
        next(entries)


@pytest.mark.rule("KV-30", "KV-31", "KV-32")
async def test_an_async_watch(arg: railgun.AsyncRailgun, bucket: MakeBucket) -> None:
    config = await arg.bucket(bucket().name)
    async with config.watch_all() as entries:
        assert await anext(entries) is None
        await config.put("a", "1")
        assert (await anext(entries)).text == "1"  # type: ignore[union-attr]
    async with config.watch("a") as entries:
        assert [one.text async for one in entries.initial()] == ["1"]
        waiting = asyncio.create_task(anext(entries.updates()))  # type: ignore[arg-type]
        await config.put("a", "2")
        assert (await waiting).text == "2"
    async with config.watch("a") as entries:
        found = []
        async for one in entries:
            found.append(one)
            await entries.close()
        assert [one and one.text for one in found] == ["2"]
