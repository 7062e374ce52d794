"""Gets on their way: alone at once, together behind others, and how each of them ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from railgun.client.reading import get_packer
from railgun.client.reading.get_packer import GetPacker
from railgun.client.reading.pending_reads import MOST_GETS, PendingReads, WaitingGets
from railgun.client.requests import RequestNumbers
from railgun.client.settlements import Wakeups
from railgun.client.transport import Delivered
from railgun.errors import ConnectionClosed, ConnectionLost, MessageNotFound, RailgunError
from railgun.model.messages import StoredMessage
from railgun.model.refusals import NO_MESSAGE_FOUND
from railgun.protocol.columnar.read_records import BY_SEQUENCE, LAST, GetPack, ReadReply
from railgun.protocol.replies import Located
from tests.support.waiting import wait_until


class Taken:
    """A transport's ``send`` that keeps what it is given; it may be held, or fail."""

    def __init__(self) -> None:
        self.packs: list[GetPack] = []
        self.threads: list[str] = []
        self.delivered: list[Delivered] = []
        self.go = threading.Event()
        self.go.set()
        self.error: Exception | None = None

    def __call__(self, partition: int, key: bytes, kind: str, value: bytes, delivered: Delivered) -> None:
        if self.error is not None:
            raise self.error
        assert (kind, key) == ("gets", b"S")
        self.packs.append(GetPack.decode(value))
        self.threads.append(threading.current_thread().name)
        self.delivered.append(delivered)
        self.go.wait(10)


@pytest.fixture
def taken() -> Taken:
    return Taken()


@pytest.fixture
def pending(taken: Taken) -> PendingReads:
    return PendingReads(taken)


@pytest.fixture
def packer(pending: PendingReads) -> Iterator[GetPacker]:
    packer = GetPacker("me", RequestNumbers(), pending, lambda: None, lambda: None)
    yield packer
    packer.close(ConnectionClosed("over"))


def get(packer: GetPacker, sequence: int) -> tuple[WaitingGets, int]:
    return packer.add("S", 0, BY_SEQUENCE, sequence, "", 5.0)


def answer(pending: PendingReads, pack: GetPack, *indexes: int) -> None:
    """Answer some gets of a pack, each with the message that it asks for; 0 is not there."""
    found = [index for index in indexes if pack.sequences[index]]
    count, sequences = len(found), [pack.sequences[index] for index in found]
    refused = [(index, NO_MESSAGE_FOUND) for index in indexes if not pack.sequences[index]]
    reply = ReadReply(
        pack.request,
        "log",
        1,
        found,
        sequences,
        [7] * count,
        ["s"] * count,
        (),
        [b"x"] * count,
        refusals=refused,
    )
    wakeups = Wakeups()
    pending.answered(reply, wakeups)
    wakeups.deliver()


def test_a_get_that_is_alone_leaves_at_once_and_those_behind_it_together(
    packer: GetPacker, pending: PendingReads, taken: Taken
) -> None:
    first, index = get(packer, 1)
    assert (index, taken.threads) == (0, [threading.current_thread().name])
    taken.go.clear()
    second, _ = get(packer, 2)  # the sender thread is held with it
    wait_until(lambda: len(taken.packs) == 2, "sent", pause=0.005)
    others = [get(packer, sequence) for sequence in (3, 0, 5)]
    assert {gets for gets, _ in others} == {others[0][0]}
    taken.go.set()
    wait_until(lambda: len(taken.packs) == 3, "sent", pause=0.005)
    assert [pack.sequences for pack in taken.packs] == [[1], [2], [3, 0, 5]]
    answer(pending, taken.packs[2], 2, 1)
    assert not others[0][0].done  # one is missing
    answer(pending, taken.packs[2], 0)
    gets = others[0][0]
    assert gets.wait(5)
    assert gets.outcome(0) == StoredMessage("s", 3, b"x", [], 7)
    with pytest.raises(MessageNotFound):
        gets.outcome(1)
    assert gets.outcome_or_none(1) is None
    answer(pending, taken.packs[0], 0)
    answer(pending, taken.packs[0], 0)  # a second time: another owner answered, too
    answer(pending, taken.packs[1], 0)
    assert first.done
    assert second.done
    get(packer, 9)
    assert taken.threads[-1] == threading.current_thread().name  # nothing is unanswered: at once again


def test_a_message_that_is_in_the_log(packer: GetPacker, pending: PendingReads, taken: Taken) -> None:
    gets, index = packer.add("S", 0, LAST, 0, "s.a", 5.0)
    assert (taken.packs[0].forms, taken.packs[0].subjects) == (bytes([LAST]), ["s.a"])
    pending.answered(ReadReply(1, "log", 3, [0], [8], [7], ["s.a"], offsets=[60]), Wakeups())
    assert gets.outcome(index) == Located("get", "log", 60, 8, 3, False)


def test_records_do_not_grow_without_bound(packer: GetPacker, taken: Taken) -> None:
    get(packer, 1)
    taken.go.clear()
    get(packer, 2)
    wait_until(lambda: len(taken.packs) == 2, "sent", pause=0.005)
    for sequence in range(2 * MOST_GETS + 1):
        get(packer, sequence + 1)
    taken.go.set()
    wait_until(lambda: len(taken.packs) == 5, "sent", pause=0.005)
    assert [len(pack.sequences) for pack in taken.packs] == [1, 1, MOST_GETS, MOST_GETS, 1]


def test_a_long_subject_travels_alone(packer: GetPacker, taken: Taken) -> None:
    get(packer, 1)
    taken.go.clear()
    get(packer, 2)
    wait_until(lambda: len(taken.packs) == 2, "sent", pause=0.005)
    for subject in ("s.a", "s." + "x" * 600_000, "s.b", "s.c"):
        packer.add("S", 0, LAST, 0, subject, 5.0)
    taken.go.set()
    wait_until(lambda: len(taken.packs) == 5, "sent", pause=0.005)
    assert [len(pack.sequences) for pack in taken.packs] == [1, 1, 1, 1, 2]


@pytest.mark.parametrize("error", [ConnectionLost("no broker"), ValueError("odd")])
def test_a_get_that_cannot_be_sent_ends(packer: GetPacker, taken: Taken, error: Exception) -> None:
    taken.error = error
    gets, index = get(packer, 1)
    with pytest.raises(RailgunError, match=str(error)):
        gets.outcome(index)


def test_a_get_that_is_not_delivered_ends(packer: GetPacker, taken: Taken) -> None:
    gets, index = get(packer, 1)
    taken.delivered[0](ConnectionLost("no broker"))
    with pytest.raises(ConnectionLost):
        gets.outcome(index)


def test_the_end_of_a_connection_ends_what_waits(
    packer: GetPacker, pending: PendingReads, taken: Taken
) -> None:
    first, _ = get(packer, 1)
    taken.go.clear()
    get(packer, 2)
    wait_until(lambda: len(taken.packs) == 2, "sent", pause=0.005)
    waiting, index = get(packer, 3)
    packer.close(ConnectionClosed("over"))
    pending.end_all(ConnectionClosed("over"))
    taken.go.set()
    for gets in (first, waiting):
        with pytest.raises(ConnectionClosed, match="over"):
            gets.outcome(0)
    assert index == 0
    with pytest.raises(ConnectionClosed, match="over"):
        get(packer, 4)


def test_streams_that_are_not_asked_any_more_are_forgotten(
    packer: GetPacker, pending: PendingReads, taken: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(get_packer, "_MOST_LANES", 2)
    get(packer, 1)
    answer(pending, taken.packs[0], 0)
    assert packer._lanes.keys() == {"S"}
    for name in ("A", "B", "C"):
        packer._lanes.setdefault(name, get_packer.GetLane(name, 0))
    packer.add("S", 1, BY_SEQUENCE, 1, "", 5.0)  # another partition: a new lane
    assert packer._lanes.keys() == {"S"}


# ------------------------------------------------------------ new owners


def test_a_new_owner_is_asked_for_what_the_former_one_had_and_did_not_answer(
    packer: GetPacker, pending: PendingReads, taken: Taken
) -> None:
    gets, index = get(packer, 7)
    pending.new_owner(0)
    assert len(taken.packs) == 1, "it is still on its way, to whoever owns the shard then"
    taken.delivered[0](None)
    pending.new_owner(1)
    assert len(taken.packs) == 1, "another shard"
    pending.new_owner(0)
    assert taken.packs == [taken.packs[0]] * 2
    answer(pending, taken.packs[0], 0)
    assert gets.outcome(index) is not None
    answer(pending, taken.packs[0], 0)  # of both owners
    pending.new_owner(0)
    assert len(taken.packs) == 2, "it is answered"


def test_a_read_that_cannot_be_sent_again_ends(
    packer: GetPacker, pending: PendingReads, taken: Taken
) -> None:
    gets, index = get(packer, 7)
    taken.delivered[0](None)
    taken.error = ConnectionLost("gone")
    pending.new_owner(0)
    with pytest.raises(ConnectionLost, match="gone"):
        gets.outcome(index)
