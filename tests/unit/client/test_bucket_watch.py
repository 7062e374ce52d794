"""A watch whose consumer is lost at an awkward moment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import railgun
from railgun.client.consuming.delivery import Delivery
from railgun.errors import NoWorker

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def bucket(rg: railgun.Railgun) -> railgun.Bucket:
    """A bucket with two values of each of three keys."""
    made = rg.create_bucket("B", history=2)
    for key in ("a", "b", "c"):
        made.put(key, "old")
        made.put(key, "new")
    return made


def shown(entries: Iterator[railgun.Entry]) -> list[tuple[str, str]]:
    return [(one.key, one.text) for one in entries]


@pytest.mark.rule("KV-33", "KV-35")
def test_newest_values_are_delivered_once_although_the_consumer_is_lost(bucket: railgun.Bucket) -> None:
    with bucket.watch_all(mode="nats") as entries:
        buffer = entries._watch._buffer
        assert buffer is not None
        del buffer.ready[1]  # a delivery that is lost on its way
        assert shown(entries.initial()) == [("a", "new"), ("b", "new"), ("c", "new")]
        bucket.put("a", "newer")
        assert next(entries).text == "newer"  # type: ignore[union-attr]


@pytest.mark.rule("KV-32", "KV-35")
def test_what_was_there_ends_although_it_was_removed_on_its_way(bucket: railgun.Bucket) -> None:
    with bucket.watch_all() as entries:
        buffer = entries._watch._buffer
        assert buffer is not None
        buffer.ready.clear()
        bucket.purge_all()
        assert next(entries) is None


@pytest.mark.rule("KV-33")
def test_a_heartbeat_ends_what_was_there(bucket: railgun.Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Delivery, "pending", 5)  # as if more had been left, which was then removed
    with bucket.watch_all(mode="nats") as entries:
        assert len(list(entries.initial())) == 3


@pytest.mark.rule("KV-35")
def test_a_watch_that_has_begun_waits_for_a_worker(
    bucket: railgun.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bucket.watch("a") as entries:
        assert shown(entries.initial()) == [("a", "new")]
        watch = entries._watch
        begin, refusals = watch._begin, []

        def no_worker() -> object:
            refusals.append(1)
            if len(refusals) < 3:
                raise NoWorker("no worker answers")
            return begin()

        monkeypatch.setattr(watch, "_begin", no_worker)
        assert watch._buffer is not None
        watch._buffer.close()
        watch._buffer = None
        bucket.put("a", "newer")
        assert next(entries).text == "newer"  # type: ignore[union-attr]
        assert len(refusals) == 3
    unbegun = bucket.watch("a")
    refusals.clear()
    monkeypatch.setattr(unbegun._watch, "_begin", no_worker)
    with pytest.raises(NoWorker):
        next(unbegun)


def test_a_watch_that_is_forgotten_leaves_nothing(bucket: railgun.Bucket) -> None:
    entries = bucket.watch_all()
    assert next(entries) is not None
    watch = entries._watch
    del entries
    assert watch.closed
