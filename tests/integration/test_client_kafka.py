"""The facade and a real Kafka: what is missing is said in words, and what the broker has is carried out."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import railgun
from railgun.client.facade.readiness import wait_for_workers
from railgun.kafka.embedded import EmbeddedBroker, free_port
from railgun.testing import Clock
from tests.support.cell import Cell
from tests.support.checkout import environment
from tests.support.secured_broker import sasl
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka


def test_no_broker_is_said_in_words() -> None:
    with pytest.raises(railgun.ConnectionLost, match=r"no broker answers at 127\.0\.0\.1:1"):
        railgun.connect("127.0.0.1:1")


def test_a_prefix_that_nobody_set_up_names_the_command(kafka_bootstrap: str) -> None:
    with pytest.raises(railgun.NoWorker, match="railgun worker"):
        railgun.connect(kafka_bootstrap, prefix="nobody-was-here")
    with pytest.raises(railgun.NoWorker):
        wait_for_workers(kafka_bootstrap, "nobody-was-here", timeout=0.5)


def test_credentials_that_the_broker_does_not_take(kafka_bootstrap: str) -> None:
    with pytest.raises(railgun.NotAuthorized, match="refused the credentials"):
        railgun.connect(kafka_bootstrap, kafka=sasl("app", "wrong"))


def test_without_a_worker_nothing_is_sent_and_a_new_one_serves_again(cell: Cell) -> None:
    worker = cell.ready_worker()
    with cell.connect() as rg:
        rg.create_stream("S", subjects=["s"])
        assert rg.publish("s", b"1").sequence == 1
        worker.stop()
        with cell.connect() as other:
            with pytest.raises(railgun.NoWorker, match="faust -A railgun worker"):
                other.publish("s", b"never sent")
        worker.start().await_ready()
        assert rg.publish("s", b"2").sequence == 2


def test_a_worker_that_does_not_answer_leaves_the_outcome_open(shared_cell: Cell) -> None:
    (worker,) = shared_cell.workers
    with shared_cell.connect() as rg:
        stream = rg.create_stream("OPEN", subjects=["open"])
        rg.publish("open", b"1")
        worker.signal(signal.SIGSTOP)
        try:
            with pytest.raises(railgun.RequestTimeout, match="stored and its outcome is unknown"):
                rg.publish("open", b"2", msg_id="2", timeout=1.0)
        finally:
            worker.signal(signal.SIGCONT)
        assert rg.publish("open", b"2", msg_id="2") == railgun.PubAck("OPEN", 2, duplicate=True)
        assert stream.info().state.messages == 2


def test_a_program_that_ends_without_closing_loses_nothing(shared_cell: Cell) -> None:
    with shared_cell.connect() as rg:
        stream = rg.create_stream("ENDING", subjects=["ending"])
        code = (
            "import railgun, sys\n"
            "rg = railgun.connect(sys.argv[1], prefix=sys.argv[2], timeout=20.0)\n"
            "futures = [rg.publish_soon('ending', b'x') for _ in range(5000)]\n"
        )
        subprocess.run(
            [sys.executable, "-c", code, shared_cell.bootstrap, shared_cell.prefix],
            env=environment(),
            check=True,
            timeout=60,
        )
        assert stream.info().state.messages == 5_000


def test_messages_are_read_from_the_log_across_gaps(shared_cell: Cell) -> None:
    with shared_cell.connect() as rg:
        stream = rg.create_stream("GAPS", subjects=["gaps.*"], max_msgs_per_subject=2)
        for number in range(30):
            rg.publish(f"gaps.{number % 3}", str(number), headers={"N": str(number)})
        stream.delete_message(29)
        assert [stream.get(sequence).text for sequence in (25, 26, 27, 28, 30)] == [
            "24",
            "25",
            "26",
            "27",
            "29",
        ]
        assert stream.get(30).subject == "gaps.2"
        assert stream.get_last("gaps.1").text == "25"
        for sequence in (1, 24, 29, 31):
            with pytest.raises(railgun.MessageNotFound):
                stream.get(sequence)
        Clock(rg).advance(1)


def test_a_broker_that_goes_away_is_said_and_comes_back(tmp_path: Path) -> None:
    with (
        EmbeddedBroker(tmp_path / "broker", free_port()) as broker,
        Cell(broker.bootstrap, tmp_path / "cell") as cell,
    ):
        cell.ready_worker()
        with cell.connect(timeout=4.0) as rg:
            rg.create_stream("S", subjects=["s"])
            assert rg.publish("s", b"1").sequence == 1
            broker.stop()
            with pytest.raises((railgun.ConnectionLost, railgun.RequestTimeout)):
                rg.publish("s", b"2", msg_id="2")
            broker.start()
            wait_until(lambda: _stored(rg), "the broker takes commands again", timeout=60.0)


def _stored(rg: railgun.Railgun) -> bool:
    """Whether the broker took the command; when the worker is back as well is not the client's affair."""
    try:
        return rg.publish("s", b"2", msg_id="2").stream == "S"
    except railgun.RequestTimeout as error:
        return "stored" in str(error)
    except (railgun.ConnectionLost, railgun.NoWorker):
        return False
