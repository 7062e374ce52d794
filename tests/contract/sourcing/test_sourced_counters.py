"""Counters that add up others (CTR-22 and following): the ledger, and totals that stay true."""

from __future__ import annotations

import json
import threading

import pytest

import railgun
from railgun.model import headers as h
from tests.support.sourcing import copied, payloads
from tests.support.streams import Make, held
from tests.support.waiting import wait_until

Source = railgun.StreamSource
Transform = railgun.SubjectTransform


def to(upstream: railgun.Stream, token: str, subject: str) -> railgun.StreamSource:
    """The counter ``token`` of the upstream as ``subject``."""
    renamed = [Transform(src=f"{upstream.name}.{token}", dest=subject)]
    return Source(name=upstream.name, subject_transforms=renamed)


def total(stream: railgun.Stream, subject: str) -> int:
    return int(stream.get_last(subject).json()["val"])


def ledger(stream: railgun.Stream, subject: str) -> object:
    return json.loads(stream.get_last(subject).header(h.COUNTER_SOURCES) or "{}")


@pytest.mark.rule("CTR-23", "CTR-24", "CTR-26")
def test_counters_of_two_streams_add_up(rg: railgun.Railgun, make: Make) -> None:
    one, two = make("ONE", allow_msg_counter=True), make("TWO", allow_msg_counter=True)
    rg.counter(f"{one.name}.a").add(1)
    rg.counter(f"{two.name}.b").add(2)
    both = make("BOTH", allow_msg_counter=True, subjects=[])
    subject = f"{both.name}.foo"
    config = both.info().config
    rg.update_stream(
        config.model_copy(
            update={"subjects": [f"{both.name}.>"], "sources": [to(one, "a", subject), to(two, "b", subject)]}
        )
    )
    copied(both, 2)
    assert total(both, subject) == 3
    assert ledger(both, subject) == {one.name: {f"{one.name}.a": "1"}, two.name: {f"{two.name}.b": "2"}}
    increments = [both.get(number).header(h.INCREMENT) for number in (1, 2)]
    assert sorted(increments) == ["+1", "+2"]


@pytest.mark.rule("CTR-26", "CTR-27", "CTR-15")
def test_sources_that_begin_above_zero(rg: railgun.Railgun, make: Make) -> None:
    one = make("ONE", allow_msg_counter=True, max_msgs_per_subject=1)
    two = make("TWO", allow_msg_counter=True, max_msgs_per_subject=1)
    for _ in range(5):
        rg.counter(f"{one.name}.foo").add(1)
        rg.counter(f"{two.name}.foo").add(2)
    target = make("TARGET", allow_msg_counter=True)
    subject = f"{target.name}.foo"
    mine = rg.counter(subject)
    mine.add(1)
    sources = [to(one, "foo", subject), to(two, "foo", subject)]
    rg.update_stream(target.info().config.model_copy(update={"sources": sources}))
    wait_until(lambda: total(target, subject) == 16, "both totals")
    assert mine.add(1) == 17
    assert ledger(target, subject) == {
        one.name: {f"{one.name}.foo": "5"},
        two.name: {f"{two.name}.foo": "10"},
    }
    # The sum over the log of the target is its total.
    assert sum(int(target.get(number).header(h.INCREMENT) or "0") for number in held(target)) == 17


@pytest.mark.rule("CTR-25")
def test_a_stream_that_does_not_count_drops_increments(rg: railgun.Railgun, make: Make) -> None:
    origin = make("ORIGIN", allow_msg_counter=True)
    rg.counter(f"{origin.name}.a").add(1)
    rg.publish(f"{origin.name}.plain", b"stays")
    target = make("TARGET", sources=[Source(name=origin.name)])
    copied(target, 1)
    assert payloads(target) == ["stays"]
    assert (target.info().sources or [])[0].error is None


@pytest.mark.rule("CTR-32", "CTR-13")
def test_what_a_counter_refuses_is_passed_over_and_told(rg: railgun.Railgun, make: Make) -> None:
    origin = make("ORIGIN", allow_msg_counter=True)
    target = make("TARGET", allow_msg_counter=True)
    here = f"{target.name}.here"
    rg.publish(f"{target.name}.plain", b"no counter")
    rg.counter(here).add(5)
    sources = [
        Source(
            name=origin.name,
            subject_transforms=[
                Transform(src=f"{origin.name}.counter", dest=f"{target.name}.plain"),
                Transform(src=f"{origin.name}.text", dest=here),
                Transform(src=f"{origin.name}.good", dest=here),
            ],
        )
    ]
    rg.counter(f"{origin.name}.counter").add(1)
    rg.publish(f"{origin.name}.text", b"text")
    rg.counter(f"{origin.name}.good").add(7)
    rg.update_stream(target.info().config.model_copy(update={"sources": sources}))
    wait_until(lambda: total(target, here) == 12, "the good one")
    (told,) = target.info().sources or []
    assert told.error is not None
    assert told.error.err_code == 10169
    assert told.error.description.startswith("2 not copied, the last was message 2: ")
    assert target.get_last(f"{target.name}.plain").text == "no counter"


@pytest.mark.rule("CTR-08", "CTR-32")
def test_a_sum_beyond_64_bits_is_passed_over(rg: railgun.Railgun, make: Make) -> None:
    one, two = make("ONE", allow_msg_counter=True), make("TWO", allow_msg_counter=True)
    target = make("TARGET", allow_msg_counter=True)
    subject = f"{target.name}.sum"
    rg.counter(f"{one.name}.a").add(2**63 - 1)
    rg.update_stream(target.info().config.model_copy(update={"sources": [to(one, "a", subject)]}))
    wait_until(lambda: target.info().state.messages == 1, "the first")
    sources = [to(one, "a", subject), to(two, "a", subject)]
    rg.update_stream(target.info().config.model_copy(update={"sources": sources}))
    rg.counter(f"{two.name}.a").add(1)
    wait_until(lambda: (target.info().sources or [])[1].error is not None, "the refusal")
    assert total(target, subject) == 2**63 - 1
    rg.counter(f"{one.name}.a").add(-10)
    rg.counter(f"{two.name}.a").add(1)  # what was refused is not lost: the ledger did not move on
    wait_until(lambda: total(target, subject) == 2**63 - 11 + 2, "the true sum")


@pytest.mark.rule("CTR-26", "CTR-16")
def test_the_ledger_outlives_a_deleted_message(rg: railgun.Railgun, make: Make) -> None:
    origin, target = make("ORIGIN", allow_msg_counter=True), make("TARGET", allow_msg_counter=True)
    subject = f"{target.name}.sum"
    rg.update_stream(target.info().config.model_copy(update={"sources": [to(origin, "a", subject)]}))
    theirs, mine = rg.counter(f"{origin.name}.a"), rg.counter(subject)
    theirs.add(5)
    copied(target, 1)
    assert mine.add(1) == 6
    theirs.add(5)
    copied(target, 3)
    assert total(target, subject) == 11
    target.delete_message(3)  # the counter rewinds, and its ledger with it
    assert mine.add(0) == 6
    theirs.add(1)
    wait_until(lambda: total(target, subject) == 12, "what was rewound")


@pytest.mark.rule("CTR-26")
def test_a_publisher_has_no_say_in_the_ledger(rg: railgun.Railgun, make: Make) -> None:
    target = make("TARGET", allow_msg_counter=True)
    forged = {h.INCREMENT: "1", h.COUNTER_SOURCES: "{not json"}
    assert rg.publish(f"{target.name}.a", b"", headers=forged).value == 1
    assert target.get(1).headers == [(h.INCREMENT, b"1")]


@pytest.mark.rule("CTR-28", "CTR-26", "UPD-10")
def test_a_message_that_comes_again_is_not_counted_again(rg: railgun.Railgun, make: Make) -> None:
    """A source of another filter begins at the beginning; two that overlap copy the same messages twice."""
    origin, target = make("ORIGIN", allow_msg_counter=True), make("TARGET", allow_msg_counter=True)
    theirs, wide = rg.counter(f"{origin.name}.a"), f"{origin.name}.*"
    for number in (1, 2, 3):
        theirs.add(number)
    narrow = Source(name=origin.name, filter_subject=f"{origin.name}.a")
    both = [narrow, Source(name=origin.name, filter_subject=wide)]
    for sources, messages in (([narrow], 3), ([both[1]], 6), (both, 6)):
        rg.update_stream(target.info().config.model_copy(update={"sources": sources}))
        copied(target, messages)
        assert total(target, f"{origin.name}.a") == 6
    theirs.add(4)
    copied(target, 8)
    assert total(target, f"{origin.name}.a") == 10
    assert ledger(target, f"{origin.name}.a") == {origin.name: {f"{origin.name}.a": "10"}}
    assert sum(int(target.get(number).header(h.INCREMENT) or "0") for number in held(target)) == 10


@pytest.mark.rule("CTR-18", "CTR-19", "CTR-23", "SRC-02")
def test_the_sum_does_not_depend_on_the_order(rg: railgun.Railgun, make: Make) -> None:
    upstreams = [make(f"PART{number}", allow_msg_counter=True) for number in range(3)]
    sums = [make(f"SUM{number}", allow_msg_counter=True) for number in range(2)]
    added = [[7, -3, 11, 5], [100, -40, 1], [-9, 2, 2, 2, 2]]

    def work(upstream: railgun.Stream, numbers: list[int]) -> None:
        for number in numbers:
            rg.counter(f"{upstream.name}.hits").add(number)

    threads = [threading.Thread(target=work, args=one) for one in zip(upstreams, added, strict=True)]
    for thread in threads:
        thread.start()
    for target, order in zip(sums, (upstreams, upstreams[::-1]), strict=True):  # while increments arrive
        sources = [to(one, "hits", f"{target.name}.all") for one in order]
        rg.update_stream(target.info().config.model_copy(update={"sources": sources}))
    for thread in threads:
        thread.join()
    for target in sums:
        copied(target, sum(map(len, added)))
        assert total(target, f"{target.name}.all") == sum(map(sum, added))
        assert ledger(target, f"{target.name}.all") == {
            one.name: {f"{one.name}.hits": str(sum(numbers))}
            for one, numbers in zip(upstreams, added, strict=True)
        }


@pytest.mark.rule("CTR-26", "SRC-04")
def test_totals_go_through_a_chain(rg: railgun.Railgun, make: Make) -> None:
    """Each stream of a chain counts for itself, and shows the totals of its nearest upstreams."""
    shops = [make(f"SHOP{number}", allow_msg_counter=True) for number in range(2)]
    city = make("CITY", allow_msg_counter=True)
    land = make("LAND", allow_msg_counter=True)
    here, there = f"{city.name}.sold", f"{land.name}.sold"
    for target, sources in (
        (city, [to(one, "sold", here) for one in shops]),
        (land, [to(city, "sold", there)]),
    ):
        rg.update_stream(target.info().config.model_copy(update={"sources": sources}))
    for shop, number in zip(shops, (3, 4), strict=True):
        rg.counter(f"{shop.name}.sold").add(number)
    copied(land, 2)
    assert (total(city, here), total(land, there)) == (7, 7)
    assert ledger(land, there) == {city.name: {here: "7"}}


@pytest.mark.rule("CTR-26", "SRC-07")
def test_an_upstream_made_anew_takes_its_old_total_along(rg: railgun.Railgun, make: Make) -> None:
    """The sum is that of the totals that the upstreams have now."""
    origin, target = make("ORIGIN", allow_msg_counter=True), make("TARGET", allow_msg_counter=True)
    subject = f"{target.name}.sum"
    rg.counter(subject).add(100)
    rg.update_stream(target.info().config.model_copy(update={"sources": [to(origin, "a", subject)]}))
    rg.counter(f"{origin.name}.a").add(5)
    wait_until(lambda: total(target, subject) == 105, "the old total")
    config = origin.info().config
    rg.delete_stream(origin.name)
    rg.create_stream(config)
    rg.counter(f"{origin.name}.a").add(2)
    wait_until(lambda: total(target, subject) == 102, "the new total")
