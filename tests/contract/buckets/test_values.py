"""Values of a bucket (KV): put, get, create, update, and the revisions that they have."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import railgun
from railgun.errors import KeyExists, KeyNotFound, KeyWrongLastSequence, WrongLastSequence
from tests.support.buckets import MakeBucket


@pytest.mark.rule("KV-13", "KV-14", "KV-19")
def test_a_value_is_there_once_put_returned(bucket: MakeBucket) -> None:
    config = bucket(history=3)
    assert [config.put("port", "1"), config.put("host", "h"), config.put("port", b"2")] == [1, 2, 3]
    found = config.get("port")
    assert (found.bucket, found.key, found.value, found.revision) == (config.name, "port", b"2", 3)
    assert (found.operation, found.delta, found.text, found.json(), found.error) == ("PUT", 0, "2", 2, None)
    assert found.created.tzinfo is not None
    for number in range(20):
        revision = config.put("counted", str(number))
        assert (config.get("counted").revision, config.get("counted").text) == (revision, str(number))


@pytest.mark.rule("KV-40")
def test_a_value_says_where_it_was_stored_and_no_publisher_says_it_instead(
    rg: railgun.Railgun, bucket: MakeBucket
) -> None:
    config = bucket(history=2)
    config.put("port", "1")
    forged = {"KV-Origin-Server": "forged", "KV-Origin-Cluster": "forged", "Trace": "7"}
    rg.publish(f"kv.{config.name}.port", "2", headers=forged)
    by_put, by_publish = (dict(one.headers) for one in rg.stream(config.config.stream).read())
    assert by_put.keys() == {"KV-Origin-Server", "KV-Origin-Cluster"}
    assert all(by_put.values())
    assert by_publish == {"Trace": b"7", **by_put}


@pytest.mark.rule("KV-14", "KV-16")
def test_a_missing_key_is_a_key_error(bucket: MakeBucket) -> None:
    config = bucket()
    with pytest.raises(KeyNotFound) as caught:
        config.get("nothing")
    assert isinstance(caught.value, KeyError)
    assert (caught.value.bucket, caught.value.key) == (config.name, "nothing")
    assert str(caught.value) == f"the bucket {config.name!r} has no value of the key 'nothing'"
    assert config.get("nothing", None) is None
    assert config.get("nothing", "else") == "else"


@pytest.mark.rule("KV-15")
def test_a_revision_belongs_to_one_key(bucket: MakeBucket) -> None:
    config = bucket(history=2)
    first, other, second = config.put("a", "1"), config.put("b", "x"), config.put("a", "2")
    assert config.get("a", revision=first).text == "1"
    assert config.get("a", revision=second).text == "2"
    config.put("a", "3")  # pushes the first out
    for revision in (first, other, 99, 0, -1):
        with pytest.raises(KeyNotFound):
            config.get("a", revision=revision)
    assert config.get("a", None, revision=first) is None


@pytest.mark.rule("KV-17")
def test_create_needs_a_key_without_a_value(bucket: MakeBucket) -> None:
    config = bucket(history=2)
    assert config.create("a", "1") == 1
    with pytest.raises(KeyExists) as caught:
        config.create("a", "2")
    assert isinstance(caught.value, WrongLastSequence)
    assert (caught.value.key, caught.value.err_code, caught.value.actual) == ("a", 10071, 1)
    config.delete("a")
    config.create("a", "3")
    config.delete("a", marker=True)
    config.create("a", "4")
    config.purge("a")
    config.create("a", "5")
    assert config.get("a").text == "5"
    with pytest.raises(KeyExists):
        config.create("a", "6")


@pytest.mark.rule("KV-18")
def test_update_needs_the_newest_revision(bucket: MakeBucket) -> None:
    config = bucket()
    first = config.put("a", "1")
    config.put("b", "x")
    second = config.update("a", "2", first)
    with pytest.raises(KeyWrongLastSequence) as caught:
        config.update("a", "3", first)
    assert (caught.value.key, caught.value.err_code, caught.value.code) == ("a", 10071, 400)
    assert caught.value.description == f"wrong last sequence: {second}"
    assert config.get("a").text == "2"


@pytest.mark.rule("KV-18")
def test_an_update_of_revision_0_needs_a_key_without_a_value(bucket: MakeBucket) -> None:
    config = bucket()
    config.update("a", "1", 0)
    with pytest.raises(KeyWrongLastSequence):
        config.update("a", "2", 0)
    config.delete("a")
    config.update("a", "3", 0)
    assert config.get("a").text == "3"
    for wrong in (-1, "1", None):
        with pytest.raises(railgun.ConfigError, match="is not a valid revision"):
            config.update("a", "4", wrong)  # type: ignore[arg-type]


def together(count: int, what: Callable[[int], object]) -> None:
    """Call it from so many threads at once."""
    with ThreadPoolExecutor(count) as threads:
        list(threads.map(what, range(count)))


@pytest.mark.rule("KV-17", "KV-18")
def test_of_many_writers_one_wins_each_time(bucket: MakeBucket) -> None:
    config = bucket()
    config.put("deleted", "x")
    config.delete("deleted")
    created: list[tuple[str, int]] = []

    def create(number: int) -> None:
        for key in ("new", "deleted"):
            with contextlib.suppress(KeyExists):
                created.append((key, config.create(key, str(number))))

    def count(_: int) -> None:
        for _ in range(5):
            while True:
                found = config.get("count")
                try:
                    config.update("count", str(found.json() + 1), found.revision)
                    break
                except KeyWrongLastSequence:
                    continue

    together(4, create)
    assert sorted(key for key, _ in created) == ["deleted", "new"]
    assert {key: config.get(key).revision for key, _ in created} == dict(created)
    config.put("count", "0")
    together(4, count)
    assert config.get("count").text == "20"


@pytest.mark.rule("KV-46")
def test_values_are_bytes_and_come_back_exactly(bucket: MakeBucket) -> None:
    config = bucket()
    for value in (b"", bytes(range(256)), b"x" * 100_000, "grüße"):
        config.put("a", value)
        stored = value.encode() if isinstance(value, str) else value
        found = config.get("a")
        assert (found.value, found.raw, found.operation) == (stored, stored, "PUT")
        assert config.get_many(["a"])["a"].raw == stored
        assert config.history("a")[-1].raw == stored
    with pytest.raises(railgun.ConfigError, match="int is not a valid payload"):
        config.put("a", 5)


@pytest.mark.rule("KV-14")
def test_many_keys_are_read_together(bucket: MakeBucket) -> None:
    config = bucket()
    for number in range(30):
        config.put(f"key-{number}", str(number))
    config.delete("key-7")
    found = config.get_many([f"key-{number}" for number in (29, 7, 3, 99)])
    assert {key: entry.text for key, entry in found.items()} == {"key-29": "29", "key-3": "3"}
    assert list(found) == ["key-29", "key-3"]
    assert config.get_many([]) == {}


@pytest.mark.rule("KV-14", "KV-19")
async def test_the_async_bucket_has_the_same_calls(arg: railgun.AsyncRailgun, bucket: MakeBucket) -> None:
    config = await arg.bucket(bucket().name)
    await config.put("a", "1")
    assert (await config.get("a")).text == "1"
    assert await config.get("b", None) is None
    assert [key async for key in config.keys()] == ["a"]
    await config.delete("a")
    with pytest.raises(KeyError):
        await config.get("a")


@pytest.mark.rule("KV-15")
def test_revisions_that_cannot_be(bucket: MakeBucket) -> None:
    config = bucket()
    config.put("a", "1")
    for beyond in (0, -1, 2, 2**63, 2**70):
        assert config.get("a", None, revision=beyond) is None
    with pytest.raises(railgun.ConfigError, match="is not a valid revision"):
        config.get("a", revision="1")  # type: ignore[call-overload]


@pytest.mark.rule("KV-02")
@pytest.mark.parametrize("wrong", [5, b"a", ["a", 5], [None]])
def test_keys_that_are_no_text(bucket: MakeBucket, wrong: Any) -> None:
    config = bucket()
    for call in (config.keys, config.watch):
        with pytest.raises(railgun.InvalidKey, match="give a text"):
            list(call(wrong))
