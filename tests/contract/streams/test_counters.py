"""Counters (CTR): increments, totals, what a counter refuses, and how it begins anew."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import railgun
from railgun.errors import CounterRefused, InvalidStreamConfig
from railgun.model import headers as h

MOST, LEAST = 2**63 - 1, -(2**63)
DISABLED = (400, 10168, "message counters is disabled")
MISSING = (400, 10169, "message counter increment is missing")
PAYLOAD = (400, 10170, "message counter has payload")
INVALID = (400, 10171, "message counter increment is invalid")
BROKEN = (400, 10172, "message counter is broken")


def counting(rg: railgun.Railgun, name: str = "COUNTER", **fields: object) -> railgun.Stream:
    return rg.create_stream(name, **{"subjects": [f"{name}.*"], "allow_msg_counter": True, **fields})


def add(rg: railgun.Railgun, subject: str, text: str, **options: object) -> int | None:
    headers = {h.INCREMENT: text, **options.pop("headers", {})}  # type: ignore[dict-item]
    return rg.publish(subject, b"", headers=headers, **options).value  # type: ignore[arg-type]


def refusal(publish: Callable[[], object]) -> tuple[int, int, str]:
    with pytest.raises(CounterRefused) as caught:
        publish()
    return caught.value.code, caught.value.err_code, caught.value.description


@pytest.mark.rule("CTR-01", "CTR-02", "CTR-03", "CTR-04", "CTR-05")
def test_an_increment_is_stored_with_the_new_total(rg: railgun.Railgun) -> None:
    stream = counting(rg)
    assert add(rg, "COUNTER.hits", "100") == 100
    sent = {h.INCREMENT: "+1", "who": "me"}
    ack = rg.publish("COUNTER.hits", b"", headers=sent)
    assert (ack.sequence, ack.value) == (2, 101)
    last = stream.get_last("COUNTER.hits")
    assert last.payload == b'{"val":"101"}'
    assert last.headers == [(h.INCREMENT, b"+1"), ("who", b"me")]
    (reply,) = rg.request("COUNTER.hits", b"", {h.INCREMENT: "-2"})
    assert reply.json() == {"stream": "COUNTER", "seq": 3, "val": "99"}


@pytest.mark.rule("CTR-06")
def test_what_is_an_increment(rg: railgun.Railgun) -> None:
    stream = counting(rg)
    totals = [add(rg, "COUNTER.a", text) for text in ("+5", "-7", "5", "0", "+0", "-0", " 4", "007")]
    assert totals == [5, -2, 3, 3, 3, 3, 7, 14]
    for text in ("bogus", "+", "-", "1.5", "1e3", "0x5", "5 5", "--5", "1_000", "５"):
        assert refusal(lambda text=text: add(rg, "COUNTER.a", text)) == INVALID, text  # type: ignore[misc]
    assert stream.info().state.messages == 8
    assert stream.get_last("COUNTER.a").text == '{"val":"14"}'


@pytest.mark.rule("CTR-07", "CTR-08")
def test_the_range_is_64_bits(rg: railgun.Railgun) -> None:
    stream = counting(rg)
    for text in (str(MOST + 1), str(LEAST - 1), "9" * 400, "0" * 5_000 + "1" + "0" * 20):
        assert refusal(lambda text=text: add(rg, "COUNTER.a", text)) == INVALID  # type: ignore[misc]
    assert add(rg, "COUNTER.a", f"+{MOST}") == MOST
    assert refusal(lambda: add(rg, "COUNTER.a", "1")) == INVALID
    assert add(rg, "COUNTER.b", str(LEAST)) == LEAST
    assert refusal(lambda: add(rg, "COUNTER.b", "-1")) == INVALID
    assert refusal(lambda: add(rg, "COUNTER.b", str(LEAST))) == INVALID
    assert [stream.get_last(f"COUNTER.{one}").json()["val"] for one in "ab"] == [str(MOST), str(LEAST)]
    assert add(rg, "COUNTER.a", str(-MOST)) == 0


@pytest.mark.rule("CTR-09", "CTR-10")
def test_an_increment_has_no_body_and_needs_the_option(rg: railgun.Railgun) -> None:
    counting(rg)
    rg.create_stream("PLAIN", subjects=["PLAIN.*"])
    assert refusal(lambda: rg.publish("COUNTER.a", b"x", headers={h.INCREMENT: "1"})) == PAYLOAD
    assert refusal(lambda: rg.publish("PLAIN.a", b"", headers={h.INCREMENT: "1"})) == DISABLED
    assert rg.stream("COUNTER").info().state.messages == rg.stream("PLAIN").info().state.messages == 0


@pytest.mark.rule("CTR-11", "CTR-13", "CTR-14")
def test_a_subject_is_a_counter_or_it_is_not(rg: railgun.Railgun) -> None:
    stream = counting(rg)
    assert rg.publish("COUNTER.plain", b"one").value is None
    assert rg.publish("COUNTER.plain", b"two").sequence == 2
    assert refusal(lambda: add(rg, "COUNTER.plain", "1")) == BROKEN
    assert add(rg, "COUNTER.hits", "1") == 1
    assert refusal(lambda: rg.publish("COUNTER.hits", b"text")) == MISSING
    assert refusal(lambda: rg.publish("COUNTER.hits", b"")) == MISSING
    assert refusal(lambda: rg.publish("COUNTER.hits", b"", headers={"kind": "other"})) == MISSING
    assert add(rg, "COUNTER.hits", "1") == 2
    assert stream.info().state.messages == 4


@pytest.mark.rule("CTR-15")
def test_counters_are_independent_and_limits_do_not_disturb_them(rg: railgun.Railgun) -> None:
    stream = counting(rg, max_msgs_per_subject=1)
    for _ in range(5):
        add(rg, "COUNTER.a", "2")
        add(rg, "COUNTER.b", "-3")
    assert stream.info().state.messages == 2
    assert (add(rg, "COUNTER.a", "0"), add(rg, "COUNTER.b", "0")) == (10, -15)
    few = counting(rg, "FEW", max_msgs=3)
    assert [add(rg, "FEW.a", "1") for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert few.info().state.first_seq == 4


@pytest.mark.rule("CTR-16")
def test_a_purge_begins_anew_and_a_delete_goes_back(rg: railgun.Railgun) -> None:
    stream = counting(rg)
    for _ in range(4):
        add(rg, "COUNTER.a", "10")
        add(rg, "COUNTER.b", "1")
    stream.delete_message(7)  # a: 10, 20, 30 are left
    assert add(rg, "COUNTER.a", "1") == 31
    stream.delete_message(9)
    stream.delete_message(5)
    assert refusal(lambda: rg.publish("COUNTER.a", b"plain")) == MISSING  # it still is a counter
    assert add(rg, "COUNTER.a", "1") == 21
    stream.purge(subject="COUNTER.a")
    assert (add(rg, "COUNTER.a", "1"), add(rg, "COUNTER.b", "1")) == (1, 5)
    stream.purge()
    assert (add(rg, "COUNTER.a", "7"), add(rg, "COUNTER.b", "8")) == (7, 8)
    stream.purge()
    assert rg.publish("COUNTER.a", b"plain").sequence == 15
    assert refusal(lambda: add(rg, "COUNTER.a", "1")) == BROKEN
    stream.delete_message(15)
    assert add(rg, "COUNTER.a", "1") == 1


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
    rg: railgun.Railgun, headers: dict[str, str]
) -> None:
    stream = counting(rg, allow_rollup_hdrs=True)
    assert refusal(lambda: add(rg, "COUNTER.a", "1", headers=headers)) == INVALID
    assert stream.info().state.messages == 0


@pytest.mark.rule("CTR-18", "CTR-19")
def test_concurrent_increments_are_never_lost(rg: railgun.Railgun) -> None:
    stream = counting(rg)
    numbers = [[publisher - 3, 2 * publisher, -1, 1] for publisher in range(10)]

    def work(own: list[int]) -> None:
        for number in own:
            add(rg, "COUNTER.a", str(number))

    threads = [threading.Thread(target=work, args=(own,)) for own in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    futures = [rg.publish_soon("COUNTER.b", headers={h.INCREMENT: "+1"}) for _ in range(100)]
    assert sorted(future.result().value or 0 for future in futures) == list(range(1, 101))
    assert stream.get_last("COUNTER.a").json()["val"] == str(sum(map(sum, numbers)))
    assert stream.get_last("COUNTER.b").json()["val"] == "100"


@pytest.mark.rule("CTR-20", "UPD-14")
def test_the_option_can_be_turned_off_and_on(rg: railgun.Railgun) -> None:
    rg.create_stream("COUNTER", subjects=["COUNTER.*"])
    rg.publish("COUNTER.old", b"plain")
    rg.update_stream("COUNTER", allow_msg_counter=True)
    assert refusal(lambda: add(rg, "COUNTER.old", "1")) == BROKEN
    assert (add(rg, "COUNTER.kept", "3"), add(rg, "COUNTER.lost", "4")) == (3, 4)
    assert add(rg, "COUNTER.back", "5") == 5
    stream = rg.update_stream("COUNTER", allow_msg_counter=False)
    assert stream.info().config.metadata == {"_nats.req.level": "0"}
    assert refusal(lambda: add(rg, "COUNTER.kept", "1")) == DISABLED
    rg.publish("COUNTER.lost", b"plain")
    gone = rg.publish("COUNTER.back", b"plain").sequence
    rg.update_stream("COUNTER", allow_msg_counter=True)
    assert add(rg, "COUNTER.kept", "1") == 4
    assert refusal(lambda: rg.publish("COUNTER.kept", b"plain")) == MISSING
    assert refusal(lambda: add(rg, "COUNTER.lost", "1")) == BROKEN
    stream.delete_message(gone)
    assert add(rg, "COUNTER.back", "1") == 6


@pytest.mark.rule("CTR-21")
def test_a_mirror_does_not_count(rg: railgun.Railgun) -> None:
    with pytest.raises(InvalidStreamConfig) as caught:
        rg.create_stream("M", mirror={"name": "ORIGIN"}, allow_msg_counter=True)
    assert (caught.value.code, caught.value.err_code) == (400, 10173)
    assert caught.value.description == "stream mirrors can not also calculate counters"


@pytest.mark.rule("CTR-29")
def test_a_subject_transform_comes_first(rg: railgun.Railgun) -> None:
    change = {"src": "COUNTER.in.*", "dest": "COUNTER.all"}
    stream = counting(rg, subjects=["COUNTER.>"], subject_transform=change)
    assert (add(rg, "COUNTER.in.a", "1"), add(rg, "COUNTER.in.b", "2")) == (1, 3)
    assert add(rg, "COUNTER.all", "3") == 6
    assert stream.info(subjects=">").state.subjects == {"COUNTER.all": 3}


@pytest.mark.rule("CTR-30", "CFG-26")
def test_a_counter_stream_needs_level_1_and_excludes_other_options(rg: railgun.Railgun) -> None:
    assert counting(rg).info().config.metadata == {"_nats.req.level": "1"}
    for fields, reason in (
        ({"discard": "new"}, "counter stream cannot use discard new"),
        ({"allow_msg_ttl": True}, "counter stream cannot use message TTLs"),
        ({"allow_msg_schedules": True}, "counter stream cannot use message schedules"),
        ({"retention": "workqueue"}, "counter stream can only use limits retention"),
    ):
        with pytest.raises(InvalidStreamConfig) as caught:
            counting(rg, "OTHER", **fields)
        assert (caught.value.err_code, caught.value.description) == (10052, reason)
        if "retention" not in fields:  # which can not be changed to a work queue at all
            with pytest.raises(InvalidStreamConfig) as caught:
                rg.update_stream("COUNTER", **fields)
            assert (caught.value.err_code, caught.value.description) == (10052, reason)


@pytest.mark.rule("DUP-16")
def test_a_duplicate_does_not_count(rg: railgun.Railgun) -> None:
    counting(rg)
    assert add(rg, "COUNTER.a", "5", msg_id="1") == 5
    ack = rg.publish("COUNTER.a", b"", headers={h.INCREMENT: "5"}, msg_id="1")
    assert (ack.duplicate, ack.sequence, ack.value) == (True, 1, None)
    assert add(rg, "COUNTER.a", "1", msg_id="2") == 6
