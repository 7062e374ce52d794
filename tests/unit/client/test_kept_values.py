"""The values of a cache: what may be served, whatever the order in which feed, reads and writes come."""

from __future__ import annotations

import random

import pytest

from railgun.client.buckets import kept_values
from railgun.client.buckets.kept_values import KeptValues
from railgun.errors import ConfigError
from railgun.model.bucket_entry import Entry, Operation

A, B, C = "kv.B.a", "kv.B.b", "kv.B.c"


def entry(revision: int, *, size: int = 1, operation: Operation = "PUT", ttl: bool = False) -> Entry:
    headers = [("Nats-TTL", b"5m")] if ttl else []
    raw = b"x" * size
    return Entry("B", "key", raw, raw, revision, 0, operation, headers=headers)


def ready(**entries: Entry) -> KeptValues:
    values = KeptValues()
    for name, one in entries.items():
        values.told(f"kv.B.{name}", one)
    values.told_all()
    return values


def served(values: KeptValues, subject: str) -> int | None:
    """The revision that is served; 0 if the key is known to have no value, None if the store must be asked."""
    found = values.get(subject)
    if found is not None:
        return found.revision
    return 0 if values.is_missing(subject) else None


@pytest.mark.rule("KV-51")
def test_nothing_is_served_before_everything_was_told() -> None:
    values = KeptValues()
    values.told(A, entry(1))
    assert (values.ready, served(values, A), served(values, B)) == (False, None, None)
    values.told_all()
    assert (values.ready, served(values, A), served(values, B)) == (True, 1, 0)


@pytest.mark.rule("KV-22")
def test_deletes_and_purges_are_learnt() -> None:
    values = ready(a=entry(1), b=entry(2))
    values.told(A, entry(3, operation="DEL"))
    values.told(B, entry(4, operation="PURGE"))
    assert (served(values, A), served(values, B)) == (0, 0)


@pytest.mark.rule("KV-52")
def test_a_write_drops_its_key_whatever_becomes_of_it() -> None:
    values = ready(a=entry(1), b=entry(2))
    values.begin_write(A)
    assert (served(values, A), served(values, B)) == (None, 2)  # and no `written` follows: it was refused
    ticket = values.begin_read(A)
    values.end_read(A, ticket, entry(1))
    assert served(values, A) == 1


@pytest.mark.rule("KV-52", "KV-50")
def test_nothing_older_than_an_own_write_is_served() -> None:
    values = ready(a=entry(1))
    values.begin_write(A)
    values.told(A, entry(2))  # another program's, before ours
    assert served(values, A) == 2, "ours is not stored yet"
    values.written(A, 4)
    assert served(values, A) is None
    values.told(A, entry(3))  # late
    assert served(values, A) is None
    values.told(A, entry(4))
    assert served(values, A) == 4


@pytest.mark.rule("KV-52", "KV-50")
def test_an_own_delete_holds_against_late_values() -> None:
    values = ready(a=entry(1))
    values.begin_write(A)
    values.written(A, 3)
    values.told(A, entry(2))
    assert served(values, A) is None
    ticket = values.begin_read(A)
    values.end_read(A, ticket, None)
    values.told(A, entry(2))
    assert served(values, A) is None
    values.told(A, entry(3, operation="DEL"))
    assert served(values, A) == 0


@pytest.mark.rule("KV-50")
@pytest.mark.parametrize("meanwhile", ["told", "written", "lost"])
def test_a_read_that_a_change_overtook_is_not_kept(meanwhile: str) -> None:
    values = ready(a=entry(1))
    values.begin_write(A)
    ticket = values.begin_read(A)
    if meanwhile == "told":
        values.told(A, entry(5, operation="DEL"))
    elif meanwhile == "written":
        values.begin_write(A)
        values.written(A, 5)
    else:
        values.lost()
        values.told_all()
    values.end_read(A, ticket, entry(1))
    assert served(values, A) in (None, 0)


@pytest.mark.rule("KV-50")
def test_what_is_told_late_does_not_replace_what_was_read() -> None:
    values = ready(a=entry(1))
    values.begin_write(A)
    values.end_read(A, values.begin_read(A), entry(7))
    values.told(A, entry(3))
    assert served(values, A) == 7


@pytest.mark.rule("KV-53")
def test_a_lost_feed_ends_it_until_everything_is_told_anew() -> None:
    values = ready(a=entry(1), b=entry(2))
    values.lost()
    assert (values.ready, served(values, A), len(values), values.size) == (False, None, 0, 0)
    values.told(B, entry(9))
    values.told_all()
    assert (served(values, A), served(values, B)) == (0, 9)


@pytest.mark.rule("KV-26", "KV-37")
def test_values_before_the_beginning_of_the_bucket_are_dropped() -> None:
    values = ready(a=entry(1), b=entry(2), c=entry(3))
    values.told_first(3)
    assert (served(values, A), served(values, B), served(values, C)) == (None, None, 3)
    values.told(A, entry(2))
    assert served(values, A) is None, "it comes late: it was removed"


@pytest.mark.rule("KV-38", "KV-39")
def test_a_value_with_an_end_of_its_own_is_kept_only_where_its_end_is_told() -> None:
    values = ready(a=entry(1, ttl=True))
    assert served(values, A) is None
    values.end_read(A, values.begin_read(A), entry(1, ttl=True))
    assert served(values, A) is None
    told = KeptValues(told_of_expiry=True)
    told.told(A, entry(1, ttl=True))
    told.told_all()
    assert served(told, A) == 1


@pytest.mark.rule("KV-37")
def test_a_value_that_is_too_old_is_not_served() -> None:
    values = KeptValues(ttl_ns=1)  # the entries here are from 1970
    values.told(A, entry(1))
    values.told_all()
    assert served(values, A) is None


@pytest.mark.rule("KV-50", "KV-51")
def test_a_bounded_cache_forgets_what_was_not_read_for_the_longest_time_and_never_takes_it_for_missing() -> (
    None
):
    one = ready(a=entry(1, size=1000)).size
    values = KeptValues(max_bytes=2 * one)
    for revision, subject in enumerate((A, B, C), 1):
        values.told(subject, entry(revision, size=1000))
    values.told_all()
    assert [served(values, subject) for subject in (A, B, C)] == [1, 2, None], "nobody read the third"
    assert served(values, "kv.B.never") is None
    values.get(A)
    values.end_read(C, values.begin_read(C), entry(3, size=1000))
    assert [served(values, subject) for subject in (A, B, C)] == [1, None, 3]
    values.told(B, entry(4, size=1000))
    assert served(values, B) is None, "it pushes none out that was read"
    values.told(A, entry(5, size=1000))
    assert served(values, A) == 5
    assert values.size <= 2 * one
    values.told(A, entry(6, size=10_000))
    assert served(values, A) is None, "it is larger than all the room"


def test_a_bound_must_leave_room() -> None:
    with pytest.raises(ConfigError, match="is not a valid max_bytes"):
        KeptValues(0)


class Store:
    """A bucket, and a program that writes and reads through a cache, one step after the other.

    What the feed tells, and what reads and writes return, may be late; the messages of the feed keep their order.
    """

    def __init__(self, seed: int, max_bytes: int | None) -> None:
        self.random = random.Random(seed)
        self.values = KeptValues(max_bytes)
        self.newest: dict[str, Entry] = {}
        self.last = 0
        self.feed: list[tuple[str, Entry]] = []
        self.reads: list[tuple[str, object, Entry | None]] = []
        self.untold = 0  # of what was there when the feed began
        self.begun: list[str] = []  # writes that are not decided
        self.writes: list[tuple[str, int]] = []  # stored, and not answered
        self.deletes: dict[str, list[int]] = {A: [], B: [], C: []}
        self.own: dict[str, int] = {}  # the last write that was answered
        self.values.told_all()

    def step(self) -> None:
        subject = self.random.choice((A, B, C))
        often = [self.look, self.look, self.hear, self.hear, self.hear]
        now_and_then = [self.other, self.write, self.decide, self.answer, self.read, self.got]
        rarely = [self.lose] if self.random.random() < 0.2 else []
        self.random.choice([*often, *now_and_then, *rarely])(subject)

    def store(self, subject: str) -> int:
        self.last += 1
        operation: Operation = self.random.choice(("PUT", "PUT", "DEL"))
        self.newest[subject] = entry(self.last, size=self.random.choice((1, 2000)), operation=operation)
        if operation == "DEL":
            self.deletes[subject].append(self.last)
        self.feed.append((subject, self.newest[subject]))
        return self.last

    def other(self, subject: str) -> None:
        self.store(subject)

    def write(self, subject: str) -> None:
        self.values.begin_write(subject)
        self.begun.append(subject)

    def decide(self, subject: str) -> None:
        if self.begun:
            where = self.begun.pop(self.random.randrange(len(self.begun)))
            if self.random.random() < 0.8:  # else it is refused
                self.writes.append((where, self.store(where)))

    def answer(self, subject: str) -> None:
        if self.writes:
            where, revision = self.writes.pop(self.random.randrange(len(self.writes)))
            self.values.written(where, revision)
            self.own[where] = max(revision, self.own.get(where, 0))

    def read(self, subject: str) -> None:
        ticket = self.values.begin_read(subject)
        found = self.newest.get(subject)
        self.reads.append((subject, ticket, found if found is not None and found.is_value else None))

    def got(self, subject: str) -> None:
        if self.reads:
            self.values.end_read(*self.reads.pop(self.random.randrange(len(self.reads))))

    def hear(self, subject: str) -> None:
        if self.feed:
            self.values.told(*self.feed.pop(0))
        self.untold -= 1
        if self.untold <= 0 and not self.values.ready:
            self.values.told_all()

    def lose(self, subject: str) -> None:
        """Another feed begins with what is there now."""
        self.values.lost()
        self.feed = sorted(self.newest.items(), key=lambda one: one[1].revision)
        self.untold = len(self.feed)

    def look(self, subject: str) -> None:
        """No value is older than the last write that was answered, and a key is missing only if it was at that time or later."""
        found = served(self.values, subject)
        own = self.own.get(subject, 0)
        if found:
            assert found >= own
        elif found == 0 and own:
            assert any(own <= deleted for deleted in self.deletes[subject])


@pytest.mark.rule("KV-50", "KV-52", "KV-53")
@pytest.mark.parametrize("max_bytes", [None, 3000])
@pytest.mark.parametrize("seed", range(40))
def test_with_every_delay_nothing_older_than_an_own_write_is_served(seed: int, max_bytes: int | None) -> None:
    store = Store(seed, max_bytes)
    for _ in range(600):
        store.step()
    while store.feed or not store.values.ready:
        store.hear(A)
    for subject in (A, B, C):
        found, newest = served(store.values, subject), store.newest.get(subject)
        truth = newest.revision if newest is not None and newest.is_value else 0
        assert found in (None, truth), "once all is told, what is served is the newest"


@pytest.mark.rule("KV-51")
def test_keys_that_come_and_go_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_values, "MOST_UNSURE", 10)
    values = ready(a=entry(1))
    for revision in range(2, 12):
        values.told(f"kv.B.lock{revision}", entry(revision, ttl=True))
    assert (served(values, C), served(values, "kv.B.lock2")) == (0, None)
    values.told("kv.B.lock12", entry(12, ttl=True))
    assert (served(values, A), served(values, C), served(values, "kv.B.lock2")) == (1, None, None)
    for revision in range(13, 100):
        values.told(f"kv.B.lock{revision}", entry(revision, ttl=True))
        assert len(values._unsure) <= 10
    values.lost()
    values.told(A, entry(1))
    values.told_all()
    assert served(values, C) == 0
