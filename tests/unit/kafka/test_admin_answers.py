"""Administrative requests that nobody answers: a time-out like any other of Kafka's, and no worker ends by one."""

from __future__ import annotations

import ast
import time
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from railgun.cli.doctor.topic_checks import look
from railgun.errors import ConnectionLost
from railgun.kafka import topic_admin
from railgun.kafka.answers import answer_of
from railgun.kafka.topic_admin import TopicError, Topics
from railgun.shard.drain import Trim
from railgun.worker import housekeeping as housekeeping_module
from railgun.worker.housekeeping import Housekeeping
from railgun.worker.outbox import Outbox
from railgun.worker.shards import log_trims
from tests.support.checkout import TOP


class Unanswered(dict[Any, Any]):
    """Futures that never end, for whatever was asked."""

    def __missing__(self, key: Any) -> Future[Any]:
        return Future()


class SilentAdmin:
    """An admin client whose requests are never answered."""

    def list_topics(self, *_: Any, **__: Any) -> Any:
        return type("Found", (), {"cluster_id": "c", "topics": {}})

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: Unanswered()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for longer than a moment."""
    honest = answer_of
    for module in (topic_admin, log_trims):
        monkeypatch.setattr(module, "answer_of", lambda future, _: honest(future, 0.01))


def test_no_answer_is_a_time_out_of_kafka() -> None:
    silent: Future[int] = Future()
    with pytest.raises(KafkaException) as caught:
        answer_of(silent, 0.01)
    assert caught.value.args[0].code() == KafkaError._TIMED_OUT
    assert "no broker answered" in caught.value.args[0].str()
    silent.set_result(3)
    assert answer_of(silent, 0.01) == 3


@pytest.mark.usefixtures("impatient")
def test_topics_that_nobody_answers_for_are_errors_of_ours() -> None:
    admin: Any = SilentAdmin()
    topics = Topics(admin)
    with pytest.raises(ConnectionLost):
        topics.identity("changelog")
    for change in (lambda: topics.delete("t"), lambda: topics.create_log("t", compacted=False)):
        with pytest.raises(TopicError) as caught:
            change()
        assert caught.value.error.code() == KafkaError._TIMED_OUT


@pytest.mark.usefixtures("impatient")
def test_logs_that_cannot_be_trimmed_do_not_end_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_TICK", "_TRIM_EVERY"):
        monkeypatch.setattr(housekeeping_module, name, 0)
    monkeypatch.setattr(log_trims, "GRACE", 1)
    monkeypatch.setattr(log_trims, "topic_ids", lambda _, topics: dict.fromkeys(topics, "an id"))
    admin: Any = SilentAdmin()
    outbox = Outbox(Producer({"bootstrap.servers": "127.0.0.1:1"}))
    crashed: list[BaseException] = []
    places = []

    def delete_records(requests: Any, **_: Any) -> Any:
        places.extend(requests)
        return {request: Future() for request in requests}

    admin.delete_records = delete_records
    housekeeping = Housekeeping(admin, Topics(admin), outbox, crashed.append)
    housekeeping.start()
    deadline = time.monotonic() + 10
    while len(places) < 3 and not crashed and time.monotonic() < deadline:
        housekeeping.trims.add(0, [Trim("log", len(places) + 1)])
        time.sleep(0.01)
    housekeeping.stop()
    assert len(places) >= 3, "it goes on trimming"
    assert crashed == []


def test_doctor_says_in_words_that_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railgun.cli.doctor.topic_checks._ASK", -1.99)
    admin: Any = SilentAdmin()
    admin.describe_topics = lambda *_, **__: {"t": Future()}
    with pytest.raises(KafkaException):
        look(admin, ["t"])


def test_administrative_answers_are_waited_for_in_one_place() -> None:
    """The class of mistake: a ``result`` with a time-out of its own, in a module that administers."""
    wrong = []
    for path in (TOP / "railgun").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "import AdminClient" not in text or path.name == "answers.py":
            continue
        wrong += [
            f"{path.name}:{node.lineno}"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "result"
            and node.args
        ]
    assert wrong == []
