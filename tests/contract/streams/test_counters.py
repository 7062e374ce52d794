"""Counters (CTR): increments, totals, what a counter refuses, and how it begins anew."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

import railgun
from railgun.errors import CounterRefused, InvalidStreamConfig
from railgun.model import headers as h
from tests.support.streams import Make, Unique
from tests.support.waiting import wait_until

MOST, LEAST = 2**63 - 1, -(2**63)
DISABLED = (400, 10168, "message counters is disabled")
MISSING = (400, 10169, "message counter increment is missing")
PAYLOAD = (400, 10170, "message counter has payload")
INVALID = (400, 10171, "message counter increment is invalid")
BROKEN = (400, 10172, "message counter is broken")


Counting = Callable[..., railgun.Stream]


@pytest.fixture
def counting(make: Make) -> Counting:
    """``counting(max_msgs=3)`` is a new stream that counts."""
    return lambda base="COUNTER", **fields: make(base, **{"allow_msg_counter": True, **fields})


def add(rg: railgun.Railgun, subject: str, text: str, **options: object) -> int | None:
    headers = {h.INCREMENT: text, **options.pop("headers", {})}  # type: ignore[dict-item]
    return rg.publish(subject, b"", headers=headers, **options).value  # type: ignore[arg-type]


def refusal(publish: Callable[[], object]) -> tuple[int, int, str]:
    with pytest.raises(CounterRefused) as caught:
        publish()
    return caught.value.code, caught.value.err_code, caught.value.description


@pytest.mark.rule("CTR-01", "CTR-02", "CTR-03", "CTR-04", "CTR-05")
def test_an_increment_is_stored_with_the_new_total(rg: railgun.Railgun, counting: Counting) -> None:
    stream = counting()
    assert add(rg, f"{stream.name}.hits", "100") == 100
    sent = {h.INCREMENT: "+1", "who": "me"}
    ack = rg.publish(f"{stream.name}.hits", b"", headers=sent)
    assert (ack.sequence, ack.value) == (2, 101)
    last = stream.get_last(f"{stream.name}.hits")
    assert last.payload == b'{"val":"101"}'
    assert last.headers == [(h.INCREMENT, b"+1"), ("who", b"me")]
    (reply,) = rg.request(f"{stream.name}.hits", b"", {h.INCREMENT: "-2"})
    assert reply.json() == {"stream": stream.name, "seq": 3, "val": "99"}


@pytest.mark.rule("CTR-06")
def test_what_is_an_increment(rg: railgun.Railgun, counting: Counting) -> None:
    stream = counting()
    totals = [add(rg, f"{stream.name}.a", text) for text in ("+5", "-7", "5", "0", "+0", "-0", " 4", "007")]
    assert totals == [5, -2, 3, 3, 3, 3, 7, 14]
    for text in ("bogus", "+", "-", "1.5", "1e3", "0x5", "5 5", "--5", "1_000", "５"):
        assert refusal(lambda text=text: add(rg, f"{stream.name}.a", text)) == INVALID, text  # type: ignore[misc]
    assert stream.info().state.messages == 8
    assert stream.get_last(f"{stream.name}.a").text == '{"val":"14"}'


@pytest.mark.rule("CTR-07", "CTR-08")
def test_the_range_is_64_bits(rg: railgun.Railgun, counting: Counting) -> None:
    stream = counting()
    for text in (str(MOST + 1), str(LEAST - 1), "9" * 400, "0" * 5_000 + "1" + "0" * 20):
        assert refusal(lambda text=text: add(rg, f"{stream.name}.a", text)) == INVALID  # type: ignore[misc]
    assert add(rg, f"{stream.name}.a", f"+{MOST}") == MOST
    assert refusal(lambda: add(rg, f"{stream.name}.a", "1")) == INVALID
    assert add(rg, f"{stream.name}.b", str(LEAST)) == LEAST
    assert refusal(lambda: add(rg, f"{stream.name}.b", "-1")) == INVALID
    assert refusal(lambda: add(rg, f"{stream.name}.b", str(LEAST))) == INVALID
    assert [stream.get_last(f"{stream.name}.{one}").json()["val"] for one in "ab"] == [str(MOST), str(LEAST)]
    assert add(rg, f"{stream.name}.a", str(-MOST)) == 0


@pytest.mark.rule("CTR-09", "CTR-10")
def test_an_increment_has_no_body_and_needs_the_option(rg: railgun.Railgun, counting: Counting) -> None:
    stream = counting()
    plain = counting("PLAIN", allow_msg_counter=False)
    assert refusal(lambda: rg.publish(f"{stream.name}.a", b"x", headers={h.INCREMENT: "1"})) == PAYLOAD
    assert refusal(lambda: rg.publish(f"{plain.name}.a", b"", headers={h.INCREMENT: "1"})) == DISABLED
    assert stream.info().state.messages == plain.info().state.messages == 0


@pytest.mark.rule("CTR-11", "CTR-13", "CTR-14")
def test_a_subject_is_a_counter_or_it_is_not(rg: railgun.Railgun, counting: Counting) -> None:
    stream = counting()
    assert rg.publish(f"{stream.name}.plain", b"one").value is None
    assert rg.publish(f"{stream.name}.plain", b"two").sequence == 2
    assert refusal(lambda: add(rg, f"{stream.name}.plain", "1")) == BROKEN
    assert add(rg, f"{stream.name}.hits", "1") == 1
    assert refusal(lambda: rg.publish(f"{stream.name}.hits", b"text")) == MISSING
    assert refusal(lambda: rg.publish(f"{stream.name}.hits", b"")) == MISSING
    assert refusal(lambda: rg.publish(f"{stream.name}.hits", b"", headers={"kind": "other"})) == MISSING
    assert add(rg, f"{stream.name}.hits", "1") == 2
    assert stream.info().state.messages == 4


@pytest.mark.rule("CTR-15")
def test_counters_are_independent_and_limits_do_not_disturb_them(
    rg: railgun.Railgun, counting: Counting
) -> None:
    stream = counting(max_msgs_per_subject=1)
    for _ in range(5):
        add(rg, f"{stream.name}.a", "2")
        add(rg, f"{stream.name}.b", "-3")
    assert stream.info().state.messages == 2
    assert (add(rg, f"{stream.name}.a", "0"), add(rg, f"{stream.name}.b", "0")) == (10, -15)
    few = counting("FEW", max_msgs=3)
    assert [add(rg, f"{few.name}.a", "1") for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert few.info().state.first_seq == 4


@pytest.mark.rule("CTR-16")
def test_a_purge_begins_anew_and_a_delete_goes_back(rg: railgun.Railgun, counting: Counting) -> None:
    stream = counting()
    for _ in range(4):
        add(rg, f"{stream.name}.a", "10")
        add(rg, f"{stream.name}.b", "1")
    stream.delete_message(7)  # a: 10, 20, 30 are left
    assert add(rg, f"{stream.name}.a", "1") == 31
    stream.delete_message(9)
    stream.delete_message(5)
    assert refusal(lambda: rg.publish(f"{stream.name}.a", b"plain")) == MISSING  # it still is a counter
    assert add(rg, f"{stream.name}.a", "1") == 21
    stream.purge(subject=f"{stream.name}.a")
    assert (add(rg, f"{stream.name}.a", "1"), add(rg, f"{stream.name}.b", "1")) == (1, 5)
    stream.purge()
    assert (add(rg, f"{stream.name}.a", "7"), add(rg, f"{stream.name}.b", "8")) == (7, 8)
    stream.purge()
    assert rg.publish(f"{stream.name}.a", b"plain").sequence == 15
    assert refusal(lambda: add(rg, f"{stream.name}.a", "1")) == BROKEN
    stream.delete_message(15)
    assert add(rg, f"{stream.name}.a", "1") == 1


@pytest.mark.rule("CTR-17")
@pytest.mark.parametrize(
    "headers",
    [
        {h.ROLLUP: "sub"},
        {h.EXPECTED_STREAM: "COUNTER"},
        {h.EXPECTED_LAST_SEQUENCE: "0"},
        {h.EXPECTED_LAST_SUBJECT_SEQUENCE: "0"},
        {h.EXPECTED_LAST_MSG_ID: "x"},
    ],
)
def test_an_increment_has_no_conditions_and_rolls_nothing_up(
    rg: railgun.Railgun, counting: Counting, headers: dict[str, str]
) -> None:
    stream = counting(allow_rollup_hdrs=True)
    assert refusal(lambda: add(rg, f"{stream.name}.a", "1", headers=headers)) == INVALID
    assert stream.info().state.messages == 0


@pytest.mark.rule("CTR-18", "CTR-19")
def test_concurrent_increments_are_never_lost(rg: railgun.Railgun, counting: Counting) -> None:
    stream = counting()
    numbers = [[publisher - 3, 2 * publisher, -1, 1] for publisher in range(10)]

    def work(own: list[int]) -> None:
        for number in own:
            add(rg, f"{stream.name}.a", str(number))

    threads = [threading.Thread(target=work, args=(own,)) for own in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    futures = [rg.publish_soon(f"{stream.name}.b", headers={h.INCREMENT: "+1"}) for _ in range(100)]
    assert sorted(future.result().value or 0 for future in futures) == list(range(1, 101))
    assert stream.get_last(f"{stream.name}.a").json()["val"] == str(sum(map(sum, numbers)))
    assert stream.get_last(f"{stream.name}.b").json()["val"] == "100"


@pytest.mark.rule("CTR-20", "UPD-14")
def test_the_option_can_be_turned_off_and_on(rg: railgun.Railgun, counting: Counting) -> None:
    stream = counting(allow_msg_counter=False)
    rg.publish(f"{stream.name}.old", b"plain")
    rg.update_stream(stream.name, allow_msg_counter=True)
    assert refusal(lambda: add(rg, f"{stream.name}.old", "1")) == BROKEN
    assert (add(rg, f"{stream.name}.kept", "3"), add(rg, f"{stream.name}.lost", "4")) == (3, 4)
    assert add(rg, f"{stream.name}.back", "5") == 5
    stream = rg.update_stream(stream.name, allow_msg_counter=False)
    assert stream.info().config.metadata == {"_nats.req.level": "0"}
    assert refusal(lambda: add(rg, f"{stream.name}.kept", "1")) == DISABLED
    rg.publish(f"{stream.name}.lost", b"plain")
    gone = rg.publish(f"{stream.name}.back", b"plain").sequence
    rg.update_stream(stream.name, allow_msg_counter=True)
    assert add(rg, f"{stream.name}.kept", "1") == 4
    assert refusal(lambda: rg.publish(f"{stream.name}.kept", b"plain")) == MISSING
    assert refusal(lambda: add(rg, f"{stream.name}.lost", "1")) == BROKEN
    stream.delete_message(gone)
    assert add(rg, f"{stream.name}.back", "1") == 6


@pytest.mark.rule("CTR-21")
def test_a_mirror_does_not_count(rg: railgun.Railgun, unique: Unique) -> None:
    with pytest.raises(InvalidStreamConfig) as caught:
        rg.create_stream(unique("M"), mirror={"name": "ORIGIN"}, allow_msg_counter=True)
    assert (caught.value.code, caught.value.err_code) == (400, 10173)
    assert caught.value.description == "stream mirrors can not also calculate counters"


@pytest.mark.rule("CTR-29")
def test_a_subject_transform_comes_first(rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("COUNTER")
    change = {"src": f"{name}.in.*", "dest": f"{name}.all"}
    stream = rg.create_stream(name, subjects=[f"{name}.>"], subject_transform=change, allow_msg_counter=True)
    assert (add(rg, f"{stream.name}.in.a", "1"), add(rg, f"{stream.name}.in.b", "2")) == (1, 3)
    assert add(rg, f"{stream.name}.all", "3") == 6
    assert stream.info(subjects=">").state.subjects == {f"{stream.name}.all": 3}


@pytest.mark.rule("CTR-30", "CFG-26")
def test_a_counter_stream_needs_level_1_and_excludes_other_options(
    rg: railgun.Railgun, counting: Counting
) -> None:
    stream = counting()
    assert stream.info().config.metadata == {"_nats.req.level": "1"}
    for fields, reason in (
        ({"discard": "new"}, "counter stream cannot use discard new"),
        ({"allow_msg_ttl": True}, "counter stream cannot use message TTLs"),
        ({"allow_msg_schedules": True}, "counter stream cannot use message schedules"),
        ({"retention": "workqueue"}, "counter stream can only use limits retention"),
    ):
        with pytest.raises(InvalidStreamConfig) as caught:
            counting("OTHER", **fields)
        assert (caught.value.err_code, caught.value.description) == (10052, reason)
        if "retention" not in fields:  # which can not be changed to a work queue at all
            with pytest.raises(InvalidStreamConfig) as caught:
                rg.update_stream(stream.name, **fields)
            assert (caught.value.err_code, caught.value.description) == (10052, reason)


@pytest.mark.rule("DUP-16")
def test_a_duplicate_does_not_count(rg: railgun.Railgun, counting: Counting) -> None:
    stream = counting()
    assert add(rg, f"{stream.name}.a", "5", msg_id="1") == 5
    ack = rg.publish(f"{stream.name}.a", b"", headers={h.INCREMENT: "5"}, msg_id="1")
    assert (ack.duplicate, ack.sequence, ack.value) == (True, 1, None)
    assert add(rg, f"{stream.name}.a", "1", msg_id="2") == 6


# ------------------------------------------------------------ the handle


@pytest.mark.rule("CTR-02", "CTR-05", "CTR-16")
def test_a_counter_adds_tells_its_total_and_remembers(rg: railgun.Railgun, counting: Counting) -> None:
    stream = counting()
    hits = rg.counter(f"{stream.name}.hits")
    assert (hits.value(), hits.history()) == (0, [])
    assert (hits.add(100), hits.add(), hits.add(-3)) == (100, 101, 98)
    assert rg.counter(f"{stream.name}.other").add(5) == 5
    assert hits.value() == 98
    assert [(one.sequence, one.increment, one.total) for one in hits.history()] == [
        (1, 100, 100),
        (2, 1, 101),
        (3, -3, 98),
    ]
    assert hits.history()[0].time == stream.get(1).time
    stream.delete_message(3)
    assert (hits.value(), len(hits.history())) == (101, 2)
    assert stream.consumers() == []
    stream.purge()
    assert (hits.value(), hits.history(), hits.add(2)) == (0, [], 2)


@pytest.mark.rule("DUP-16")
def test_an_add_with_an_id_counts_once(rg: railgun.Railgun, counting: Counting) -> None:
    hits = rg.counter(f"{counting().name}.hits")
    assert (hits.add(5, msg_id="a"), hits.add(1), hits.add(5, msg_id="a")) == (5, 6, 6)


@pytest.mark.rule("CTR-07", "CTR-08", "CTR-11")
def test_what_a_counter_does_not_add(rg: railgun.Railgun, counting: Counting) -> None:
    stream = counting()
    hits = rg.counter(f"{stream.name}.hits")
    for number in (MOST + 1, LEAST - 1, 1.5, "1", True, None):
        with pytest.raises(railgun.ConfigError):
            hits.add(number)  # type: ignore[arg-type]
    assert hits.add(MOST) == MOST
    assert refusal(lambda: hits.add(1)) == INVALID
    rg.publish(f"{stream.name}.plain", b"text")
    plain = rg.counter(f"{stream.name}.plain")
    assert refusal(plain.add) == refusal(plain.value) == refusal(plain.history) == BROKEN
    with pytest.raises(railgun.NoStreamResponse):
        rg.counter("no.stream.captures.this").add()


@pytest.mark.rule("CTR-29")
def test_a_counter_is_read_under_the_subject_that_it_is_stored_under(
    rg: railgun.Railgun, unique: Unique
) -> None:
    name = unique("COUNTER")
    change = {"src": f"{name}.in.*", "dest": f"{name}.all"}
    rg.create_stream(name, subjects=[f"{name}.>"], subject_transform=change, allow_msg_counter=True)
    one, other = rg.counter(f"{name}.in.a"), rg.counter(f"{name}.in.b")
    assert (one.add(1), other.add(2)) == (1, 3)
    assert one.value() == other.value() == 3
    assert len(one.history()) == 2


@pytest.mark.rule("CTR-05")
async def test_counters_of_an_event_loop(arg: railgun.AsyncRailgun, counting: Counting) -> None:
    hits = arg.counter(f"{counting().name}.hits")
    assert sorted(await asyncio.gather(*(hits.add(2) for _ in range(20)))) == list(range(2, 41, 2))
    assert await hits.value() == 40
    assert [one.total for one in await hits.history()] == list(range(2, 41, 2))


@pytest.mark.rule("CTR-03")
def test_a_dead_letter_of_an_increment_is_not_an_increment(
    rg: railgun.Railgun, counting: Counting, unique: Unique
) -> None:
    stream, dead = counting(), unique("DEAD")
    hits = rg.counter(f"{stream.name}.hits")
    hits.add(7)
    worker = stream.create_consumer("worker", dead_letter=dead)
    (message,) = worker.fetch(1)
    message.term("no good")
    wait_until(lambda: rg.stream(dead).info().state.messages == 1, "the dead letter is stored")
    letter = rg.stream(dead).get(1)
    assert letter.payload == b'{"val":"7"}'
    assert (letter.header(h.INCREMENT), letter.header(h.ORIGIN_INCREMENT)) == (None, "+7")
