"""A bucket against a dictionary with histories: any writes, deletes and transactions give the same values, histories, keys and
revisions, and a watch that saw every change knows the same values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import railgun
from railgun.client.transports.memory.memory_cluster import forget
from railgun.errors import KeyExists, KeyWrongLastSequence
from tests.support.naming import unique

KEYS = ("a", "b", "c")


@dataclass
class Stored:
    """One stored message of a key."""

    revision: int
    operation: str  # PUT, DEL, PURGE, or GONE for a delete that leaves nothing
    value: bytes = b""


@dataclass
class Model:
    """What a bucket must hold."""

    most: int
    last: int = 0
    keys: dict[str, list[Stored]] = field(default_factory=lambda: {key: [] for key in KEYS})

    def newest(self, key: str) -> Stored | None:
        return self.keys[key][-1] if self.keys[key] else None

    def value(self, key: str) -> Stored | None:
        newest = self.newest(key)
        return newest if newest is not None and newest.operation == "PUT" else None

    def revision(self, key: str) -> int:
        newest = self.newest(key)
        return 0 if newest is None else newest.revision

    def store(self, key: str, operation: str, value: bytes = b"") -> int:
        self.last += 1
        kept = [] if operation in ("PURGE", "GONE") else self.keys[key]
        self.keys[key] = [*kept, Stored(self.last, operation, value)][-self.most :]
        return self.last

    def history(self, key: str) -> list[Stored]:
        return [one for one in self.keys[key] if one.operation != "GONE"]

    def refuses(self, step: Any) -> type[Exception] | None:
        """The error of a write, None if it is stored."""
        name, key, _, off = step
        if name == "create":
            return KeyExists if self.value(key) else None
        if name in ("update", "delete_expecting") and off:
            return KeyWrongLastSequence
        return None

    def apply(self, step: Any) -> int:
        name, key, value, _ = step
        if name in ("put", "create", "update"):
            return self.store(key, "PUT", value)
        return self.store(
            key, {"delete": "GONE", "delete_expecting": "GONE", "mark": "DEL", "purge": "PURGE"}[name]
        )


def write(target: Any, step: Any, revision: int) -> Any:
    """One write, of a bucket or of a transaction; ``revision`` is the newest of its key."""
    name, key, value, off = step
    expected = revision + off
    match name:
        case "put" | "create":
            return getattr(target, name)(key, value)
        case "update":
            return target.update(key, value, expected)
        case "delete":
            return target.delete(key)
        case "delete_expecting":
            return target.delete(key, revision=expected)
        case "mark":
            return target.delete(key, marker=True)
        case _:
            return target.purge(key)


writes = st.tuples(
    st.sampled_from(["put", "put", "create", "update", "delete", "delete_expecting", "mark", "purge"]),
    st.sampled_from(KEYS),
    st.binary(max_size=3),
    st.sampled_from([0, 0, 1]),  # added to the revision that is right
)
removals = st.sampled_from([("compact", "a", 1), ("compact", "b", 2), ("purge_deletes",), ("purge_all",)])
transactions = st.lists(writes, max_size=3, unique_by=lambda step: step[1])
histories = st.lists(st.one_of(writes, writes, removals, transactions), max_size=25)


class Pair:
    """A bucket and its model, driven together, with a watch beside them."""

    def __init__(self, bucket: railgun.Bucket, watch: railgun.Watch, most: int) -> None:
        self.bucket, self.watch, self.model = bucket, watch, Model(most)
        self.watched: dict[str, bytes] = {}
        self.seen = 0

    def drive(self, step: Any) -> None:
        if isinstance(step, list):
            self.transact(step)
        elif step[0] == "compact":
            _, key, keep = step
            self.bucket.compact(key, keep)
            self.model.keys[key] = self.model.keys[key][-keep:]
        elif step[0] == "purge_deletes":
            self.bucket.purge_deletes(0)
            for key in KEYS:
                if self.model.value(key) is None:
                    self.model.keys[key] = []
        elif step[0] == "purge_all":
            self.catch_up()  # a watch is not told of it
            self.bucket.purge_all()
            self.model.keys, self.watched = {key: [] for key in KEYS}, {}
        else:
            self.write(step)

    def write(self, step: Any) -> None:
        revision, refused = self.model.revision(step[1]), self.refused(step)
        if refused is None:
            assert write(self.bucket, step, revision) == self.model.apply(step)
        else:
            with pytest.raises(refused) as caught:
                write(self.bucket, step, revision)
            assert caught.value.key == step[1]  # type: ignore[attr-defined]

    def refused(self, step: Any) -> type[Exception] | None:
        name, key, _, off = step
        if name == "update" and self.model.revision(key) + off == 0:  # must not exist
            return KeyWrongLastSequence if self.model.value(key) else None
        return self.model.refuses(step)

    def transact(self, steps: list[Any]) -> None:
        revisions = {step[1]: self.model.revision(step[1]) for step in steps}

        def changed() -> dict[str, int]:
            with self.bucket.transaction() as t:
                for step in steps:
                    write(t, step, revisions[step[1]])
            return t.revisions

        refused = [(step[1], error) for step in steps if (error := self.refused(step)) is not None]
        if not refused:
            assert changed() == {step[1]: self.model.apply(step) for step in steps}
            return
        with pytest.raises(tuple({error for _, error in refused})) as caught:
            changed()
        assert caught.value.key in (None, *(key for key, _ in refused))  # type: ignore[attr-defined]
        if len(refused) == 1:
            assert caught.value.key == refused[0][0]  # type: ignore[attr-defined]

    def catch_up(self) -> None:
        while self.seen < self.model.last:
            entry = next(self.watch)
            assert entry is not None
            assert entry.revision > self.seen
            self.seen = entry.revision
            if entry.is_value:
                self.watched[entry.key] = entry.raw
            else:
                self.watched.pop(entry.key, None)

    def compare(self) -> None:
        model, bucket = self.model, self.bucket
        values = {key: found for key in KEYS if (found := model.value(key)) is not None}
        assert sorted(bucket.keys()) == sorted(values)
        assert {key: (one.revision, one.raw) for key, one in bucket.get_many(KEYS).items()} == {
            key: (one.revision, one.value) for key, one in values.items()
        }
        stored = 0
        for key in KEYS:
            found = bucket.get(key, None)
            assert (found and found.revision) == (values[key].revision if key in values else None)
            kept = model.history(key)
            shown = [(one.revision, one.operation, one.raw, one.delta) for one in bucket.history(key)]
            assert shown == [
                (one.revision, one.operation, one.value, len(kept) - place)
                for place, one in enumerate(kept, 1)
            ]
            for one in kept:
                at = bucket.get(key, None, revision=one.revision)
                assert (at and at.raw) == (one.value if one.operation == "PUT" else None)
            stored += sum(one.operation == "PUT" for one in kept)
        assert bucket.status().values == stored
        self.catch_up()
        assert self.watched == {key: one.value for key, one in values.items()}


@pytest.mark.rule("KV-13", "KV-17", "KV-18", "KV-20", "KV-28")
@settings(max_examples=150)
@given(steps=histories, most=st.integers(1, 3))
def test_a_bucket_is_a_dictionary_with_histories(steps: list[Any], most: int) -> None:
    name = unique("model")
    try:
        with railgun.connect(f"memory://{name}") as rg:
            bucket = rg.create_bucket("MODEL", history=most)
            with bucket.watch_all(updates_only=True) as watch:
                assert next(watch) is None
                pair = Pair(bucket, watch, most)
                for step in steps:
                    pair.drive(step)
                pair.compare()
    finally:
        forget(name)
