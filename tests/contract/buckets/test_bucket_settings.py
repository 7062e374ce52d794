"""Settings of a bucket (KV): its name, its stream, what it passes on, and which streams are buckets."""

from __future__ import annotations

from datetime import timedelta

import pytest

import railgun
from railgun import BucketConfig, StreamConfig
from railgun.errors import (
    BadBucket,
    BucketNotFound,
    ConfigError,
    InvalidBucketName,
    KeyHistoryTooLarge,
    StreamNameTaken,
    StreamNotFound,
)
from tests.support.buckets import MakeBucket
from tests.support.naming import unique
from tests.support.streams import Make, Unique


def stream_of(rg: railgun.Railgun, bucket: railgun.Bucket) -> StreamConfig:
    return rg.stream(bucket.config.stream).info().config


@pytest.mark.rule("KV-01")
def test_the_name_of_a_bucket(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    assert bucket("Some-1_name").put("a", "1") == 1
    for name in ("", "a.b", "a b", "ü", "a*", "a>", "a/b", "a\n"):
        for call in (rg.create_bucket, rg.bucket, rg.delete_bucket):
            with pytest.raises(InvalidBucketName, match="is not a valid name of a bucket"):
                call(name)


@pytest.mark.rule("KV-05", "KV-06", "KV-07", "KV-10")
def test_the_stream_of_a_bucket(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket()
    stream = stream_of(rg, config)
    assert (stream.name, stream.subjects) == (f"KV_{config.name}", [f"kv.{config.name}.*"])
    assert (stream.retention, stream.max_msgs_per_subject, stream.discard) == ("limits", 1, "old")
    assert (stream.allow_rollup_hdrs, stream.allow_direct, stream.allow_atomic) == (True, True, True)
    assert (stream.deny_delete, stream.allow_msg_ttl) == (False, True)
    assert stream.metadata is not None
    assert stream.metadata["_railgun.bucket"] == config.name
    config.put("some/key", "1")
    assert rg.stream(stream.name).get_last(f"kv.{config.name}.some/key").text == "1"


@pytest.mark.rule("KV-05", "KV-06")
def test_stream_and_subjects_can_have_other_names(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    name, prefix = unique("STREAM"), unique("prefix")
    config = bucket(stream_name=name, subject_prefix=prefix)
    assert stream_of(rg, config).subjects == [f"{prefix}.{config.name}.*"]
    config.put("a", "1")
    assert rg.stream(name).get_last(f"{prefix}.{config.name}.a").text == "1"
    with pytest.raises(BucketNotFound):
        rg.bucket(config.name)
    again = rg.bucket(config.name, stream_name=name)
    assert again.config == config.config
    assert again.get("a").text == "1"
    with pytest.raises(BadBucket):
        rg.bucket("another", stream_name=name)
    rg.delete_bucket(config.name, stream_name=name)
    with pytest.raises(BucketNotFound):
        rg.bucket(config.name, stream_name=name)


@pytest.mark.rule("KV-03", "KV-06", "KV-10")
def test_nats_mode_is_as_nats_does_it(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket(nats_mode=True, history=4)
    stream = stream_of(rg, config)
    assert stream.subjects == [f"$KV.{config.name}.>"]
    assert (stream.discard, stream.deny_delete, stream.allow_msg_ttl) == ("new", True, False)
    assert (stream.allow_rollup_hdrs, stream.allow_direct) == (True, True)
    config.put("a.b", "1")
    config.delete("a.b")
    assert [entry.operation for entry in config.history("a.b")] == ["PUT", "DEL"]
    assert rg.bucket(config.name).config == config.config
    with_markers = bucket(nats_mode=True, limit_marker_ttl=5, subject_prefix=unique("other"))
    assert stream_of(rg, with_markers).allow_msg_ttl
    assert with_markers.config.subject_prefix.startswith("other")


@pytest.mark.rule("KV-12")
def test_a_bucket_that_another_client_made(rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("FOREIGN")
    rg.create_stream(
        StreamConfig(
            name=f"KV_{name}",
            subjects=[f"$KV.{name}.>"],
            max_msgs_per_subject=3,
            allow_rollup_hdrs=True,
            allow_direct=True,
        )
    )
    try:
        found = rg.bucket(name)
        assert (found.config.nats_mode, found.config.dotted_keys, found.config.history) == (True, True, 3)
        found.put("a.b", "1")
        found.delete("a.b")
        assert [entry.operation for entry in found.history("a.b")] == ["PUT", "DEL"]
    finally:
        rg.delete_stream(f"KV_{name}")


@pytest.mark.rule("KV-07")
def test_the_history_of_a_bucket(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    assert bucket().config.history == 1
    assert stream_of(rg, bucket(history=64)).max_msgs_per_subject == 64
    with pytest.raises(KeyHistoryTooLarge, match="65 is not a valid history"):
        rg.create_bucket(unique("LONG"), history=65)
    for wrong in (0, -1):
        with pytest.raises(ConfigError, match="is not a valid history"):
            rg.create_bucket(unique("NONE"), history=wrong)


@pytest.mark.rule("KV-08")
def test_the_life_of_values_is_the_age_of_messages(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    short = stream_of(rg, bucket(ttl=30))
    assert (short.max_age, short.duplicate_window) == (timedelta(seconds=30), timedelta(seconds=30))
    long = stream_of(rg, bucket(ttl=timedelta(hours=1)))
    assert (long.max_age, long.duplicate_window) == (timedelta(hours=1), timedelta(minutes=2))
    assert stream_of(rg, bucket()).duplicate_window == timedelta(minutes=2)


@pytest.mark.rule("KV-09")
def test_limits_pass_through_to_the_stream(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket(
        max_value_size=10, max_bytes=100_000, description="settings", storage="memory", metadata={"team": "x"}
    )
    stream = stream_of(rg, config)
    assert (stream.max_msg_size, stream.max_bytes, stream.num_replicas) == (10, 100_000, 1)
    assert (stream.description, stream.storage) == ("settings", "memory")
    assert rg.bucket(config.name).config.metadata == {"team": "x"}
    with pytest.raises(railgun.MessageRefused):
        config.put("a", "x" * 20)


@pytest.mark.rule("KV-11")
def test_creating_a_bucket_again(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket(history=3)
    config.put("a", "1")
    assert rg.create_bucket(config.name, history=3).get("a").text == "1"
    assert rg.create_bucket(config.config).get("a").text == "1"
    with pytest.raises(StreamNameTaken) as caught:
        rg.create_bucket(config.name, history=4)
    assert caught.value.err_code == 10058
    assert rg.create_bucket(config.name, history=4, or_update=True).get("a").text == "1"
    assert rg.bucket(config.name).config.history == 4


@pytest.mark.rule("KV-11", "KV-12")
def test_another_stream_never_becomes_a_bucket(rg: railgun.Railgun, make: Make) -> None:
    plain = make("PLAIN")
    with pytest.raises(StreamNameTaken):
        rg.create_bucket("B", stream_name=plain.name)
    with pytest.raises(BadBucket):
        rg.create_bucket("B", stream_name=plain.name, or_update=True)
    assert plain.info().config.subjects == [f"{plain.name}.>"]


@pytest.mark.rule("KV-06")
@pytest.mark.parametrize("prefix", ["", "*", "a.>", "a..b", ".a", "a b"])
def test_a_prefix_is_made_of_tokens(rg: railgun.Railgun, prefix: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid prefix"):
        rg.create_bucket("B", subject_prefix=prefix)


def test_a_misspelt_setting_is_refused(rg: railgun.Railgun) -> None:
    with pytest.raises(ConfigError, match="histroy"):
        rg.create_bucket("X", histroy=5)
    with pytest.raises(ValueError, match="histroy"):
        BucketConfig(bucket="X", histroy=5)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="not both"):
        rg.create_bucket(BucketConfig(bucket="X"), history=5)


def test_a_bucket_is_changed(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket(history=2, description="before")
    config.put("a", "1")
    changed = rg.update_bucket(config.name, history=5, dotted_keys=True)
    assert (changed.config.history, changed.config.description) == (5, "before")
    changed.put("a.b", "2")
    assert sorted(changed.keys()) == ["a", "a.b"]
    replaced = rg.update_bucket(BucketConfig(bucket=config.name, history=1, dotted_keys=True))
    assert rg.bucket(config.name).config == replaced.config
    assert replaced.config.description is None
    for fields in ({"subject_prefix": "other"}, {"nats_mode": True}, {"dotted_keys": False}):
        with pytest.raises(ConfigError, match="of a bucket cannot be"):
            rg.update_bucket(config.name, **fields)
    with pytest.raises(KeyHistoryTooLarge):
        rg.update_bucket(config.name, history=100)
    with pytest.raises(BucketNotFound):
        rg.update_bucket(unique("NONE"), history=2)


@pytest.mark.rule("KV-12")
def test_opening_what_is_not_there_or_not_a_bucket(rg: railgun.Railgun, make: Make) -> None:
    missing = unique("NONE")
    for call in (rg.bucket, rg.delete_bucket):
        with pytest.raises(BucketNotFound) as caught:
            call(missing)
        assert isinstance(caught.value, StreamNotFound)
        assert caught.value.bucket == missing
    plain = make("PLAIN")
    with pytest.raises(BadBucket, match="is not the bucket"):
        rg.bucket("PLAIN", stream_name=plain.name)
    per_subject = make("LIMITED", max_msgs_per_subject=5)
    with pytest.raises(BadBucket):
        rg.bucket("LIMITED", stream_name=per_subject.name)
    with pytest.raises(BadBucket):
        rg.delete_bucket("LIMITED", stream_name=per_subject.name)
    assert per_subject.info().config.name == per_subject.name


@pytest.mark.rule("KV-26")
def test_a_bucket_that_is_destroyed(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket()
    config.put("a", "1")
    config.destroy()
    calls = (
        lambda: config.get("a"),
        lambda: config.get("a", None),
        lambda: config.get_many(["a"]),
        lambda: config.history("a"),
        lambda: list(config.keys()),
        lambda: config.put("a", "1"),
        lambda: config.create("a", "1"),
        lambda: config.delete("a"),
        lambda: config.compact("a", 1),
        config.status,
        config.purge_all,
        config.destroy,
    )
    for call in calls:
        with pytest.raises(BucketNotFound):
            call()


@pytest.mark.rule("KV-45")
def test_the_status_of_a_bucket(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket(history=3, ttl=3600, limit_marker_ttl=60)
    empty = config.status()
    assert (empty.bucket, empty.values, empty.history, empty.bytes) == (config.name, 0, 3, 0)
    assert (empty.ttl, empty.limit_marker_ttl) == (timedelta(hours=1), timedelta(minutes=1))
    assert (empty.backing_store, empty.replicas) == ("railgun", 1)
    assert (empty.is_replica, empty.lag, empty.active) == (False, None, None)
    for value in ("1", "2", "3", "4"):
        config.put("a", value)
    config.put("b", "5")
    config.delete("b")
    found = config.status()
    assert found.values == 3  # history included, deletes not (KV-20)
    assert found.bytes > 0
    assert found.config == config.config
    assert config.name in [one.bucket for one in rg.buckets()]
    assert next(one for one in rg.buckets() if one.bucket == config.name).values == 3


def test_a_bucket_that_goes_while_all_are_listed(
    rg: railgun.Railgun, bucket: MakeBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays, goes = bucket(), bucket()
    listed = rg.streams()
    rg.delete_bucket(goes.name)
    monkeypatch.setattr(rg, "streams", lambda: listed)
    names = {one.bucket for one in rg.buckets()}
    assert (stays.name in names, goes.name in names) == (True, False)
