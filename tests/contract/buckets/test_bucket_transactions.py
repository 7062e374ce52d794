"""Changes of several keys of a bucket at once: all are stored, or none is."""

from __future__ import annotations

from typing import Any

import pytest

import railgun
from railgun.errors import BucketNotFound, ConfigError, KeyExists, KeyWrongLastSequence
from tests.support.buckets import MakeBucket

Change = tuple[Any, ...]


def change(config: railgun.Bucket, *calls: Change) -> railgun.BucketTransaction:
    """A transaction of these calls: a method, and what it is given."""
    with config.transaction() as t:
        for name, *arguments in calls:
            getattr(t, name)(*arguments)
    return t


def values(config: railgun.Bucket, *keys: str) -> dict[str, str]:
    return {key: entry.text for key, entry in config.get_many(keys).items()}


@pytest.mark.rule("KV-10", "KV-13")
def test_changes_are_stored_together(bucket: MakeBucket) -> None:
    config = bucket(history=3)
    old = {key: config.put(key, "old") for key in ("put", "updated", "deleted", "purged")}
    with config.transaction() as t:
        t.put("put", "1")
        t.create("created", "2")
        t.update("updated", "3", old["updated"])
        t.delete("deleted", revision=old["deleted"])
        t.purge("purged")
        assert len(t) == 5
        assert config.get("put").text == "old"
    assert t.revisions == {"put": 5, "created": 6, "updated": 7, "deleted": 8, "purged": 9}
    assert values(config, *t.revisions) == {"put": "1", "created": "2", "updated": "3"}
    assert config.get("updated").revision == t.revisions["updated"]
    assert [entry.operation for entry in config.history("purged")] == ["PURGE"]
    assert config.history("deleted") == []


@pytest.mark.rule("KV-18", "KV-24")
@pytest.mark.parametrize("how", ["update", "delete", "purge"])
def test_a_wrong_revision_refuses_all_and_is_named(bucket: MakeBucket, how: str) -> None:
    config = bucket()
    right, first = config.put("right", "1"), config.put("wrong", "1")
    newest = config.put("wrong", "2")

    def changed() -> None:
        with config.transaction() as t:
            t.put("other", "x")
            t.update("right", "x", right)
            if how == "update":
                t.update("wrong", "x", first)
            else:
                getattr(t, how)("wrong", revision=first)

    with pytest.raises(KeyWrongLastSequence) as caught:
        changed()
    assert (caught.value.key, caught.value.actual) == ("wrong", newest)
    assert values(config, "other", "right", "wrong") == {"right": "1", "wrong": "2"}


@pytest.mark.rule("KV-17", "KV-18")
def test_creates_of_a_transaction(bucket: MakeBucket) -> None:
    config = bucket(history=3)
    config.put("there", "1")
    for key, delete in (("deleted", config.delete), ("purged", config.purge)):
        config.put(key, "1")
        delete(key)
    with config.transaction() as t:
        t.create("new", "x")
        t.create("deleted", "x")
        t.update("purged", "x", 0)
    assert values(config, "new", "deleted", "purged") == {"new": "x", "deleted": "x", "purged": "x"}
    with pytest.raises(KeyExists) as caught:
        change(config, ("put", "other", "x"), ("create", "there", "x"))
    assert caught.value.key == "there"
    with pytest.raises(KeyWrongLastSequence) as refused:
        change(config, ("put", "other", "x"), ("update", "there", "x", 0))
    assert refused.value.key == "there"
    assert config.get("other", None) is None


def test_a_transaction_that_is_given_up_or_empty(bucket: MakeBucket) -> None:
    config = bucket()
    with pytest.raises(AttributeError):
        change(config, ("put", "a", "1"), ("no_such_method",))
    with config.transaction() as empty:
        pass
    assert empty.revisions == {}
    assert config.status().stream.state.last_seq == 0


def test_a_transaction_is_used_once_and_changes_a_key_once(bucket: MakeBucket) -> None:
    config = bucket()
    with config.transaction() as t:
        t.put("a", "1")
        with pytest.raises(ConfigError, match="changed twice"):
            t.delete("a")
        with pytest.raises(ConfigError, match="is not a valid revision"):
            t.update("b", "1", -1)
    assert values(config, "a") == {"a": "1"}
    with pytest.raises(ConfigError, match="inside the block"):
        t.put("b", "1")
    with pytest.raises(ConfigError, match="used before"):
        t.__enter__()


def test_a_transaction_of_a_bucket_that_is_gone(bucket: MakeBucket) -> None:
    config = bucket()
    config.destroy()
    for how in ("put", "create"):
        with pytest.raises(BucketNotFound):
            change(config, (how, "a", "1"))


async def test_an_async_transaction(arg: railgun.AsyncRailgun, bucket: MakeBucket) -> None:
    config = await arg.bucket(bucket().name)
    async with config.transaction() as t:
        t.put("a", "1")
        t.create("b", "2")
    assert t.revisions == {"a": 1, "b": 2}
    assert (await config.get("b")).text == "2"
