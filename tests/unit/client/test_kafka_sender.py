"""The producer of a client is replaced when librdkafka gives it up; what it had is told what became of it.

librdkafka offers no way to bring about a fatal error from here, so it is raised by producers that otherwise are real ones: from every
call, as confluent-kafka does it. Brokers are librdkafka's own mock cluster, or nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from railgun.client.transports.kafka import sender as kafka_sender
from railgun.client.transports.kafka.sender import KafkaSender, _in_words
from railgun.errors import ConnectionLost, NotAuthorized, RailgunError
from railgun.kafka.trouble import Troubles
from tests.support.waiting import wait_until

SILENT = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "enable.idempotence": True}
ANSWERING = {**SILENT, "test.mock.num.brokers": 1}
FATAL = KafkaError(KafkaError._FATAL, "the sequence is out of order", fatal=True)

Told = Callable[[KafkaError], None]


class Raising(Producer):
    """A producer that refuses each record, as one does after a fatal error."""

    def produce(self, *_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL, "Local: Fatal error"))


class Failing(Producer):
    """A producer that fails for good once it is told so."""

    fault: KafkaError | None = None

    def poll(self, *given: Any) -> int:
        served = super().poll(*given)
        if self.fault is not None:
            raise KafkaException(self.fault)
        return served

    def flush(self, *given: Any) -> int:
        left = super().flush(*given)
        if self.fault is not None and left:
            raise KafkaException(self.fault)
        return left


class Made:
    """What producers were made, and the callbacks through which they tell of other errors."""

    def __init__(self, *kinds: tuple[type[Producer], dict[str, Any]]) -> None:
        self._kinds = list(kinds)
        self.told: list[Told] = []
        self.producers: list[Any] = []
        self.failures: list[RailgunError] = []

    def __call__(self, told: Told) -> Producer:
        kind, settings = self._kinds[min(len(self.told), len(self._kinds) - 1)]
        self.told.append(told)
        self.producers.append(kind({**settings, "error_cb": told}))
        return self.producers[-1]  # type: ignore[no-any-return]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[KafkaSender, Made]]]:
    monkeypatch.setattr(kafka_sender, "_PAUSE", 0.0)
    started: list[KafkaSender] = []

    def begin(*kinds: tuple[type[Producer], dict[str, Any]]) -> tuple[KafkaSender, Made]:
        made = Made(*kinds)
        started.append(KafkaSender(made, "commands", Troubles("nowhere"), made.failures.append))
        return started[-1], made

    yield begin
    for sender in started:
        sender.close()


class Reports:
    """What was reported, by command."""

    def __init__(self, sender: KafkaSender) -> None:
        self._sender = sender
        self._lock = threading.Lock()
        self.of: dict[int, list[RailgunError | None]] = {}

    def send(self, number: int) -> None:
        def delivered(error: RailgunError | None) -> None:
            with self._lock:
                self.of.setdefault(number, []).append(error)

        self._sender.send(0, b"key", "pack", b"%d" % number, delivered)

    def wait(self, count: int) -> None:
        wait_until(lambda: len(self.of) == count, f"{count} reports", timeout=20, pause=0.01)


def test_a_fatal_error_is_not_for_ever(start: Any, caplog: pytest.LogCaptureFixture) -> None:
    sender, made = start((Failing, SILENT), (Producer, ANSWERING))
    reports = Reports(sender)
    for number in range(3):
        reports.send(number)
    made.producers[0].fault = FATAL
    reports.wait(3)
    assert len(made.told) == 2
    for number in range(3):  # nobody had them, and each hears of it once
        (error,) = reports.of[number]
        assert isinstance(error, ConnectionLost)
        assert "it is not stored" in str(error)
    for number in range(3, 6):
        reports.send(number)
    reports.wait(6)
    assert [reports.of[number] for number in range(3, 6)] == [[None]] * 3
    assert sender.flush(5)
    assert made.failures == []
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "the sequence is out of order" in caplog.text


def test_a_command_that_was_not_taken_goes_to_the_new_producer(start: Any) -> None:
    sender, made = start((Raising, ANSWERING), (Producer, ANSWERING))
    reports = Reports(sender)
    reports.send(1)
    reports.wait(1)
    assert reports.of == {1: [None]}
    assert len(made.told) == 2


def test_many_threads_replace_it_once(start: Any) -> None:
    sender, made = start((Raising, ANSWERING), (Producer, ANSWERING))
    reports = Reports(sender)
    threads = [threading.Thread(target=reports.send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reports.wait(8)
    assert list(reports.of.values()) == [[None]] * 8
    assert len(made.told) == 2


def test_one_that_fails_again_and_again_is_replaced_now_and_then(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, made = start((Raising, ANSWERING))
    monkeypatch.setattr(kafka_sender, "_PAUSE", 1_000.0)
    for number in range(5):
        with pytest.raises(ConnectionLost, match="Fatal error"):
            Reports(sender).send(number)
    assert len(made.told) == 1


def test_a_missing_permission_ends_the_connection(start: Any) -> None:
    _, made = start((Failing, SILENT))
    made.producers[0].fault = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no", fatal=True)
    wait_until(lambda: bool(made.failures), "it is said", timeout=20, pause=0.01)
    assert [type(error) for error in made.failures] == [NotAuthorized]
    assert len(made.told) == 1


def test_other_errors_replace_nothing(start: Any) -> None:
    sender, made = start((Producer, ANSWERING))
    made.told[0](KafkaError(KafkaError._ALL_BROKERS_DOWN, "away"))
    reports = Reports(sender)
    reports.send(1)
    reports.wait(1)
    assert (reports.of, len(made.told)) == ({1: [None]}, 1)


@pytest.mark.parametrize(
    "error,words",
    [
        (KafkaError(KafkaError._PURGE_QUEUE), "it is not stored"),
        (KafkaError(KafkaError._PURGE_INFLIGHT), "its outcome is unknown"),
        (FATAL, "its outcome is unknown"),
        (KafkaError(KafkaError._MSG_TIMED_OUT), "its outcome is unknown"),
    ],
)
def test_what_became_of_a_command_is_said(error: KafkaError, words: str) -> None:
    assert words in str(_in_words(error, Troubles("nowhere")))
