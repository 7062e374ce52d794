"""Every error path of a shard, without a broker: who is blamed, who is not, and what is tried again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import KafkaError

from railgun.shard.drain import Drain, Input
from railgun.state import keys
from railgun.state.store_errors import StoreDamaged, StoreFailed
from railgun.state.unreadable_entries import UnreadableEntry
from railgun.worker.shards.recovery import OwnerLost, Recovery, Unforeseen, Verdict, verdict_on
from railgun.worker.shards.transaction import Committed, Prepared, TransactionFailed

TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
RECORDS_FAILED = KafkaError(KafkaError._INCONSISTENT, "3 message(s) failed delivery")
FENCED = KafkaError(KafkaError._FENCED)


def given(offset: int) -> Input:
    return Input(False, offset, 0, b"S", (), b"")


class FakeShard:
    """Commits what ``fault`` lets through."""

    name = "shard 0"

    def __init__(self, fault: Callable[[Sequence[Input]], Exception | None]) -> None:
        self.fault = fault
        self.committed: list[int] = []
        self.refused: list[int] = []
        self.decided: list[int] = []
        self.aside: list[bool] = []
        self.late: list[Exception] = []  # raised after the commit
        self.done: list[str] = []
        self.owner = True
        self.gone = False

    def decide(self, inputs: Sequence[Input]) -> Prepared:
        error = self.fault(inputs)
        if error is not None:
            raise error
        self.decided = [one.offset for one in inputs]
        return Prepared(Drain(), [])

    def decide_refusal(self, culprit: Input, reason: str) -> Prepared:
        self.decided = []
        self.refused.append(culprit.offset)
        return Prepared(Drain(), [])

    def commit(self, prepared: Prepared) -> Committed:
        self.committed += self.decided
        return Committed(prepared.drain, {}, None, [])

    def conclude(self, committed: Committed) -> None:
        if self.late:
            raise self.late.pop()

    def quarantine_missing(self, topics: dict[str, KafkaError]) -> bool:
        gone, self.gone = self.gone, False
        return gone

    def rebuild(self) -> None:
        self.done.append("rebuild")

    def reload(self) -> None:
        self.done.append("reload")

    def restore(self, error: Exception) -> None:
        self.done.append("restore")
        if isinstance(error, StoreFailed):
            raise error

    def set_aside(self, incarnation: int | None, reason: str) -> bool:
        self.done.append("set aside")
        return bool(self.aside and self.aside.pop())

    def still_owner(self) -> bool:
        return self.owner

    def pause(self, seconds: float) -> None:
        self.done.append("pause")


def failing(error: Exception, times: int) -> Callable[[Sequence[Input]], Exception | None]:
    left = [error] * times
    return lambda _inputs: left.pop() if left else None


@pytest.mark.parametrize(
    "failure",
    [TransactionFailed(TIMED_OUT), TransactionFailed(RECORDS_FAILED, {"changelog": TIMED_OUT})],
)
def test_an_outage_blames_nobody_however_long(failure: TransactionFailed) -> None:
    shard = FakeShard(failing(failure, 50))
    Recovery(shard).process([given(1), given(2)])
    assert (shard.committed, shard.refused) == ([1, 2], [])
    assert shard.done.count("rebuild") == 50


@pytest.mark.parametrize("error", [TransactionFailed(TOO_LARGE), ZeroDivisionError("a defect")])
def test_the_culprit_is_found_and_refused_and_the_others_are_not(error: Exception) -> None:
    shard = FakeShard(lambda inputs: error if any(one.offset == 2 for one in inputs) else None)
    Recovery(shard).process([given(1), given(2), given(3)])
    assert (shard.committed, shard.refused) == ([1, 3], [2])


def test_a_fault_that_passes_refuses_nobody() -> None:
    shard = FakeShard(failing(TransactionFailed(TOO_LARGE), 2))
    Recovery(shard).process([given(1)])
    assert (shard.committed, shard.refused) == ([1], [])


def test_a_topic_that_is_gone_blames_no_command() -> None:
    shard = FakeShard(failing(TransactionFailed(RECORDS_FAILED, {"log.S": TOO_LARGE}), 1))
    shard.gone = True
    Recovery(shard).process([given(1)])
    assert shard.committed == [1]


def test_a_lost_partition_stops_the_shard_and_an_owned_one_is_taken_again() -> None:
    shard = FakeShard(failing(TransactionFailed(FENCED), 1))
    Recovery(shard).process([given(1)])
    assert (shard.committed, shard.done[0]) == ([1], "rebuild")
    lost = FakeShard(failing(TransactionFailed(FENCED), 1))
    lost.owner = False
    with pytest.raises(OwnerLost):
        Recovery(lost).process([given(1)])
    assert lost.done == []


def test_what_is_due_by_time_cannot_be_refused() -> None:
    with pytest.raises(Unforeseen):
        Recovery(FakeShard(failing(TransactionFailed(TOO_LARGE), 99))).process([])


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("a defect"), TransactionFailed(TIMED_OUT), StoreDamaged("b")]
)
def test_what_fails_after_the_commit_is_restored_and_never_applied_again(error: Exception) -> None:
    shard = FakeShard(lambda _: None)
    shard.late = [error]
    Recovery(shard).process([given(1), given(2)])
    assert (shard.committed, shard.done) == ([1, 2], ["restore"])


def test_a_state_that_cannot_be_restored_after_the_commit_is_the_end() -> None:
    shard = FakeShard(lambda _: None)
    shard.late = [StoreFailed("the disk is full")]
    with pytest.raises(StoreFailed):
        Recovery(shard).process([given(1)])
    assert shard.committed == [1]


def test_a_damaged_store_blames_no_command_and_a_failing_disk_ends_the_shard() -> None:
    shard = FakeShard(failing(StoreDamaged("block checksum mismatch"), 1))
    Recovery(shard).process([given(1)])
    assert (shard.committed, shard.refused, shard.done[0]) == ([1], [], "restore")
    with pytest.raises(StoreFailed):
        Recovery(FakeShard(failing(StoreFailed("no space"), 1))).process([given(1)])


def test_a_stream_whose_timers_fail_is_set_aside_and_the_others_go_on() -> None:
    shard = FakeShard(failing(ZeroDivisionError("a defect, or a damaged record"), 3))
    shard.aside = [True]
    Recovery(shard).process([])
    assert shard.done.count("set aside") == 1


def test_an_unreadable_record_blames_no_command() -> None:
    shard = FakeShard(failing(UnreadableEntry(keys.stream(7), ValueError("damaged")), 1))
    shard.aside = [True]
    Recovery(shard).process([given(1)])
    assert (shard.committed, shard.refused) == ([1], [])
    shard = FakeShard(failing(UnreadableEntry(keys.CURSOR, ValueError("damaged")), 1))
    with pytest.raises(UnreadableEntry):
        Recovery(shard).process([given(1)])


def test_verdicts() -> None:
    fatal = KafkaError(KafkaError.UNKNOWN, "dead", True)
    assert verdict_on(fatal) is Verdict.REBUILD
    assert verdict_on(KafkaError(KafkaError.ILLEGAL_GENERATION)) is Verdict.LOST
    assert verdict_on(KafkaError(KafkaError._STATE)) is Verdict.REBUILD
