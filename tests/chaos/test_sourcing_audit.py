"""The audit of copies finds what it is there to find, and nothing where all is well."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from railgun.model import headers as h
from railgun.model.counters import body_of
from tests.chaos.copying import sourcing_audit as check
from tests.chaos.copying.logs import Record


def record(sequence: int, subject: str, payload: bytes, **headers: str) -> Record:
    names = {"incr": h.INCREMENT, "id": h.MSG_ID, "source": h.STREAM_SOURCE, "ledger": h.COUNTER_SOURCES}
    names |= {"batch": h.BATCH_ID}
    return Record(
        sequence, subject, {names[name]: value.encode() for name, value in headers.items()}, payload
    )


def copy(sequence: int, of: int, payload: bytes, upstream: str = "A") -> Record:
    return record(sequence, "A.x", payload, source=f"{upstream} {of} > > A.x")


ORIGINAL = [record(1, "A.x", b"one"), record(2, "A.y", b"two"), record(3, "A.x", b"three")]
COPIES = [copy(1, 1, b"one"), copy(2, 2, b"two"), copy(3, 3, b"three")]


def told(wrong: Sequence[str], text: str) -> bool:
    return any(text in one for one in wrong)


def test_good_copies_are_good() -> None:
    assert check.source_differences("A", ORIGINAL, COPIES) == []
    assert check.mirror_differences(ORIGINAL, list(ORIGINAL)) == []
    assert check.output_differences(ORIGINAL, [COPIES[2], COPIES[0], COPIES[1]]) == []


@pytest.mark.parametrize(
    "copies, text",
    [
        pytest.param(COPIES[:2], "payloads differ from place 2 on (3 there, 2 here)", id="lost"),
        pytest.param([*COPIES, copy(4, 3, b"three")], "payloads differ from place 3 on", id="twice"),
        pytest.param([copy(1, 2, b"two"), copy(2, 1, b"one"), COPIES[2]], "from place 0 on", id="order"),
        pytest.param([*COPIES[:2], copy(4, 3, b"three")], "do not count from 1", id="gap"),
        pytest.param([*COPIES[:2], copy(3, 2, b"three")], "of A: sequences differ", id="header"),
        pytest.param([*COPIES[:2], copy(3, 3, b"three", "B")], "of B: sequences differ", id="stranger"),
        pytest.param([*COPIES[:2], copy(3, 3, b"other")], "payloads differ from place 2 on", id="payload"),
    ],
)
def test_what_is_wrong_with_a_source_is_told(copies: list[Record], text: str) -> None:
    assert told(check.source_differences("A", ORIGINAL, copies), text)


@pytest.mark.parametrize(
    "copies",
    [
        pytest.param(ORIGINAL[:2], id="lost"),
        pytest.param([*ORIGINAL, ORIGINAL[2]], id="twice"),
        pytest.param([*ORIGINAL[:2], ORIGINAL[2]._replace(sequence=4)], id="sequence"),
        pytest.param([*ORIGINAL[:2], ORIGINAL[2]._replace(subject="A.y")], id="subject"),
    ],
)
def test_what_is_wrong_with_a_mirror_is_told(copies: list[Record]) -> None:
    assert told(check.mirror_differences(ORIGINAL, copies), "sequences, subjects and payloads differ")


def test_what_is_wrong_with_outputs_is_told() -> None:
    assert told(check.output_differences(ORIGINAL, COPIES[:2]), "1 inputs are not there: [b'three']")
    assert told(check.output_differences(ORIGINAL, [*COPIES, COPIES[0]]), "1 outputs are there too often")


# -- counters


def counted(sequence: int, subject: str, increment: int, total: int, **headers: str) -> Record:
    return record(sequence, subject, body_of(total), incr=f"{increment:+d}", **headers)


def added(sequence: int, of: tuple[str, int], increment: int, total: int, **ledger: int) -> Record:
    upstream, place = of
    text = json.dumps({name: {f"{name}.0": str(seen)} for name, seen in ledger.items()})
    source = f"{upstream} {place} {upstream}.* SUM.$1 {upstream}.0"
    return counted(sequence, "SUM.0", increment, total, source=source, ledger=text)


LOCAL_LEDGER = '{"A":{"A.0":"5"}}'
UPSTREAMS = {
    "A": [counted(1, "A.0", 2, 2), counted(2, "A.0", 3, 5)],
    "B": [counted(1, "B.0", 7, 7)],
}
TARGET = [
    added(1, ("A", 1), 2, 2, A=2),
    added(2, ("A", 2), 3, 5, A=5),
    counted(3, "SUM.0", 10, 15, id="local", ledger=LOCAL_LEDGER),
    added(4, ("B", 1), 7, 22, A=5, B=7),
]


def test_a_good_sum_is_good() -> None:
    assert check.sum_differences(TARGET, UPSTREAMS) == []
    for log in [TARGET, *UPSTREAMS.values()]:
        assert check.counter_differences(log) == []


@pytest.mark.parametrize(
    "target, text",
    [
        pytest.param(TARGET[:3], "totals are {'0': 15}, those of the upstreams", id="lost"),
        pytest.param([*TARGET, added(5, ("B", 1), 7, 29, A=5, B=7)], "totals are {'0': 29}", id="twice"),
        pytest.param([*TARGET, added(5, ("B", 1), 0, 22, A=5, B=7)], "of B: sequences differ", id="nothing"),
        pytest.param(
            [*TARGET[:3], added(4, ("B", 1), 7, 22, A=4, B=7)], "the ledger of SUM.0 says", id="ledger"
        ),
        pytest.param([TARGET[1], TARGET[0], *TARGET[2:]], "of A: sequences differ", id="order"),
    ],
)
def test_what_is_wrong_with_a_sum_is_told(target: list[Record], text: str) -> None:
    assert told(check.sum_differences(target, UPSTREAMS), text)


def test_a_total_that_is_not_the_sum_of_the_log_is_told() -> None:
    wrong = [TARGET[0], TARGET[1]._replace(payload=body_of(6)), *TARGET[2:]]
    assert told(check.counter_differences(wrong), "totals that are not the sum")
    assert told(check.counter_differences(TARGET[1:]), "do not count from 1")


# -- what was acknowledged


def test_ids_are_compared_with_the_acks() -> None:
    log = [record(1, "A.x", b"", id="one"), record(2, "A.x", b"", id="two"), copy(3, 1, b"copied")]
    acked = {"one": 1, "two": 2}
    assert check.id_differences(log, acked) == []
    assert told(check.id_differences([*log, record(4, "A.x", b"", id="two")], acked), "stored twice: ['two']")
    assert told(check.id_differences(log, {**acked, "three": 3}), "1 acked messages are not there: ['three']")
    assert told(check.id_differences(log, {"one": 1, "two": 3}), "another sequence")
    assert told(check.id_differences(log, {"one": 1}), "nobody has an ack for: ['two']")


def test_batches_are_whole_or_not_there() -> None:
    log = [record(1, "A.x", b"", batch="B"), record(2, "A.x", b"", batch="B"), record(3, "A.x", b"")]
    assert check.batch_differences(log, {"B": 2, "unknown": 5}, {"B"}, ()) == []
    assert told(
        check.batch_differences(log, {"B": 3}, (), ()), "not whole (id, messages, size): [('B', 2, 3)]"
    )
    assert told(check.batch_differences(log, {"B": 2, "C": 1}, {"C"}, ()), "1 acked batches are not there")
    assert told(check.batch_differences(log, {"B": 2}, (), {"B"}), "1 refused batches are there")
