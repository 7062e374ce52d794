"""What Kafka left undecided is found, and decided as the changelog has it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from railgun.kafka.ends import Ask, Offsets, Place, by_consumer
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.topic_admin import Topics
from railgun.model.headers import LOG_INCARNATION, LOG_SEQUENCE, LOG_TIME, MSG_ID
from railgun.protocol.topics import Names
from railgun.shard.drain import Drain
from railgun.worker.shards import undecided as unfinished
from railgun.worker.shards.undecided import Undecided, end_logs
from tests.chaos.audit import read_log

pytestmark = pytest.mark.kafka


class OpenTransaction:
    """A log whose last message, of sequence 5, is in a transaction that nobody ended."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.kafka = KafkaSettings(bootstrap)
        self.names = Names(f"unfinished-{uuid.uuid4().hex[:8]}")
        self.topic = self.names.log("S")
        Topics(AdminClient(self.kafka.admin()), 1).create_log(self.topic, compacted=False)
        self._producer = Producer(self.kafka.transactional_producer(self.names.transactional_id(0)))
        self._producer.init_transactions(30)
        for sequence in (4, 5):
            self._producer.begin_transaction()
            number = b"%d" % sequence
            headers = [(MSG_ID, number), (LOG_SEQUENCE, number), (LOG_TIME, b"1"), (LOG_INCARNATION, b"1")]
            self._producer.produce(self.topic, b"x", b"S.a", 0, headers=headers)
            self._producer.flush(30)
            if sequence == 4:
                self._producer.commit_transaction(30)

    def write(self, drain: Drain, commit: bool) -> None:
        """As the next owner does: a record of its own, and with its marker the end of all before it."""
        for before, key in drain.appends[self.topic].tombstones:
            assert before == 0
            self._producer.produce(self.topic, None, key, 0)
        self._producer.flush(30)
        end = self._producer.commit_transaction if commit else self._producer.abort_transaction
        end(30)

    def sequences(self) -> list[int]:
        return read_log(self.bootstrap, self.topic).sequences


@pytest.fixture
def torn(kafka_bootstrap: str) -> OpenTransaction:
    return OpenTransaction(kafka_bootstrap)


@pytest.mark.parametrize("last,stored", [(5, [4, 5]), (4, [4])])
def test_an_undecided_message_follows_the_changelog(
    torn: OpenTransaction, last: int, stored: list[int]
) -> None:
    with Undecided(torn.kafka) as undecided:
        (offset,) = undecided.among([(torn.topic, 0)]).values()
        assert undecided.sequence_at(torn.topic, offset) == 5
        end_logs(undecided, torn.names, {"S": last}, torn.write)
        assert undecided.among([(torn.topic, 0)]) == {}
    assert torn.sequences() == stored


def test_all_logs_are_asked_at_once_and_one_that_is_gone_holds_nothing(
    kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka, names = KafkaSettings(kafka_bootstrap), Names(f"unfinished-{uuid.uuid4().hex[:8]}")
    streams = [f"S{number}" for number in range(5)]
    for stream in streams:
        Topics(AdminClient(kafka.admin()), 1).create_log(names.log(stream), compacted=False)
    questions: list[int] = []

    def counted(consumer: Consumer) -> Ask:
        ask = by_consumer(consumer)

        def counting(wanted: Mapping[Place, int]) -> Offsets:
            questions.append(len(wanted))
            return ask(wanted)

        return counting

    written: list[Drain] = []
    with Undecided(kafka) as undecided:
        last = dict.fromkeys(streams, 0)
        end_logs(undecided, names, last, lambda drain, _: written.append(drain))  # new topics have leaders
        monkeypatch.setattr(unfinished, "by_consumer", counted)
        end_logs(undecided, names, last, lambda drain, _: written.append(drain))
        # Where they end, and where what is decided ends: for all logs together.
        assert questions == [len(streams), len(streams)]
        end_logs(undecided, names, {**last, "GONE": 0}, lambda drain, _: written.append(drain))
    assert not written
