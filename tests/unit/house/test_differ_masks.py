"""The masks of the differential test: each explains its conflict and nothing else. No nats-server needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.differ.comparing import Difference
from tests.differ.drivers import MemoryDriver
from tests.differ.masks import MASKS
from tests.differ.moments import Done, Mask, Moment
from tests.differ.normal import normal
from tests.differ.operations import Ack, Call, Operation, Publish

CREATE = Call("STREAM.CREATE.S1", {"name": "S1", "subjects": ["a.*"]})


@pytest.fixture
def memory() -> Iterator[MemoryDriver]:
    driver = MemoryDriver()
    yield driver
    driver.close()


def masks(conflict: str) -> list[Mask]:
    return [mask for mask in MASKS if mask.reason == conflict]


def explained(
    conflict: str,
    driver: MemoryDriver,
    operation: Operation,
    nats: dict[str, Any],
    railgun: dict[str, Any],
    path: str = "error.err_code",
    before: Sequence[Done] = (),
) -> bool:
    """Whether the conflict explains that these bodies differ at the path, as far as both have it."""
    one, other = [{"body": nats}], [{"body": railgun}]
    left: Any = nats
    right: Any = railgun
    for part in path.split("."):
        left, right = (left or {}).get(part), (right or {}).get(part)
    difference = Difference((0, "body", *path.split(".")), left, right)
    moment = Moment(operation, one, other, before, lambda asked: normal(driver.send(asked)))
    return any(mask.explains(moment, difference) for mask in masks(conflict))


def refusal(number: int, text: str = "") -> dict[str, Any]:
    return {"error": {"err_code": number, "code": 400, "description": text}}


def test_bytes_of_headers_are_masked_to_the_byte(memory: MemoryDriver) -> None:
    memory.send(CREATE)
    memory.send(Publish("a.1", "x", (("Nats-Msg-Id", "1"), ("X-Own", "v"))))
    memory.send(Publish("a.1", "x"))
    info = Call("STREAM.INFO.S1")
    answer = normal(memory.send(info))[0]["body"]
    held = answer["state"]["bytes"]

    def masked(nats: int) -> bool:
        told = answer | {"state": {"bytes": nats}}
        return explained("C-18", memory, info, told, answer, "state.bytes")

    assert [more for more in range(30) if masked(held + more)] == [
        12
    ]  # NATS/1.0, a line end, a space in each


PUBLISH = Publish("a.1", "x", (("Nats-Msg-Id", "1"), ("Nats-Expected-Last-Sequence", "0")))
CONSUMER = Call("CONSUMER.CREATE.S1.C1", {"config": {"replay_policy": "original"}})
PUSHED = Call("CONSUMER.CREATE.S1.C1", {"config": {"replay_policy": "original", "deliver_subject": "d"}})
PLACED = Call("STREAM.CREATE.S1", {"name": "S1", "placement": {"cluster": "x"}})
DELETE = Call("STREAM.MSG.DELETE.S1", {"seq": 2})
DUPLICATE = {"stream": "S1", "seq": 1, "duplicate": True}
ADD = Publish("a.1", "", (("Nats-Incr", "1"),))
ADD_MUCH = Publish("a.1", "", (("Nats-Incr", "9223372036854775808"),))
UPDATE = Call("STREAM.UPDATE.S1", {"name": "S1", "allow_msg_counter": True})
MARKERS = Call("STREAM.CREATE.S1", {"allow_msg_counter": True, "subject_delete_marker_ttl": 5_000_000_000})
CANNOT = "stream configuration update can not change message counter setting"
NO_TTL = "counter stream cannot use message TTLs"


@pytest.mark.parametrize(
    "conflict, operation, nats, railgun, masked",
    [
        ("C-01", ADD, {"val": "9223372036854775808"}, refusal(10171), True),
        ("C-01", ADD, {"val": "7"}, refusal(10171), False),
        ("C-01", ADD_MUCH, refusal(10170), refusal(10171), True),
        ("C-01", ADD_MUCH, {"val": "5"}, refusal(10172), False),
        ("C-02", UPDATE, refusal(10052, CANNOT), {"config": {}}, True),
        ("C-02", UPDATE, refusal(10052, NO_TTL), {"config": {}}, False),
        ("C-03", PUBLISH, refusal(10169), {"stream": "S1", "seq": 1}, True),
        ("C-03", ADD, refusal(10169), {"stream": "S1", "seq": 1}, False),
        ("C-03", PUBLISH, refusal(10071), {"stream": "S1", "seq": 1}, False),
        ("C-75", MARKERS, {"config": {}}, refusal(10052, NO_TTL), True),
        ("C-75", UPDATE, {"config": {}}, refusal(10052, NO_TTL), False),
        ("C-26", PUBLISH, refusal(10071), DUPLICATE, True),
        ("C-26", PUBLISH, refusal(10060), DUPLICATE, False),
        ("C-26", PUBLISH, DUPLICATE, refusal(10071), False),
        ("C-26", PUBLISH, refusal(10071), {"stream": "S1", "seq": 2}, False),
        ("C-26", replace(PUBLISH, headers=PUBLISH.headers[1:]), refusal(10071), DUPLICATE, False),
        ("C-17", CONSUMER, {"name": "C1"}, refusal(10182), True),
        ("C-17", CONSUMER, refusal(10012), refusal(10182), True),
        ("C-17", CONSUMER, {"name": "C1"}, refusal(10012), False),
        ("C-17", PUSHED, {"name": "C1"}, refusal(10182), False),
        ("C-41", PLACED, {"config": {}}, refusal(10025, 'invalid JSON: field "placement" …'), True),
        ("C-41", PLACED, {"config": {}}, refusal(10025, 'invalid JSON: field "max_msgs" …'), False),
        ("C-41", CREATE, {"config": {}}, refusal(10025, 'invalid JSON: field "placement" …'), False),
        ("C-41", PLACED, refusal(10052), refusal(10025, 'invalid JSON: field "placement" …'), True),
        ("C-41", PLACED, refusal(10052), {"config": {}}, False),
        ("C-51", DELETE, refusal(10057), refusal(10043), True),
        ("C-51", DELETE, refusal(10057), {"success": True}, False),
        ("C-51", CREATE, refusal(10057), refusal(10043), False),
        ("C-55", replace(PUBLISH, headers=(("Nats-TTL", "-1"),)), {"seq": 1}, refusal(10165), True),
        ("C-55", PUBLISH, {"seq": 1}, refusal(10165), False),
        ("C-57", replace(CONSUMER, body={"action": "create"}), refusal(10148), {"name": "C1"}, True),
        ("C-57", CONSUMER, refusal(10148), {"name": "C1"}, False),
    ],
)
def test_a_mask_explains_its_conflict_and_nothing_else(
    memory: MemoryDriver,
    conflict: str,
    operation: Operation,
    nats: dict[str, Any],
    railgun: dict[str, Any],
    masked: bool,
) -> None:
    assert explained(conflict, memory, operation, nats, railgun) is masked


def test_only_the_text_of_a_json_error_is_masked(memory: MemoryDriver) -> None:
    one, other = refusal(10025, "invalid JSON: so"), refusal(10025, "invalid JSON: otherwise")
    assert explained("C-41", memory, CREATE, one, other, "error.description")
    assert not explained("C-41", memory, CREATE, one, other, "error.code")
    assert not explained("C-41", memory, CREATE, one, refusal(10052, "no"), "error.description")


# ------------------------------------------------------------ masks that ask what was done before

INTEREST = Call("STREAM.CREATE.S1", {"name": "S1", "subjects": ["a.*"], "retention": "interest"})
INFO = Call("CONSUMER.INFO.S1.C1")
PURGE = Call("STREAM.PURGE.S1")


def asked(name: str = "C1", **config: Any) -> Call:
    return Call(f"CONSUMER.CREATE.S1.{name}", {"stream_name": "S1", "config": config})


def info(name: str = "C1", **fields: Any) -> dict[str, Any]:
    return {"stream_name": "S1", "name": name, **fields}


def state(stream: str, messages: int) -> dict[str, Any]:
    return {"config": {"name": stream}, "state": {"messages": messages}}


def test_a_first_sequence_is_masked_where_nats_repeats_the_last_update(memory: MemoryDriver) -> None:
    update = Call("STREAM.UPDATE.S1", {"name": "S1", "first_seq": 7})
    railgun = {"config": {"name": "S1"}}

    def masked(value: int, *before: Operation) -> bool:
        told = {"config": {"name": "S1", "first_seq": value}}
        done = [(one, []) for one in before]
        return explained("C-48", memory, Call("STREAM.INFO.S1"), told, railgun, "config.first_seq", done)

    assert masked(7, CREATE, update)
    assert not masked(8, CREATE, update)
    assert not masked(7, CREATE)
    assert not masked(7, replace(update, name="STREAM.UPDATE.S2"))


@pytest.mark.parametrize(
    "limits, nats, railgun, masked",
    [
        ({"max_msgs_per_subject": 1, "max_msgs": 2}, 1, 2, True),
        ({"max_msgs_per_subject": 1, "max_msgs": 2}, 2, 1, False),
        ({"max_msgs": 2}, 1, 2, False),
    ],
)
def test_limits_that_sink_together_leave_more_in_railgun_never_less(
    memory: MemoryDriver, limits: dict[str, int], nats: int, railgun: int, masked: bool
) -> None:
    update = Call("STREAM.UPDATE.S1", {"name": "S1", **limits})
    one, other = state("S1", nats), state("S1", railgun)
    assert explained("C-49", memory, update, one, other, "state.messages") is masked


@pytest.mark.parametrize("sealed, left, masked", [(True, 2, True), (True, 0, False), (False, 2, False)])
def test_sealing_removes_nothing_here(memory: MemoryDriver, sealed: bool, left: int, masked: bool) -> None:
    update = Call("STREAM.UPDATE.S1", {"name": "S1", "max_msgs_per_subject": 1, "sealed": sealed})
    one, other = state("S1", 1), state("S1", left)
    assert explained("C-74", memory, update, one, other, "state.messages") is masked


@pytest.mark.parametrize(
    "most, body, concerned, masked",
    [
        (1, '-NAK {"delay": 1}', "C1", True),
        (2, '-NAK {"delay": 1}', "C1", False),  # a delivery is left
        (1, "-NAK", "C1", False),
        (1, '-NAK {"delay": 1}', "C2", False),
    ],
)
def test_only_a_delayed_nak_of_the_last_delivery_is_masked(
    memory: MemoryDriver, most: int, body: str, concerned: str, masked: bool
) -> None:
    delivery = {"stream": "S1", "consumer": "C1", "deliveries": 1, "sequence": 1}
    before: list[Done] = [
        (asked(max_deliver=most), []),
        (asked("C2", max_deliver=most), []),
        (Call("CONSUMER.MSG.NEXT.S1.C1"), [{"body": "", "delivery": delivery}]),
        (Ack(0, body), []),
    ]
    one, other = info(concerned, num_ack_pending=1), info(concerned)
    assert explained("C-67", memory, INFO, one, other, "num_ack_pending", before) is masked


@pytest.mark.parametrize("counted, masked", [(2, True), (3, False), (1, False)])
def test_what_nats_miscounts_railgun_must_count_right(
    memory: MemoryDriver, counted: int, masked: bool
) -> None:
    memory.send(CREATE)
    for _ in range(3):
        memory.send(Publish("a.1", "x"))
    config = {"deliver_policy": "by_start_sequence", "opt_start_seq": 2}
    one, other = info(config=config, num_pending=9), info(config=config, num_pending=counted)
    before: list[Done] = [(asked(**config), [])]
    assert explained("C-61", memory, INFO, one, other, "num_pending", before) is masked
    assert not explained("C-61", memory, INFO, one, other, "num_pending")


@pytest.mark.parametrize(
    "concerned, removal, masked", [("C1", PURGE, True), ("C2", PURGE, False), ("C1", INFO, False)]
)
def test_only_consumers_that_acknowledge_all_are_masked_after_a_removal(
    memory: MemoryDriver, concerned: str, removal: Call, masked: bool
) -> None:
    before: list[Done] = [
        (asked(ack_policy="all"), []),
        (asked("C2", ack_policy="explicit"), []),
        (removal, []),
    ]
    one, other = info(concerned), info(concerned, num_ack_pending=1)
    assert explained("C-43", memory, INFO, one, other, "num_ack_pending", before) is masked


@pytest.mark.parametrize(
    "stream, filters, masked", [("S1", "a.2", True), ("S2", "a.2", False), ("S1", "a.1", False)]
)
def test_interest_is_masked_for_the_stream_whose_consumers_changed(
    memory: MemoryDriver, stream: str, filters: str, masked: bool
) -> None:
    other_stream = Call("STREAM.CREATE.S2", {"name": "S2", "retention": "interest"})
    before: list[Done] = [
        (INTEREST, []),
        (other_stream, []),
        (asked(filter_subject="a.1", ack_policy="explicit"), []),
        (asked(filter_subject=filters, ack_policy="explicit"), []),
    ]
    one, other = state(stream, 1), state(stream, 2)
    operation = Call(f"STREAM.INFO.{stream}")
    assert explained("C-69", memory, operation, one, other, "state.messages", before) is masked


@pytest.mark.parametrize("subjects, masked", [({"a.1": 1}, True), ({}, False)])
def test_a_page_of_subjects_is_masked_with_the_subjects(
    memory: MemoryDriver, subjects: dict[str, int], masked: bool
) -> None:
    before: list[Done] = [
        (CREATE, []),
        (asked(ack_policy="none"), []),
        (replace(INTEREST, name="STREAM.UPDATE.S1"), []),
    ]
    one = {"config": {"name": "S1"}, "state": {"subjects": subjects}, "total": 1}
    other = {"config": {"name": "S1"}, "state": {"subjects": {}}}
    assert explained("C-69", memory, Call("STREAM.INFO.S1"), one, other, "total", before) is masked


@pytest.mark.parametrize(
    "purged, due, tries, masked",
    [
        ("S1", 1, 2, True),
        ("S2", 1, 2, False),
        ("S1", 2, 2, False),  # delivered after the purge only
        ("S1", 1, 1, False),
    ],
)
def test_what_was_due_before_a_purge_is_masked(purged: str, due: int, tries: int, masked: bool) -> None:
    def delivered(sequence: int, deliveries: int) -> dict[str, Any]:
        told = {"stream": "S1", "consumer": "C1", "deliveries": deliveries, "sequence": sequence}
        return {"body": "", "delivery": told}

    pull = Call("CONSUMER.MSG.NEXT.S1.C1", {"batch": 2, "no_wait": True})
    before: list[Done] = [
        (pull, [delivered(1, 1)]),
        (Call(f"STREAM.PURGE.{purged}"), []),
        (pull, [delivered(2, 1)]),
    ]
    ended = {"body": "", "status": "404 No Messages"}
    nats, railgun = [ended], [delivered(due, tries), ended]
    moment = Moment(pull, nats, railgun, before, lambda _: [])
    assert any(mask.explains(moment, Difference((), nats, railgun)) for mask in masks("C-83")) is masked
    again = Moment(pull, railgun, railgun, before, lambda _: [])
    assert not any(mask.explains(again, Difference((), nats, railgun)) for mask in masks("C-83"))


@pytest.mark.parametrize("left, masked", [("0", True), ("5", False)])
def test_the_end_of_a_pull_is_masked_where_its_bytes_are_used_up(left: str, masked: bool) -> None:
    delivered = {"body": "x", "subject": "a.1", "delivery": {"stream": "S1", "consumer": "C1"}}
    ended = {
        "body": "",
        "status": "409 Message Size Exceeds MaxBytes",
        "headers": [["Nats-Pending-Messages", "1"], ["Nats-Pending-Bytes", left]],
    }
    pull = Call("CONSUMER.MSG.NEXT.S1.C1", {"batch": 2, "max_bytes": 60})

    def explains(nats: list[Any], railgun: list[Any]) -> bool:
        moment = Moment(pull, nats, railgun, [], lambda _: [])
        return any(mask.explains(moment, Difference((), nats, railgun)) for mask in masks("C-73"))

    assert explains([delivered], [delivered, ended]) is masked
    assert not explains([], [delivered, ended])
    assert not explains([delivered, ended], [delivered])


@pytest.mark.parametrize(
    "pending, waited, masked",
    [
        (1, [], True),
        (1, [{"body": "", "status": "408 Request Timeout"}], True),
        (1, [{"body": "", "status": "409 Consumer Deleted"}], False),
        (0, [], False),
    ],
)
def test_a_pull_without_a_wait_is_masked_at_the_wall_alone(
    pending: int, waited: list[Any], masked: bool
) -> None:
    delivered = {"body": "x", "subject": "a.1", "delivery": {"stream": "S1", "consumer": "C1"}}
    nats, railgun = [delivered, *waited], [delivered, {"body": "", "status": "404 No Messages"}]
    pull = Call("CONSUMER.MSG.NEXT.S1.C1", {"batch": 2, "no_wait": True})
    told = {INFO: [{"body": info(config={"max_ack_pending": 1}, num_ack_pending=pending)}]}
    moment = Moment(pull, nats, railgun, [], lambda one: told[one])
    assert any(mask.explains(moment, Difference((), nats, railgun)) for mask in masks("C-68")) is masked


@pytest.mark.parametrize(
    "delivered, filters, masked", [({}, "a.2", True), ({"consumer_seq": 1}, "a.2", False), ({}, "a.1", False)]
)
def test_a_floor_is_masked_where_a_new_filter_started_the_consumer_over(
    memory: MemoryDriver, delivered: dict[str, int], filters: str, masked: bool
) -> None:
    before: list[Done] = [(asked(filter_subject="a.1"), []), (asked(filter_subject=filters), [])]
    one = info(ack_floor={"stream_seq": 1})
    other = info(**({"delivered": delivered} if delivered else {}))
    assert explained("C-60", memory, INFO, one, other, "ack_floor.stream_seq", before) is masked


@pytest.mark.parametrize(
    "body, nats, railgun, masked",
    [
        ({}, "-1", "0", True),
        ({"batch": 0}, "0", "1", True),
        ({}, "0", "2", False),
        ({"batch": 1}, "-1", "0", False),
    ],
)
def test_what_is_left_of_a_pull_without_a_batch_is_one_less_in_nats(
    body: dict[str, int], nats: str, railgun: str, masked: bool
) -> None:
    one, other = ([{"headers": [["Nats-Pending-Messages", left]]}] for left in (nats, railgun))
    moment = Moment(Call("CONSUMER.MSG.NEXT.S1.C1", body), one, other, [], lambda _: [])
    difference = Difference((0, "headers", 0, 1), nats, railgun)
    assert any(mask.explains(moment, difference) for mask in masks("C-63")) is masked


def test_every_mask_has_the_number_of_a_conflict() -> None:
    assert {mask.reason[:2] for mask in MASKS} == {"C-"}
