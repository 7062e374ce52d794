"""Keys of a bucket (KV): which there may be, and how they are listed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import railgun
from railgun.errors import InvalidKey
from tests.support.buckets import MakeBucket


def writes(config: railgun.Bucket, key: str) -> list[Callable[[], object]]:
    def changed() -> None:
        with config.transaction() as t:
            t.put(key, "1")

    return [
        lambda: config.put(key, "1"),
        lambda: config.create(key, "1"),
        lambda: config.update(key, "1", 1),
        lambda: config.delete(key),
        lambda: config.purge(key),
        lambda: config.compact(key, 1),
        changed,
    ]


def reads(config: railgun.Bucket, key: str) -> list[Callable[[], object]]:
    return [
        lambda: config.get(key, None),
        lambda: config.get_many([key]),
        lambda: config.history(key),
    ]


@pytest.mark.rule("KV-02", "KV-03")
def test_keys_that_a_bucket_takes_and_refuses(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket()
    taken = ["a", "-", "_", "/", "/etc/hosts", "A-z_09", "0"]
    for key in taken:
        config.put(key, key)
        assert config.get(key).text == key
    assert sorted(config.keys()) == sorted(taken)
    last = config.status().stream.state.last_seq
    for key in ("", "a b", "a.b", "a=b", ".", "*", ">", "a.*", "ü", "a\n", "\n", "a\0", "$"):
        for call in (*writes(config, key), *reads(config, key)):
            with pytest.raises(InvalidKey, match="is not a valid key") as caught:
                call()
            assert caught.value.key == key
    with pytest.raises(InvalidKey):
        config.put(5, "1")  # type: ignore[arg-type]
    assert config.status().stream.state.last_seq == last


@pytest.mark.rule("KV-03")
def test_a_bucket_with_dotted_keys(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket(dotted_keys=True)
    assert rg.stream(config.config.stream).info().config.subjects == [f"kv.{config.name}.>"]
    taken = ["a", "a.b", "a.b=c", "=", "a/b.c", "x.y.z"]
    for key in taken:
        config.put(key, key)
        assert config.get(key).text == key
    assert sorted(config.keys()) == sorted(taken)
    for key in ("", ".", ".a", "a.", "a..b", "*", "a.*", ">", "a b"):
        for call in (*writes(config, key), *reads(config, key)):
            with pytest.raises(InvalidKey):
                call()


@pytest.mark.rule("KV-04")
def test_reserved_keys_are_not_written(bucket: MakeBucket) -> None:
    for config in (bucket(), bucket(dotted_keys=True)):
        for key in ("_kv", "_kv_x", "_kvs"):
            for call in writes(config, key):
                with pytest.raises(InvalidKey, match="reserved"):
                    call()
            assert config.get(key, None) is None
        config.put("_k", "1")
        assert config.status().values == 1


class _Shouting:
    """A codec that stores keys in capitals."""

    keeps_wildcards = False

    def encode(self, key: str) -> str:
        if key == "impossible":
            raise ValueError("this codec does not know it")
        return {"Acme Inc.": "ACME", "low": "_kvlow"}.get(key, key)

    def decode(self, key: str) -> str:
        return {"ACME": "Acme Inc."}.get(key, key)


@pytest.mark.rule("KV-02", "KV-04")
def test_keys_are_judged_after_they_were_encoded(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = rg.bucket(bucket().name, key_codec=_Shouting())
    config.put("Acme Inc.", "1")
    assert config.get("Acme Inc.").key == "Acme Inc."
    assert list(config.keys()) == ["Acme Inc."]
    with pytest.raises(InvalidKey, match="reserved"):
        config.put("low", "1")
    with pytest.raises(InvalidKey, match="does not know"):
        config.put("impossible", "1")
    with pytest.raises(InvalidKey):
        config.put("b c", "1")


@pytest.mark.rule("KV-29")
def test_keys_lists_each_key_that_has_a_value(bucket: MakeBucket) -> None:
    config = bucket(history=3)
    assert list(config.keys()) == []
    for key in ("a", "b", "c", "d", "a"):
        config.put(key, "1")
    config.delete("b")
    config.delete("c", marker=True)
    config.purge("d")
    assert list(config.keys()) == ["a"]
    config.put("c", "2")
    assert sorted(config.keys()) == ["a", "c"]
    config.purge_all()
    assert list(config.keys()) == []


@pytest.mark.rule("KV-29")
def test_keys_are_filtered(bucket: MakeBucket) -> None:
    config = bucket(dotted_keys=True)
    for key in ("orders.1", "orders.2", "orders.2.items", "users.1", "users"):
        config.put(key, "x")
    config.delete("orders.1")

    def listed(filter: str | list[str] | None) -> list[str]:
        return sorted(config.keys(filter))

    assert listed("orders.*") == ["orders.2"]
    assert listed("orders.>") == ["orders.2", "orders.2.items"]
    assert listed("*") == ["users"]
    assert listed("users.1") == ["users.1"]
    assert listed(["users.*", "orders.2"]) == ["orders.2", "users.1"]
    assert listed(">") == listed(None) == ["orders.2", "orders.2.items", "users", "users.1"]
    for wrong in ("", "a.>.b", "a b", ".a", "a."):
        with pytest.raises(InvalidKey):
            listed(wrong)


@pytest.mark.rule("KV-29")
def test_there_may_be_many_keys(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    config = bucket()
    subjects = [f"kv.{config.name}.key-{number:04}" for number in range(1_500)]
    for subject in subjects:
        rg.publish_soon(subject, b"x" * 10)
    rg.flush()
    config.delete("key-0003")
    found = list(config.keys())
    assert len(found) == 1_499
    assert sorted(found) == [f"key-{number:04}" for number in range(1_500) if number != 3]
    assert len(config.get_many(found)) == 1_499
