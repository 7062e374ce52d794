"""Recovery from failures: every error path of a shard, in one place (docs/design/0020).

====================  ==========================================================================
what Kafka says       what the shard does
====================  ==========================================================================
fenced, not a member  ask the group whether the partition is still ours: take it again, or stop
fatal                 new producer, init, reload from the changelog, apply the same records again
a log topic is gone   quarantine its stream (503), go on with the others
brokers unreachable   the same as fatal, for as long as it takes; no record is blamed
anything else         try again; then one command at a time; the culprit is refused and kept
                      in ``rejected``
it is committed       any later failure: drop core and table, restore them from the changelog; no
                      record is applied again
the store is damaged  wipe it once, restore it from the changelog, go on; soon again: the end
a record of the       set its stream aside, serve the others; the same for the stream whose timers
table is unreadable   fail again and again, because no command is to blame for them
the disk fails        the worker ends and says what to do
it has no rule        :class:`Unforeseen`: the worker ends, loudly
====================  ==========================================================================

Records are applied again from memory; the consumer never seeks. The commit is where that ends: what has passed
:meth:`Committer.commit` leaves the only loop that there is (:meth:`Recovery._attempt`) before anything else is done with it.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from confluent_kafka import KafkaError

from railgun.shard.drain import AfterCommit, Given
from railgun.state.store_errors import StoreDamaged, StoreFailed, StoreInUse
from railgun.state.unreadable_entries import UnreadableEntry
from railgun.worker.shards.transaction import Committed, Prepared, TransactionFailed

log = logging.getLogger("railgun.worker")

ATTEMPTS: Final = 3  # at one place, before a record or a stream is blamed
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0


class ShardStopped(Exception):
    """The shard was asked to stop: what is not committed will be read by the next owner."""


class OwnerLost(Exception):
    """Another worker owns the partition now."""


class Unforeseen(Exception):
    """No rule of this module applies: the worker must end rather than guess."""


# Errors that no further attempt makes better: handed on as they are.
_FINAL: Final = (ShardStopped, OwnerLost, Unforeseen, AfterCommit, StoreFailed, StoreInUse)


class Verdict(enum.Enum):
    """The meaning of a failed transaction."""

    LOST = "the partition may have another owner"
    REBUILD = "the producer is past saving"
    ENVIRONMENT = "the brokers could not be reached in time"
    CULPRIT = "something in the drain cannot be written"


_GRAVEST: Final = [Verdict.ENVIRONMENT, Verdict.CULPRIT, Verdict.REBUILD, Verdict.LOST]
_LOST: Final = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)
_BROKEN: Final = frozenset({KafkaError._STATE, KafkaError._CONFLICT, KafkaError.INVALID_TXN_STATE})
_ENVIRONMENT: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._PURGE_QUEUE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    }
)


def verdict_on(error: KafkaError) -> Verdict:
    """The meaning of one error for the shard."""
    if error.code() in _LOST:
        return Verdict.LOST
    if error.fatal() or error.code() in _BROKEN:
        return Verdict.REBUILD
    if error.code() in _ENVIRONMENT or error.retriable():
        return Verdict.ENVIRONMENT
    return Verdict.CULPRIT


class Committer(Protocol):
    """The part of a shard that recovery needs: the three steps of a drain, and the ways back to a state that can be trusted.

    ``decide`` and ``commit`` may be repeated when they raise, once the state is ``rebuild``, ``reload`` or ``restore`` d.
    ``conclude`` may not, and neither may what went before it.
    """

    name: str

    def decide(self, inputs: Sequence[Given]) -> Prepared: ...
    def decide_refusal(self, culprit: Given, reason: str) -> Prepared: ...
    def commit(self, prepared: Prepared) -> Committed: ...
    def conclude(self, committed: Committed) -> None: ...
    def quarantine_missing(self, topics: dict[str, KafkaError]) -> bool: ...
    def rebuild(self) -> None: ...
    def reload(self) -> None: ...
    def restore(self, error: Exception) -> None: ...
    def set_aside(self, incarnation: int | None, reason: str) -> bool: ...
    def still_owner(self) -> bool: ...
    def pause(self, seconds: float) -> None: ...


class Recovery:
    """Gets inputs committed in spite of failures, or raises ShardStopped, OwnerLost or Unforeseen."""

    def __init__(self, shard: Committer) -> None:
        self._shard = shard

    def process(self, inputs: Sequence[Given]) -> None:
        """Decide and commit the inputs; one that cannot be committed is refused, the others are not held up."""
        blamed = self._attempt(lambda: self._shard.decide(inputs))
        if blamed is None:
            return
        while not inputs and blamed is not None and self._shard.set_aside(None, blamed):
            blamed = self._attempt(lambda: self._shard.decide(inputs))
        if blamed is None:
            return
        if not inputs:
            raise Unforeseen(f"{self._shard.name}: what is due by time cannot be written: {blamed}")
        parts = [part for one in inputs for part in one.parts()]
        if len(parts) > 1:
            log.warning(
                "%s: a drain fails again and again, its commands are tried one by one: %s",
                self._shard.name,
                blamed,
            )
            for one in parts:
                self.process([one])
            return
        culprit, reason = inputs[0], blamed
        log.error("%s: %s is refused: %s", self._shard.name, culprit.place, reason)
        blamed = self._attempt(lambda: self._shard.decide_refusal(culprit, reason))
        if blamed is not None:
            raise Unforeseen(f"{self._shard.name}: a command could not even be refused: {blamed}")

    def _attempt(self, decide: Callable[[], Prepared]) -> str | None:
        """Decide and commit until that succeeds (None) or the content is to blame (the reason)."""
        failures, rebuilt, wait = 0, 0, _FIRST_PAUSE
        while True:
            try:
                committed = self._shard.commit(decide())
            except TransactionFailed as failed:
                verdict = self._respond(failed)
                if verdict is Verdict.CULPRIT or (verdict is Verdict.REBUILD and rebuilt >= ATTEMPTS):
                    failures += 1
                    if failures >= ATTEMPTS:
                        return failed.error.str()
                rebuilt += verdict is Verdict.REBUILD
            except StoreDamaged as damage:
                log.error("%s: %s", self._shard.name, damage)
                self._shard.restore(damage)
            except UnreadableEntry as found:
                log.error("%s: %s", self._shard.name, found)
                if not self._shard.set_aside(found.incarnation, str(found)):
                    raise
            except _FINAL:
                raise
            except Exception as error:  # a defect in the rules must not stop the shard
                log.exception("%s: the commands could not be applied", self._shard.name)
                failures += 1
                self._shard.reload()
                if failures >= ATTEMPTS:
                    return f"{type(error).__name__}: {error}"
            else:
                self._conclude(committed)
                return None
            self._shard.pause(wait)
            wait = min(wait * 2, _LONGEST_PAUSE)

    def _conclude(self, committed: Committed) -> None:
        """The core follows the commit; if that fails, by way of the changelog. Nothing leads back to the inputs."""
        try:
            self._shard.conclude(committed)
        except (ShardStopped, OwnerLost, Unforeseen):
            raise
        except Exception as error:
            log.exception(
                "%s: a drain is committed, its state is restored from the changelog", self._shard.name
            )
            self._shard.restore(error)

    def _respond(self, failed: TransactionFailed) -> Verdict:
        """Bring the shard back to where it can try again, and say what the failure was."""
        verdict = verdict_on(failed.error)
        if verdict is Verdict.CULPRIT and failed.topics:
            # The transaction only says that records failed; each of them says why.
            verdict = max((verdict_on(cause) for cause in failed.topics.values()), key=_GRAVEST.index)
        log.warning("%s: a transaction failed (%s): %s", self._shard.name, verdict.value, failed.error.str())
        if failed.topics and self._shard.quarantine_missing(failed.topics):
            verdict = Verdict.ENVIRONMENT
        # Lost, yet no other worker owns it: the broker gave the transaction up, or a late worker fenced this one.
        if verdict is Verdict.LOST and not self._shard.still_owner():
            raise OwnerLost(failed.error.str())
        # In every case: after records that were not delivered, librdkafka's producer may be of no more use (seen:
        # "requires epoch bump" after a broker restart, and silence ever after).
        self._shard.rebuild()
        return verdict
