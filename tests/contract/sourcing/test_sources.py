"""Sources (SRC): a stream that copies from others, beside its own publishers."""

from __future__ import annotations

import pytest

import railgun
from railgun.model import headers as h
from tests.support.sourcing import copied, lag, payloads, subjects
from tests.support.streams import Make, put, put_numbers, put_on
from tests.support.waiting import wait_until

Source = railgun.StreamSource


@pytest.mark.rule("SRC-01", "SRC-02", "SRC-03", "SRC-08")
def test_a_stream_collects_others(rg: railgun.Railgun, make: Make) -> None:
    one, two = make("ONE"), make("TWO")
    put_numbers(rg, one, 3)
    rg.publish(f"{two.name}.b", b"other", headers={"who": "me"}, expected_last_sequence=0)
    both = make("BOTH", sources=[Source(name=one.name), Source(name=two.name)])
    copied(both, 4)
    rg.publish(f"{both.name}.own", b"mine")
    copied(both, 5)
    texts = payloads(both)
    assert [text for text in texts if text.isdigit()] == ["1", "2", "3"]
    assert sorted(texts) == ["1", "2", "3", "mine", "other"]
    for sequence in range(1, 6):
        message = both.get(sequence)
        expected = {
            "mine": [],
            "other": [("who", b"me"), (h.STREAM_SOURCE, f"{two.name} 1 > > {two.name}.b".encode())],
        }.get(message.text, [(h.STREAM_SOURCE, f"{one.name} {message.text} > > {one.name}.a".encode())])
        assert message.headers == expected
    assert both.get(1).time_ns >= max(one.get(3).time_ns, two.get(1).time_ns)  # the local time


@pytest.mark.rule("SRC-04")
def test_a_chain_shows_the_nearest_upstream(rg: railgun.Railgun, make: Make) -> None:
    first = make("FIRST")
    second = make("SECOND", sources=[Source(name=first.name)])
    third = make("THIRD", sources=[Source(name=second.name)])
    put_numbers(rg, first, 20)
    copied(third, 20)
    assert payloads(third) == [str(number) for number in range(1, 21)]
    assert third.get(7).headers == [(h.STREAM_SOURCE, f"{second.name} 7 > > {first.name}.a".encode())]


@pytest.mark.rule("SRC-05", "SRC-03")
def test_filters_and_transforms(rg: railgun.Railgun, make: Make) -> None:
    origin = make("ORIGIN")
    name = origin.name
    renames = [
        railgun.SubjectTransform(src=f"{name}.b.*", dest="second.$1"),
        railgun.SubjectTransform(src=f"{name}.c.>", dest=""),
    ]
    target = make(
        "TARGET",
        sources=[
            Source(name=name, filter_subject=f"{name}.a.*"),
            Source(name=name, subject_transforms=renames),
        ],
    )
    put_on(rg, origin, "a.1", "b.2", "c.3", "d.4")
    copied(target, 3)
    assert sorted(subjects(target)) == sorted([f"{name}.a.1", "second.2", f"{name}.c.3"])
    stated = {target.get(number).text: target.get(number).header(h.STREAM_SOURCE) for number in (1, 2, 3)}
    filters = f"{name}.b.*\f{name}.c.>"
    assert stated == {
        "1": f"{name} 1 {name}.a.* > {name}.a.1",
        "2": f"{name} 2 {filters} second.$1\f> {name}.b.2",
        "3": f"{name} 3 {filters} second.$1\f> {name}.c.3",
    }


@pytest.mark.rule("SRC-05")
def test_a_source_begins_where_it_says(rg: railgun.Railgun, make: Make) -> None:
    origin = make("ORIGIN")
    put_numbers(rg, origin, 5)
    by_sequence = make("SEQ", sources=[Source(name=origin.name, opt_start_seq=4)])
    by_time = make("TIME", sources=[Source(name=origin.name, opt_start_time=origin.get(3).time)])
    copied(by_sequence, 2)
    wait_until(lambda: payloads(by_time)[-3:] == ["3", "4", "5"], "those from then on")
    assert payloads(by_sequence) == ["4", "5"]


@pytest.mark.rule("SRC-07", "UPD-10")
def test_a_source_that_comes_back_goes_on_where_it_was(rg: railgun.Railgun, make: Make) -> None:
    one, two = make("ONE"), make("TWO")
    target = make("TARGET", sources=[Source(name=one.name), Source(name=two.name)])
    put_numbers(rg, one, 3)
    copied(target, 3)
    config = target.info().config
    rg.update_stream(config.model_copy(update={"sources": [Source(name=two.name)]}))
    put(rg, one, 2, b"late")
    put(rg, two, 1, b"other")
    copied(target, 4)
    assert [told.name for told in target.info().sources or []] == [two.name]
    rg.update_stream(config)
    copied(target, 6)
    assert payloads(target) == ["1", "2", "3", "other", "late", "late"]


@pytest.mark.rule("SRC-09")
def test_a_full_stream_makes_its_source_wait(rg: railgun.Railgun, make: Make) -> None:
    origin = make("ORIGIN")
    put_numbers(rg, origin, 10)
    target = make("TARGET", sources=[Source(name=origin.name)], max_msgs=4, discard="new")
    wait_until(lambda: target.info().state.messages == 4, "a full stream")
    (told,) = target.info().sources or []
    assert told.error is not None
    assert (told.error.err_code, told.error.description) == (10077, "maximum messages exceeded")
    assert told.lag == 6
    target.delete_message(1)
    target.delete_message(3)
    wait_until(lambda: target.info().state.last_seq == 6, "two more")
    assert payloads(target) == ["2", "4", "5", "6"]
    target.purge()
    wait_until(lambda: target.info().state.last_seq == 10, "all of them")
    assert payloads(target) == ["7", "8", "9", "10"]
    wait_until(lambda: (target.info().sources or [])[0].error is None, "no error any more")


@pytest.mark.rule("SRC-09", "DUP-14")
def test_one_full_subject_makes_its_source_wait(rg: railgun.Railgun, make: Make) -> None:
    origin = make("ORIGIN", duplicate_window=0.1)
    target = make(
        "TARGET",
        sources=[Source(name=origin.name)],
        max_msgs_per_subject=1,
        discard="new",
        discard_new_per_subject=True,
        duplicate_window=120,
    )
    rg.publish(f"{origin.name}.a", b"1", msg_id="1")
    rg.publish(f"{origin.name}.a", b"2", msg_id="2")
    rg.publish(f"{origin.name}.b", b"3", msg_id="3")
    wait_until(lambda: lag(target) == 2, "the second message to wait")
    assert payloads(target) == ["1"]
    target.delete_message(1)
    wait_until(lambda: target.info().state.last_seq == 3, "the rest")
    assert payloads(target) == ["2", "3"]


@pytest.mark.rule("DUP-14")
def test_duplicates_of_a_source_are_passed_over(rg: railgun.Railgun, make: Make) -> None:
    one, two = make("ONE"), make("TWO")
    strict = make("STRICT", sources=[Source(name=one.name), Source(name=two.name)], duplicate_window=120)
    loose = make("LOOSE", sources=[Source(name=one.name), Source(name=two.name)])
    for stream in (one, two):
        rg.publish(f"{stream.name}.a", b"same", msg_id="same")
        rg.publish(f"{stream.name}.a", b"own", msg_id=stream.name)
    copied(loose, 4)
    copied(strict, 3)
    assert sorted(payloads(strict)) == ["own", "own", "same"]


@pytest.mark.rule("SRC-10")
@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_messages_leave_a_queue_once_they_are_copied(rg: railgun.Railgun, make: Make, retention: str) -> None:
    queue = make("QUEUE", retention=retention)
    target = make("TARGET", sources=[Source(name=queue.name)], max_msgs=3, discard="new")
    wait_until(lambda: (target.info().sources or [])[0].active is not None, "the source to be heard of")
    put_numbers(rg, queue, 5)
    wait_until(lambda: target.info().state.messages == 3, "a full stream")
    assert {"4", "5"} <= set(payloads(queue))
    target.purge()
    wait_until(lambda: queue.info().state.messages == 0, "an empty queue")
    assert payloads(target) == ["4", "5"]
    assert queue.info().state.consumer_count == 0  # those who copy are hidden
    assert list(queue.consumers()) == []


@pytest.mark.rule("SRC-10", "RET-05")
def test_a_queue_that_another_consumer_empties_is_not_copied(rg: railgun.Railgun, make: Make) -> None:
    queue = make("QUEUE", retention="workqueue")
    queue.create_consumer("WORKER")
    target = make("TARGET", sources=[Source(name=queue.name)])
    wait_until(lambda: (target.info().sources or [])[0].error is not None, "the error")
    (told,) = target.info().sources or []
    assert told.error is not None
    assert told.error.err_code in (10099, 10100)
    queue.delete_consumer("WORKER")
    put_numbers(rg, queue, 2)
    copied(target, 2)


@pytest.mark.rule("SRC-11")
def test_copies_stay_when_the_originals_go(rg: railgun.Railgun, make: Make) -> None:
    origin = make("ORIGIN")
    target = make("TARGET", sources=[Source(name=origin.name)])
    put_numbers(rg, origin, 3)
    copied(target, 3)
    origin.delete_message(2)
    origin.purge()
    rg.delete_stream(origin.name)
    assert payloads(target) == ["1", "2", "3"]


@pytest.mark.rule("SRC-13", "SRC-07")
def test_an_upstream_that_was_made_anew_is_copied_from_its_beginning(rg: railgun.Railgun, make: Make) -> None:
    origin = make("ORIGIN")
    target = make("TARGET", sources=[Source(name=origin.name)])
    put(rg, origin, 3, b"old")
    copied(target, 3)
    config = origin.info().config
    rg.delete_stream(origin.name)
    wait_until(lambda: (target.info().sources or [])[0].error is not None, "the error")
    rg.create_stream(config)
    put(rg, origin, 2, b"new")
    copied(target, 5)
    assert payloads(target) == ["old"] * 3 + ["new"] * 2
    assert (target.info().sources or [])[0].error is None


@pytest.mark.rule("BAT-46", "BAT-47", "BAT-12")
def test_batches_are_copied_one_by_one(rg: railgun.Railgun, make: Make) -> None:
    origin = make("ORIGIN", allow_atomic=True)
    with rg.batch() as batch:
        batch.add(f"{origin.name}.a", b"1", expected_last_subject_sequence=0)
        batch.add(f"{origin.name}.b", b"2")
        batch.add(f"{origin.name}.c", b"3")
    origin.delete_message(2)
    target = make("TARGET", sources=[Source(name=origin.name)], allow_atomic=True)
    copied(target, 2)
    assert payloads(target) == ["1", "3"]
    assert all(len(target.get(number).headers) == 1 for number in (1, 2))
    with rg.batch() as own:
        own.add(f"{target.name}.x", b"4")
        own.add(f"{target.name}.x", b"5")
    assert payloads(target) == ["1", "3", "4", "5"]


@pytest.mark.rule("RET-12")
def test_what_nobody_wants_is_not_stored_under_another_name(rg: railgun.Railgun, make: Make) -> None:
    origin = make("ORIGIN")
    renames = [railgun.SubjectTransform(src=f"{origin.name}.*", dest="renamed.$1")]
    target = make(
        "TARGET", retention="interest", sources=[Source(name=origin.name, subject_transforms=renames)]
    )
    target.create_consumer("OLD", filter_subject=f"{origin.name}.>")
    put_on(rg, origin, "a")
    wait_until(lambda: target.info().state.last_seq == 1, "the message to be passed over")
    target.create_consumer("NEW", filter_subject="renamed.>")
    put_on(rg, origin, "b")
    wait_until(lambda: subjects(target) == ["renamed.b"], "the message that is wanted")


@pytest.mark.rule("SRC-10", "UPD-05")
def test_an_upstream_that_comes_to_interest_drops_what_is_copied(rg: railgun.Railgun, make: Make) -> None:
    origin = make("ORIGIN")
    target = make("TARGET", sources=[Source(name=origin.name)])
    put_numbers(rg, origin, 5)
    copied(target, 5)
    rg.update_stream(origin.info().config.model_copy(update={"retention": "interest"}))
    wait_until(lambda: origin.info().state.messages == 0, "what is copied to leave")
    assert payloads(target) == ["1", "2", "3", "4", "5"]


def test_much_is_copied_in_order(rg: railgun.Railgun, make: Make) -> None:
    """More than fits into one lease, and into what may be under way."""
    origin = make("ORIGIN")
    for number in range(12_000):
        rg.publish_soon(f"{origin.name}.{number % 7}", b"%d" % number, headers={"n": str(number)})
    rg.flush()
    target = make("TARGET", sources=[Source(name=origin.name)])
    wait_until(lambda: target.info().state.messages == 12_000, "all of them", timeout=60)
    worker = target.create_consumer("ALL")
    seen: list[int] = []
    while len(seen) < 12_000:
        found = worker.fetch(1_000, wait=20)
        assert found, "a message is missing"
        for message in found:
            assert message.header("n") == message.text
            seen.append(int(message.text))
            message.ack()
    assert seen == list(range(12_000))


def test_large_messages_are_copied(rg: railgun.Railgun, make: Make) -> None:
    origin = make("ORIGIN", max_msg_size=4_000_000)
    sizes = [0, 3_000_000, 1, 900_000, 900_000, 0]
    for size in sizes:
        rg.publish(f"{origin.name}.a", b"x" * size)
    target = make(
        "TARGET", sources=[Source(name=origin.name)]
    )  # the limit of publishers is not one of copies
    copied(target, len(sizes))
    assert [len(target.get(number).payload) for number in range(1, len(sizes) + 1)] == sizes


@pytest.mark.rule("MIR-05", "SRC-12", "LIM-12")
def test_whatever_the_upstream_took_fits_into_its_copies(rg: railgun.Railgun, make: Make) -> None:
    """A copy without a limit has none of its own, and the header that a stream adds itself is not held against the message."""
    limit = 3_000_000
    origin = make("ORIGIN", max_msg_size=limit)
    same = make("SAME", sources=[Source(name=origin.name)], max_msg_size=limit)
    chained = make("CHAINED", sources=[Source(name=same.name)], max_msg_size=limit)
    without = make("WITHOUT", sources=[Source(name=origin.name)])
    mirror = make("MIRROR", mirror=Source(name=same.name), subjects=[], max_msg_size=limit)
    put(rg, origin, 1, b"x" * limit)
    for copy in (same, chained, without, mirror):
        copied(copy, 1)
        assert len(copy.get(1).payload) == limit
