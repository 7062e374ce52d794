"""The masks of the differential test for batches: each explains its conflict and nothing else. No nats-server needed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.differ.comparing import Difference
from tests.differ.generator import sequence
from tests.differ.masks import MASKS
from tests.differ.moments import Done, Moment, members
from tests.differ.operations import Call, Operation, Publish

STAGED: list[Any] = [{"body": ""}]
ACK: list[Any] = [{"body": {"stream": "S1", "seq": 2, "batch": "b", "count": 2}}]


def message(number: int | str, commit: str = "", batch: str = "b", **others: str) -> Publish:
    """A message of a batch; ``others`` are names of headers with underscores for dashes."""
    given = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
    if commit:
        given["Nats-Batch-Commit"] = commit
    return Publish("a.1", "", tuple({**given, **_named(others)}.items()))


def _named(others: dict[str, str]) -> dict[str, str]:
    return {"Nats-" + name.replace("_", "-"): value for name, value in others.items()}


def refused(number: int, text: str = "") -> list[Any]:
    return [{"body": {"error": {"err_code": number, "code": 400, "description": text}, "stream": "S1"}}]


def explained(
    conflict: str, operation: Operation, nats: list[Any], railgun: list[Any], *before: Done
) -> bool:
    moment = Moment(operation, nats, railgun, before, lambda _: [])
    difference = Difference((0, "body", "error", "err_code"), 0, 1)
    return any(mask.explains(moment, difference) for mask in MASKS if mask.reason == conflict)


def test_the_messages_of_a_batch_are_those_since_the_last_one_of_its_name() -> None:
    first, second, other = message(1, X="1"), message(2), message(1, batch="c")
    before: list[Done] = [
        (message(1), STAGED),
        (message(2, "1"), ACK),
        (first, STAGED),
        (other, STAGED),
        (second, STAGED),
    ]

    def of(operation: Operation) -> list[Publish]:
        return members(Moment(operation, [], [], before, lambda _: []))

    last, end = message(3, "1"), message(3, "eob")
    assert of(last) == [first, second, last]
    assert of(end) == [first, second]
    assert of(message(3)) == [message(3)]
    assert of(Call("STREAM.INFO.S1")) == []


UNSUPPORTED = "atomic publish unsupported header used: Nats-"


@pytest.mark.parametrize(
    "given, nats, text, masked",
    [
        ({"Msg_Id": "1"}, ACK, UNSUPPORTED + "Msg-Id", True),
        ({"Msg_Id": "1"}, refused(10201), UNSUPPORTED + "Msg-Id", True),
        ({}, ACK, UNSUPPORTED + "Msg-Id", False),
        ({"Msg_Id": "1"}, ACK, UNSUPPORTED + "Expected-Last-Msg-Id", False),
    ],
)
def test_an_id_in_a_batch_is_masked(given: dict[str, str], nats: list[Any], text: str, masked: bool) -> None:
    before: Done = (message(1, **given), STAGED)
    assert explained("C-07", message(2, "1"), nats, refused(10177, text), before) is masked


@pytest.mark.parametrize(
    "conflict, operation, nats, railgun, masked",
    [
        ("C-84", message(1, batch=""), [{"body": {"seq": 1}}], refused(10179), True),
        ("C-84", message(1), [{"body": {"seq": 1}}], refused(10179), False),
        ("C-84", message(1, batch=""), [{"body": {"seq": 1}}], refused(10071), False),
        ("C-88", message(0, "eob"), refused(10199), refused(10176), True),
        ("C-88", message(1001, "eob"), refused(10199), refused(10176), False),
        ("C-88", message(0, "1"), refused(10199), refused(10176), False),
    ],
)
def test_a_mask_looks_at_the_place_in_the_batch(
    conflict: str, operation: Publish, nats: list[Any], railgun: list[Any], masked: bool
) -> None:
    assert explained(conflict, operation, nats, railgun) is masked


@pytest.mark.parametrize(
    "first, last, told, masked",
    [
        ({}, {"Expected_Last_Sequence": "7"}, "wrong last sequence: 1", True),
        ({}, {"Expected_Last_Sequence": "7"}, "wrong last sequence: 2", False),
        ({}, {}, "wrong last sequence: 1", False),
        ({"Expected_Last_Sequence": "7"}, {}, "wrong last sequence: 1", False),
    ],
)
def test_nats_counts_the_messages_ahead_in_the_last_sequence(
    first: dict[str, str], last: dict[str, str], told: str, masked: bool
) -> None:
    before: Done = (message(1, **first), STAGED)
    railgun = refused(10071, "wrong last sequence: 0")
    assert explained("C-87", message(2, "1", **last), refused(10071, told), railgun, before) is masked


@pytest.mark.parametrize("subjects, masked", [(["b.*"], True), (["a.*"], False)])
def test_a_subject_that_the_stream_gave_up_is_masked(subjects: list[str], masked: bool) -> None:
    update = Call("STREAM.UPDATE.S1", {"name": "S1", "subjects": subjects})
    before: list[Done] = [(message(1), STAGED), (update, [{"body": {"config": {}}}])]
    assert explained("C-86", message(2, "1"), ACK, [{"status": "503"}], *before) is masked
    assert not explained("C-86", message(2, "1"), ACK, refused(10176), *before)


@pytest.mark.parametrize("number, masked", [("9223372036854775807", True), ("5", False)])
def test_totals_of_a_batch_may_need_more_than_64_bits(number: str, masked: bool) -> None:
    before: Done = (message(1, Incr=number), STAGED)
    assert explained("C-01", message(2, "1", Incr="1"), ACK, refused(10171), before) is masked


def test_a_plain_message_ahead_in_the_batch_is_masked() -> None:
    last, nats, railgun = message(2, "1", Incr="1"), refused(10169), ACK
    assert explained("C-03", last, nats, railgun, (message(1), STAGED))
    assert not explained("C-03", last, nats, railgun, (message(1, Incr="1"), STAGED))


def test_some_sequences_have_batches_that_are_committed() -> None:
    written = [one for number in range(60) for one in sequence(f"seed/{number}") if isinstance(one, Publish)]
    commits = {dict(one.headers).get("Nats-Batch-Commit") for one in written}
    assert {None, "1", "eob"} <= commits
