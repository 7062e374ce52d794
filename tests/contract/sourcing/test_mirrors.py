"""Mirrors (MIR): a stream that copies another one, with the same sequences and times."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import pytest

import railgun
from railgun.errors import NoStreamResponse
from railgun.model import headers as h
from railgun.testing import Clock
from tests.support.raw import frames
from tests.support.sourcing import copied, payloads
from tests.support.streams import Make, Unique, held, put_numbers, put_on
from tests.support.waiting import wait_until

_NUMBERS = count(1)


def mirror_of(upstream: str, rg: railgun.Railgun, unique: Unique, **fields: object) -> railgun.Stream:
    source = railgun.StreamSource(
        name=upstream,
        **{key: fields.pop(key) for key in list(fields) if key in railgun.StreamSource.model_fields},
    )
    return rg.create_stream(
        railgun.StreamConfig(name=unique(f"MIRROR{next(_NUMBERS)}"), mirror=source, **fields)
    )  # type: ignore[arg-type]


@pytest.mark.rule("MIR-01", "MIR-14", "MIR-10")
def test_a_mirror_has_the_same_sequences_and_times(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    origin = make("ORIGIN")
    put_numbers(rg, origin, 5)
    rg.publish(f"{origin.name}.b", b"6", headers={"who": "me"}, expected_last_sequence=5)
    mirror = mirror_of(origin.name, rg, unique)
    copied(mirror, 6)
    rg.publish(f"{origin.name}.b", b"7", msg_id="seven")  # and what comes later
    copied(mirror, 7)
    for sequence in range(1, 8):
        theirs, ours = origin.get(sequence), mirror.get(sequence)
        assert (ours.subject, ours.payload, ours.time_ns) == (theirs.subject, theirs.payload, theirs.time_ns)
    assert h.EXPECTED_LAST_SEQUENCE in dict(origin.get(6).headers)
    assert mirror.get(6).headers == [("who", b"me")]
    assert mirror.get(7).headers == [(h.MSG_ID, b"seven")]
    worker = mirror.create_consumer("WORKER", filter_subject=f"{origin.name}.b")
    assert [message.text for message in worker.fetch(2, wait=5)] == ["6", "7"]
    assert mirror.get_last(f"{origin.name}.a").sequence == 5


@pytest.mark.rule("MIR-02")
def test_a_mirror_takes_no_publishes(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    origin = make("ORIGIN")
    mirror = mirror_of(origin.name, rg, unique)
    assert mirror.info().config.subjects == []
    with pytest.raises(NoStreamResponse):
        rg.publish(mirror.name, b"x")
    assert mirror.info().state.messages == 0


@pytest.mark.rule("MIR-06", "MIR-07", "MIR-08", "MIR-09")
def test_where_a_mirror_begins_and_what_it_keeps(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    origin = make("ORIGIN")
    put_numbers(rg, origin, 100)
    whole = mirror_of(origin.name, rg, unique)
    copied(whole, 100)
    origin.purge()
    put_numbers(rg, origin, 50)
    copied(whole, 150)  # MIR-08: what was purged upstream stays here
    later = mirror_of(origin.name, rg, unique)
    copied(later, 50)
    assert (later.info().state.first_seq, later.info().state.last_seq) == (101, 150)
    origin.delete_message(120)
    part = mirror_of(origin.name, rg, unique, opt_start_seq=111)
    copied(part, 39)
    state = part.info(deleted=True).state
    assert (state.first_seq, state.last_seq, state.deleted) == (111, 150, [120])
    assert 120 in held(later)


@pytest.mark.rule("MIR-06")
def test_a_mirror_that_begins_ahead_has_that_first_sequence(
    rg: railgun.Railgun, make: Make, unique: Unique
) -> None:
    origin = make("ORIGIN")
    put_numbers(rg, origin, 3)
    mirror = mirror_of(origin.name, rg, unique, opt_start_seq=10)
    wait_until(lambda: mirror.info().state.first_seq == 10, "the first sequence")
    put_numbers(rg, origin, 8)
    copied(mirror, 2)
    assert held(mirror) == [10, 11]


@pytest.mark.rule("MIR-06")
def test_a_mirror_begins_at_a_time(rg: railgun.Railgun, make: Make, unique: Unique, clock: Clock) -> None:
    origin = make("ORIGIN")
    put_numbers(rg, origin, 3)
    clock.advance(60)
    put_numbers(rg, origin, 2)
    begin = origin.get(4).time
    mirror = mirror_of(origin.name, rg, unique, opt_start_time=begin)
    copied(mirror, 2)
    assert held(mirror) == [4, 5]


@pytest.mark.rule("MIR-07")
def test_holes_are_never_renumbered(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    """Small holes, and one that is longer than a block of the index."""
    origin = make("ORIGIN")
    put_on(rg, origin, "a", "b", "a")
    for _ in range(600):
        rg.publish_soon(f"{origin.name}.b", b"x")
    rg.flush()
    put_on(rg, origin, "a", "b", "a")
    mirror = mirror_of(origin.name, rg, unique, filter_subject=f"{origin.name}.a")
    copied(mirror, 4)
    assert held(mirror) == [1, 3, 604, 606]
    state = mirror.info().state
    assert (state.first_seq, state.last_seq, state.num_deleted) == (1, 606, 602)
    assert [message.sequence for message in mirror.create_consumer("ALL").fetch(4, wait=5)] == [
        1,
        3,
        604,
        606,
    ]
    assert mirror.get_next(f"{origin.name}.*", sequence=4).sequence == 604


@pytest.mark.rule("MIR-04")
def test_a_mirror_renames(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    origin = make("ORIGIN")
    put_on(rg, origin, "a.1", "b.2", "c.3")
    renames = [
        railgun.SubjectTransform(src=f"{origin.name}.a.*", dest="first.$1"),
        railgun.SubjectTransform(src=f"{origin.name}.b.*", dest=""),
    ]
    mirror = mirror_of(origin.name, rg, unique, subject_transforms=renames)
    copied(mirror, 2)
    assert [mirror.get(one).subject for one in (1, 2)] == ["first.1", f"{origin.name}.b.2"]


@pytest.mark.rule("MIR-12", "MIR-05")
def test_a_mirror_tells_how_it_is(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    name = unique("LATER")
    mirror = mirror_of(name, rg, unique)  # the upstream need not exist yet
    wait_until(lambda: getattr(mirror.info().mirror, "error", None) is not None, "the error")
    told = mirror.info().mirror
    assert told is not None
    assert told.error is not None
    assert (told.name, told.lag, told.error.err_code) == (name, 0, 10059)
    origin = rg.create_stream(name, subjects=[f"{name}.>"])
    put_numbers(rg, origin, 3)
    copied(mirror, 3)
    told = mirror.info().mirror
    assert told is not None
    assert (told.lag, told.error) == (0, None)
    assert told.active is not None
    assert told.active < timedelta(minutes=5)


@pytest.mark.rule("UPD-09")
def test_a_promoted_mirror_is_a_stream_as_any_other(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    origin = make("ORIGIN")
    put_numbers(rg, origin, 3)
    mirror = mirror_of(origin.name, rg, unique)
    copied(mirror, 3)
    own = unique("OWN")
    config = mirror.info().config.model_copy(update={"mirror": None, "subjects": [f"{own}.>"]})
    mirror = rg.update_stream(config)
    assert rg.publish(f"{own}.x", b"mine").sequence == 4
    put_numbers(rg, origin, 2)
    assert origin.info().state.last_seq == 5
    assert payloads(mirror) == ["1", "2", "3", "mine"]
    assert mirror.info().mirror is None


@pytest.mark.rule("MIR-12")
def test_an_upstream_that_was_made_anew_is_told_apart(
    rg: railgun.Railgun, make: Make, unique: Unique
) -> None:
    """Its sequences would mean other messages: the mirror keeps what it has and says so."""
    origin = make("ORIGIN")
    put_numbers(rg, origin, 3)
    mirror = mirror_of(origin.name, rg, unique)
    copied(mirror, 3)
    config = origin.info().config
    rg.delete_stream(origin.name)
    rg.create_stream(config)
    put_numbers(rg, origin, 5)

    def told() -> str:
        info = mirror.info().mirror
        return "" if info is None or info.error is None else info.error.description

    wait_until(lambda: "anew" in told(), "the error")
    assert payloads(mirror) == ["1", "2", "3"]


@pytest.mark.rule("TTL-06")
def test_life_times_are_obeyed_only_with_the_option(
    rg: railgun.Railgun, make: Make, unique: Unique, clock: Clock
) -> None:
    origin = make("ORIGIN", allow_msg_ttl=True)
    obeys = mirror_of(origin.name, rg, unique, allow_msg_ttl=True)
    keeps = mirror_of(origin.name, rg, unique)
    rg.publish(f"{origin.name}.a", b"short", ttl=timedelta(seconds=5))
    copied(obeys, 1)
    copied(keeps, 1)
    assert keeps.get(1).headers == [(h.TTL, b"5")]
    clock.advance(6)
    wait_until(lambda: obeys.info().state.messages == 0, "the end of its life")
    assert held(keeps) == [1]


@pytest.mark.rule("DUP-14")
def test_a_mirror_does_not_de_duplicate(
    rg: railgun.Railgun, make: Make, unique: Unique, clock: Clock
) -> None:
    origin = make("ORIGIN", duplicate_window=1)
    rg.publish(f"{origin.name}.a", b"1", msg_id="same")
    clock.advance(2)
    rg.publish(f"{origin.name}.a", b"2", msg_id="same")
    mirror = mirror_of(origin.name, rg, unique, duplicate_window=120)
    copied(mirror, 2)


@pytest.mark.rule("MIR-08")
def test_limits_of_a_mirror_are_its_own(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    origin = make("ORIGIN")
    put_numbers(rg, origin, 10)
    last = mirror_of(origin.name, rg, unique, max_msgs=3)
    one = mirror_of(origin.name, rg, unique, max_msgs_per_subject=1)
    wait_until(lambda: held(last) == [8, 9, 10] and held(one) == [10], "the last ones")


@pytest.mark.rule("CTR-22")
def test_counters_are_mirrored_as_they_are(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    origin = make("ORIGIN", allow_msg_counter=True)
    hits = rg.counter(f"{origin.name}.hits")
    hits.add(5)
    hits.add(-2)
    mirror = mirror_of(origin.name, rg, unique)
    copied(mirror, 2)
    assert [(one.payload, one.headers) for one in map(mirror.get, (1, 2))] == [
        (b'{"val":"5"}', [(h.INCREMENT, b"+5")]),
        (b'{"val":"3"}', [(h.INCREMENT, b"-2")]),
    ]


@pytest.mark.rule("UPD-09", "CTR-22")
def test_a_promoted_mirror_goes_on_counting(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    origin = make("ORIGIN", allow_msg_counter=True)
    rg.counter(f"{origin.name}.hits").add(5)
    mirror = mirror_of(origin.name, rg, unique)
    copied(mirror, 1)
    config = origin.info().config
    rg.delete_stream(origin.name)
    rg.update_stream(config.model_copy(update={"name": mirror.name}))
    assert rg.counter(f"{origin.name}.hits").add(1) == 6


@pytest.mark.rule("MIR-11", "GET-09", "MIR-14")
def test_direct_gets_are_answered_by_the_stream_that_was_asked(
    rg: railgun.Railgun, make: Make, unique: Unique
) -> None:
    """A mirror that lags never answers for its upstream; what it holds itself, it reads directly where it may."""
    origin = make("ORIGIN", allow_direct=True)
    put_numbers(rg, origin, 2)
    mirror = mirror_of(origin.name, rg, unique, max_msgs=2, discard="new", allow_direct=True)
    wait_until(lambda: held(mirror) == [1, 2], "a full mirror")
    put_numbers(rg, origin, 20)
    assert mirror.info().config.mirror_direct

    def last(stream: railgun.Stream) -> tuple[str | None, str | None]:
        (reply,) = frames(rg, f"DIRECT.GET.{stream.name}", {"last_by_subj": f"{origin.name}.a"})
        return reply.header("Nats-Stream"), reply.header("Nats-Sequence")

    assert last(origin) == (origin.name, "22")
    assert last(mirror) == (mirror.name, "2")


@pytest.mark.rule("MIR-08", "MIR-12", "SRC-09")
def test_a_full_mirror_waits_until_there_is_room(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    origin = make("ORIGIN")
    put_numbers(rg, origin, 6)
    mirror = mirror_of(origin.name, rg, unique, max_msgs=4, discard="new")
    wait_until(lambda: getattr(mirror.info().mirror, "error", None) is not None, "a full mirror")
    told = mirror.info().mirror
    assert told is not None
    assert (told.lag, told.error and told.error.err_code) == (2, 10077)
    mirror.purge()
    wait_until(lambda: held(mirror) == [5, 6], "the rest")


@pytest.mark.rule("MIR-01", "MIR-07")
def test_a_mirror_that_is_purged_ahead_renumbers_nothing(
    rg: railgun.Railgun, make: Make, unique: Unique
) -> None:
    origin = make("ORIGIN")
    mirror = mirror_of(origin.name, rg, unique)
    put_numbers(rg, origin, 2)
    copied(mirror, 2)
    mirror.purge(sequence=6)  # what is below goes, also what has not come yet
    put_numbers(rg, origin, 2)
    put_on(rg, origin, *"bbbbbb")
    wait_until(lambda: held(mirror)[-1:] == [10], "the last message")
    assert held(mirror) == [6, 7, 8, 9, 10]
    assert [mirror.get(one).time_ns for one in held(mirror)] == [
        origin.get(one).time_ns for one in held(mirror)
    ]
