"""Replicas of a bucket (KV-47 … KV-49): read there, written at the bucket itself."""

from __future__ import annotations

import pytest

import railgun
from railgun.errors import BadBucket, BucketNotFound, ConfigError, KeyExists
from tests.support.buckets import MakeBucket
from tests.support.naming import unique
from tests.support.waiting import wait_until


@pytest.mark.rule("KV-47", "KV-48", "KV-45")
def test_a_replica_is_read_and_its_bucket_is_written(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket(history=3)
    config.put("a", "1")
    copy = config.create_replica(unique("COPY"))
    assert (copy.may_be_stale, config.may_be_stale) == (True, False)
    assert copy.put("b", "2") == 2, "it is written to the bucket"
    assert config.get("b").text == "2"
    wait_until(lambda: copy.get("b", None) is not None, "it is copied", 20)
    assert [(one.text, one.revision) for one in copy.get_many(["a", "b"]).values()] == [("1", 1), ("2", 2)]
    assert sorted(copy.keys()) == ["a", "b"]
    status = copy.status()
    assert (status.is_replica, status.lag, status.values) == (True, 0, 2)
    assert status.active is not None
    assert (config.status().is_replica, config.status().lag) == (False, None)
    with copy.watch("a") as entries:
        found = next(iter(entries))
        assert found is not None
        assert found.text == "1"
    rg.delete_bucket(copy.name)
    assert config.get("a").text == "1"


@pytest.mark.rule("KV-47", "KV-17", "KV-18")
def test_conditions_of_writes_are_those_of_the_bucket(bucket: MakeBucket, rg: railgun.Railgun) -> None:
    config = bucket()
    copy = config.create_replica(unique("COPY"))
    config.put("a", "1")
    with pytest.raises(KeyExists):
        copy.create("a", "2")
    assert copy.update("a", "2", 1) == 2
    with copy.transaction() as changes:
        changes.update("a", "3", 2)
        changes.create("b", "1")
    assert config.get("a").text == "3"
    copy.delete("b")
    assert config.get("b", None) is None
    wait_until(lambda: copy.status().stream.state.last_seq == 5, "all is copied", 20)
    assert copy.get("b", None) is None
    with pytest.raises(ConfigError, match="say which one"):
        copy.destroy()
    rg.delete_bucket(copy.name)


@pytest.mark.rule("KV-49")
def test_a_replica_under_its_own_name_takes_no_values(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket()
    config.put("a", "1")
    name = config.create_replica(unique("COPY")).name
    alone = rg.bucket(name)
    wait_until(lambda: alone.get("a", None) is not None, "it is copied", 20)
    assert alone.may_be_stale
    for write in (alone.put, alone.create):
        with pytest.raises(ConfigError, match="is a replica and takes no values"):
            write("a", "2")
    with pytest.raises(ConfigError, match="is a replica"):
        alone.delete("a")
    assert rg.stream(alone.config.stream).info().config.subjects == []
    assert config.get("a").text == "1"
    rg.delete_bucket(name)


@pytest.mark.rule("KV-47", "KV-20", "KV-28")
def test_a_delete_hides_what_the_replica_still_has(bucket: MakeBucket, rg: railgun.Railgun) -> None:
    config = bucket(history=5)
    copy = config.create_replica(unique("COPY"))
    config.put("a", "1")
    config.put("a", "2")
    config.delete("a")
    wait_until(lambda: copy.status().stream.state.last_seq == 3, "all is copied", 20)
    assert (copy.get("a", None), copy.history("a")) == (None, [])
    config.put("a", "3")
    wait_until(lambda: copy.get("a", None) is not None, "it is copied", 20)
    assert [one.text for one in copy.history("a")] == ["3"]
    rg.delete_bucket(copy.name)


@pytest.mark.rule("KV-47", "KV-41")
def test_a_replica_has_the_settings_and_codecs_of_its_bucket(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    made = bucket(history=2, dotted_keys=True)
    config = rg.bucket(
        made.name, key_codec=railgun.codecs.PathKeys(), value_codec=railgun.codecs.JsonValues()
    )
    copy = config.create_replica(unique("COPY"), description="near")
    config.put("/a/b", {"x": 1})
    wait_until(lambda: copy.get("/a/b", None) is not None, "it is copied", 20)
    assert copy.get("/a/b").value == {"x": 1}
    settings = copy.config
    assert (settings.history, settings.dotted_keys, settings.description) == (2, True, "near")
    assert (settings.replica_of, settings.stream) == (made.name, f"KV_{copy.name}")
    assert config.create_replica(copy.name, description="near").name == copy.name
    assert config.replica(copy.name).config == settings
    rg.delete_bucket(copy.name)


@pytest.mark.rule("KV-47")
@pytest.mark.parametrize("field", ["mirror", "replica_of"])
def test_a_replica_is_made_as_any_bucket(rg: railgun.Railgun, bucket: MakeBucket, field: str) -> None:
    config = bucket()
    config.put("a", "1")
    named = {"mirror": config.config.stream, "replica_of": config.name}
    alone = rg.create_bucket(unique("COPY"), **{field: named[field]})
    wait_until(lambda: alone.get("a", None) is not None, "it is copied", 20)
    assert config.replica(alone.name).config == rg.bucket(alone.name).config
    rg.delete_bucket(alone.name)


@pytest.mark.rule("KV-12", "KV-47")
def test_what_is_not_a_replica_of_this_bucket_is_refused(bucket: MakeBucket) -> None:
    config, other = bucket(), bucket("OTHER")
    with pytest.raises(BucketNotFound):
        config.replica("NOWHERE")
    with pytest.raises(BadBucket, match="is not a replica of"):
        config.replica(other.name)


@pytest.mark.rule("KV-50")
def test_the_cache_of_a_replica_watches_the_bucket_itself(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket()
    copy = config.create_replica(unique("COPY"))
    with copy.cached() as cache:
        assert cache.wait_ready(20)
        assert rg.stream(copy.config.stream).consumers() == []
        assert len(rg.stream(config.config.stream).consumers()) == 1
        revision = cache.put("a", "1")
        assert cache.get("a").revision == revision
    rg.delete_bucket(copy.name)


@pytest.mark.rule("KV-47", "KV-48")
async def test_an_async_replica(arg: railgun.AsyncRailgun, bucket: MakeBucket) -> None:
    config = await arg.bucket(bucket().name)
    copy = await config.create_replica(unique("COPY"))
    await copy.put("a", "1")
    assert (await config.get("a")).text == "1"
    assert (await (await config.replica(copy.name)).status()).is_replica
    await arg.delete_bucket(copy.name)


@pytest.mark.rule("KV-47")
def test_a_replica_of_a_replica_has_the_keys_of_the_bucket(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket()
    config.put("a", "1")
    near = config.create_replica(unique("NEAR"))
    far = rg.bucket(near.config.bucket).create_replica(unique("FAR"))
    wait_until(lambda: far.get("a", None) is not None, "it is copied", 20)
    assert list(rg.bucket(far.config.bucket).keys()) == ["a"]
    rg.delete_bucket(far.config.bucket)
    rg.delete_bucket(near.config.bucket)
