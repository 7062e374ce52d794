"""``railgun batch`` on a cluster in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from railgun.client.facade.railgun import connect
from tests.support.commands import Run, done, said

LINES = """ORDERS.a one word
{"subject": "ORDERS.b", "payload": "two", "headers": {"Trace": "7"}, "expected_last_subject_sequence": 0}

ORDERS.empty
"""


@pytest.fixture
def atomic(orders: Run) -> Run:
    """The stream ORDERS takes batches."""
    done(orders("stream", "edit", "ORDERS", "--allow-atomic"))
    return orders


def test_the_lines_of_a_file_are_one_batch(atomic: Run, server: str, tmp_path: Path) -> None:
    file = tmp_path / "batch.txt"
    file.write_text(LINES)
    assert done(atomic("batch", str(file))) == "Stored 3 messages together: the last is ORDERS#3\n"
    with connect(server) as rg:
        found = [rg.stream("ORDERS").get(number) for number in (1, 2, 3)]
    assert [one.payload for one in found] == [b"one word", b"two", b""]
    assert ("Trace", b"7") in found[1].headers


def test_lines_come_from_standard_input_and_the_ack_as_json(atomic: Run) -> None:
    ack = json.loads(done(atomic("batch", "-", "--json", text=LINES)))
    assert (ack["stream"], ack["seq"], ack["count"]) == ("ORDERS", 3, 3)
    assert done(atomic("batch", "-", text="\n")) == "The batch is empty.\n"
    assert json.loads(done(atomic("batch", "-", "--json", text=""))) == {"count": 0}


@pytest.mark.parametrize(
    "line",
    [
        " ORDERS.a one",
        "{",
        '{"payload": "x"}',
        '{"subject": "ORDERS.a", "payload": 7}',
        '{"subject": "ORDERS.a", "msg_id": "x"}',
        '{"subject": "ORDERS.a", "expected_last_sequence": "one"}',
        '{"subject": "ORDERS.a", "headers": ["x"]}',
    ],
)
def test_a_line_that_is_no_message_is_named_and_nothing_is_stored(
    atomic: Run, server: str, line: str
) -> None:
    result = atomic("batch", "-", text=f"ORDERS.a one\n{line}\n")
    assert result.exit_code == 1
    assert "line 2 is not a message" in said(result)
    with connect(server) as rg:
        assert rg.stream("ORDERS").info().state.last_seq == 0


def test_what_is_refused_is_said(atomic: Run) -> None:
    wrong = '{"subject": "ORDERS.a", "expected_last_sequence": 7}'
    assert said(atomic("batch", "-", text=wrong)) == "error: wrong last sequence: 0 (10071/400)\n"
    assert "nofile cannot be read" in said(atomic("batch", "nofile"))
