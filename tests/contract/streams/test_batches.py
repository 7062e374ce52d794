"""Atomic batches by their headers: staged, committed, refused, abandoned (BAT-01 … BAT-28, BAT-37 … BAT-45)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from railgun import Railgun, Stream
from railgun.errors import MessageNotFound
from railgun.model import headers as h
from railgun.testing import Clock
from tests.support.batches import Sender, headers, payloads
from tests.support.raw import create_refused, frames
from tests.support.streams import Make
from tests.support.waiting import wait_until

INCOMPLETE = (10176, 400, "atomic publish batch is incomplete")
MISSING = (10175, 400, "atomic publish sequence is missing")
TOO_LARGE = (10199, 400, "atomic publish batch is too large: 1000")
COMMIT_INVALID = (10200, 400, "atomic publish batch commit is invalid")
ID_INVALID = (10179, 400, "atomic publish batch ID is invalid")
TOO_MANY = (10210, 429, "atomic publish too many inflight")
LEVEL = (10185, 412, "JetStream minimum api level required")


@pytest.fixture
def stream(make: Make) -> Stream:
    return make(allow_atomic=True)


@pytest.fixture
def sender(rg: Railgun, stream: Stream) -> Sender:
    return Sender(rg, stream)


# ------------------------------------------------------------ the protocol


@pytest.mark.rule("BAT-01", "BAT-02", "BAT-03", "BAT-04", "BAT-06")
def test_a_batch_is_answered_by_nothing_until_its_last_message_commits_it(
    stream: Stream, sender: Sender
) -> None:
    assert sender.send("B", 1) is None
    assert sender.send("B", 2, token="b") is None
    assert sender.send("B", 3, "1") == {"stream": stream.name, "seq": 3, "batch": "B", "count": 3}
    assert payloads(stream) == [b"1", b"2", b"3"]
    assert stream.get(2).subject == f"{stream.name}.b"


@pytest.mark.rule("BAT-05", "BAT-06", "BAT-10", "BAT-11")
def test_an_end_of_batch_is_not_stored(stream: Stream, sender: Sender) -> None:
    sender.stage("B", 2)
    assert sender.send("B", 3, "eob") == {"stream": stream.name, "seq": 2, "batch": "B", "count": 2}
    assert payloads(stream) == [b"1", b"2"]
    assert stream.get(1).headers == [(h.BATCH_ID, b"B"), (h.BATCH_SEQUENCE, b"1")]
    assert stream.get(2).headers == [(h.BATCH_ID, b"B"), (h.BATCH_SEQUENCE, b"2"), (h.BATCH_COMMIT, b"1")]


@pytest.mark.rule("BAT-08", "BAT-09")
def test_a_batch_of_one_message_and_of_none(stream: Stream, sender: Sender) -> None:
    assert sender.send("B", 1, "1") == {"stream": stream.name, "seq": 1, "batch": "B", "count": 1}
    assert sender.refused("C", 1, "eob") == INCOMPLETE
    assert sender.refused("C", 2, "1") == INCOMPLETE
    assert stream.info().state.last_seq == 1


@pytest.mark.rule("BAT-07")
@pytest.mark.parametrize("commit", ["", "0", "yes", "EOB"])
def test_any_other_commit_drops_the_batch(stream: Stream, sender: Sender, commit: str) -> None:
    sender.stage("B", 1)
    assert sender.refused("B", 2, commit) == COMMIT_INVALID
    assert sender.refused("B", 2, "1") == INCOMPLETE
    assert stream.info().state.last_seq == 0


@pytest.mark.rule("BAT-12")
def test_nothing_of_a_batch_is_visible_before_its_commit(rg: Railgun, stream: Stream, sender: Sender) -> None:
    consumer = stream.create_consumer("C")
    sender.stage("B", 3)
    assert stream.info().state.messages == 0
    assert consumer.info().num_pending == 0
    assert consumer.fetch(10, wait=0.2) == []
    with pytest.raises(MessageNotFound):
        stream.get_last(f"{stream.name}.a")
    sender.send("B", 4, "1")
    assert [message.payload for message in consumer.fetch(10, wait=5)] == [b"1", b"2", b"3", b"4"]


@pytest.mark.rule("BAT-13", "BAT-14", "BAT-29")
def test_others_publish_meanwhile_and_never_between(rg: Railgun, stream: Stream, sender: Sender) -> None:
    sender.stage("B", 2)
    assert rg.publish(f"{stream.name}.other", b"x").sequence == 1
    sender.stage("C", 1, token="c")
    assert rg.publish(f"{stream.name}.other", b"y").sequence == 2
    assert sender.send("C", 2, "1", Nats_Expected_Last_Sequence=1) is not None
    assert stream.info().state.last_seq == 2
    answer = sender.send("B", 3, "1")
    assert answer is not None
    assert (answer["seq"], answer["count"]) == (5, 3)
    assert payloads(stream) == [b"x", b"y", b"1", b"2", b"3"]


@pytest.mark.rule("BAT-15")
def test_a_subject_of_another_stream_begins_another_batch(rg: Railgun, make: Make, sender: Sender) -> None:
    other = Sender(rg, make("OTHER", allow_atomic=True))
    sender.stage("B", 1)
    assert other.refused("B", 2, "1") == INCOMPLETE
    answer = sender.send("B", 2, "1", token="b")
    assert answer is not None
    assert answer["count"] == 2


def test_publishes_that_travel_with_a_batch_are_decided_by_themselves(rg: Railgun, stream: Stream) -> None:
    subject = f"{stream.name}.a"
    sent = [
        rg.publish_soon(subject, b"alone"),
        rg.publish_soon(subject, b"1", headers=headers("B", 1)),
        rg.publish_soon(subject, b"alone", msg_id="X"),
        rg.publish_soon(subject, b"2", headers=headers("B", 2, "1")),
        rg.publish_soon(subject, b"alone", msg_id="X"),
    ]
    acks = [one.result() for one in sent]
    assert [(ack.sequence, ack.batch, ack.count) for ack in acks] == [
        (1, None, None),
        (0, "B", None),
        (2, None, None),
        (4, "B", 2),
        (2, None, None),
    ]
    assert acks[4].duplicate


# ------------------------------------------------------------ refusals


@pytest.mark.rule("BAT-16", "BAT-44", "BAT-25", "UPD-15")
def test_the_option_is_turned_on_and_off(rg: Railgun, make: Make) -> None:
    stream = make()
    sender = Sender(rg, stream)
    disabled = (10174, 400, "atomic publish is disabled")
    assert sender.refused("B", 1, "1") == disabled
    rg.update_stream(stream.name, allow_atomic=True)
    assert (stream.info().config.metadata or {})["_nats.req.level"] == "2"
    sender.stage("B", 1)
    rg.update_stream(stream.name, allow_atomic=False)
    assert (stream.info().config.metadata or {})["_nats.req.level"] == "0"
    assert sender.refused("B", 2, "1") == disabled
    rg.update_stream(stream.name, allow_atomic=True)
    assert sender.refused("B", 2, "1") == INCOMPLETE
    assert stream.info().state.last_seq == 0


@pytest.mark.rule("BAT-17")
@pytest.mark.parametrize("sequence", ["", "-1", "one", "1.0", "99999999999999999999"])
def test_a_sequence_that_is_no_number_is_missing(sender: Sender, sequence: str) -> None:
    assert sender.refused("B", sequence) == MISSING


@pytest.mark.rule("BAT-17")
def test_a_sequence_that_is_not_there_is_missing(rg: Railgun, stream: Stream) -> None:
    answer = rg.request(f"{stream.name}.a", headers={h.BATCH_ID: "B"})[0].json()
    assert answer["error"]["err_code"] == 10175
    assert (answer["stream"], answer["seq"]) == (stream.name, 0)


@pytest.mark.rule("BAT-18")
def test_an_id_has_64_characters_at_most(sender: Sender) -> None:
    assert sender.send("x" * 64, 1) is None
    assert sender.refused("x" * 65, 1) == ID_INVALID
    assert sender.refused("", 1) == ID_INVALID


@pytest.mark.rule("BAT-19", "BAT-22")
def test_an_unknown_batch_begins_with_its_first_message(sender: Sender) -> None:
    for sequence in (0, 2, 1000):
        assert sender.refused("B", sequence) == INCOMPLETE
    assert sender.refused("B", 1001) == TOO_LARGE
    assert sender.refused("B", 1001, "eob") == INCOMPLETE  # the mark is not counted
    assert sender.refused("B", 1002, "eob") == TOO_LARGE


@pytest.mark.rule("BAT-20")
@pytest.mark.parametrize("sequence", [1, 2, 4, 0])
def test_a_gap_or_a_repeat_drops_the_batch(stream: Stream, sender: Sender, sequence: int) -> None:
    sender.stage("B", 2)
    assert sender.refused("B", sequence) == INCOMPLETE
    assert sender.refused("B", 3, "1") == INCOMPLETE
    assert stream.info().state.last_seq == 0


@pytest.mark.rule("BAT-21")
def test_a_batch_has_a_thousand_messages_at_most(rg: Railgun, stream: Stream, sender: Sender) -> None:
    for batch in ("B", "C"):
        for number in range(1, 1001):
            rg.publish_soon(f"{stream.name}.a", headers=headers(batch, number))
        rg.flush()
    assert sender.refused("B", 1001) == TOO_LARGE
    answer = sender.send("C", 1001, "eob")
    assert answer is not None
    assert (answer["seq"], answer["count"]) == (1000, 1000)


@pytest.mark.rule("BAT-23")
@pytest.mark.parametrize("name", [h.MSG_ID, h.EXPECTED_LAST_MSG_ID])
def test_headers_that_no_batch_takes_are_refused_at_the_commit(
    rg: Railgun, stream: Stream, sender: Sender, name: str
) -> None:
    assert rg.request(f"{stream.name}.a", headers=headers("B", 1) | {name: "X"})[0].body == b""
    assert sender.refused("B", 2, "1") == (10177, 400, f"atomic publish unsupported header used: {name}")
    assert sender.refused("B", 3) == INCOMPLETE
    assert stream.info().state.last_seq == 0


@pytest.mark.rule("BAT-24", "BAT-25")
def test_a_stream_has_fifty_batches_in_flight_at_most(sender: Sender, clock: Clock) -> None:
    for number in range(50):
        sender.stage(f"B{number}", 1)
    assert sender.refused("MORE", 1) == TOO_MANY
    assert sender.refused("MORE", 2) == INCOMPLETE
    sender.send("B0", 2, "1")  # a commit frees a place
    assert sender.send("MORE", 1) is None
    assert sender.refused("MORE2", 1) == TOO_MANY
    assert sender.refused("MORE", 3) == INCOMPLETE  # so does a rejection
    assert sender.send("MORE2", 1) is None
    clock.advance(10)  # and being abandoned
    for number in range(50):
        sender.stage(f"C{number}", 1)


@pytest.mark.rule("BAT-25")
def test_a_deleted_stream_takes_its_batches_along(rg: Railgun, stream: Stream, sender: Sender) -> None:
    config = stream.info().config
    for number in range(50):
        sender.stage(f"B{number}", 1)
    rg.delete_stream(stream.name)
    again = Sender(rg, rg.create_stream(config))
    assert again.refused("B0", 2, "1") == INCOMPLETE
    assert again.send("NEW", 1) is None


@pytest.mark.rule("BAT-26")
def test_a_message_that_is_too_large_is_refused_when_it_comes(rg: Railgun, make: Make) -> None:
    stream = make(allow_atomic=True, max_msg_size=100)
    sender = Sender(rg, stream)
    sender.stage("B", 1)
    assert sender.refused("B", 2, payload=bytes(100))[0] == 10054
    answer = sender.send("B", 2, "1")
    assert answer is not None
    assert answer["count"] == 2


@pytest.mark.rule("BAT-26")
def test_a_sealed_stream_takes_no_message_of_a_batch(rg: Railgun, stream: Stream, sender: Sender) -> None:
    sender.stage("B", 1)
    rg.update_stream(stream.name, sealed=True)
    assert sender.refused("B", 2, "1")[0] == 10109
    assert stream.info().state.last_seq == 0


@pytest.mark.rule("BAT-26")
def test_a_sealed_stream_is_told_before_one_without_batches(rg: Railgun, make: Make) -> None:
    stream = make()
    rg.update_stream(stream.name, sealed=True)
    assert Sender(rg, stream).refused("B", 1)[0] == 10109


@pytest.mark.rule("BAT-27", "BAT-45")
def test_configurations_that_exclude_batches(rg: Railgun, unique: Any) -> None:
    asynchronous = create_refused(rg, unique("A"), allow_atomic=True, persist_mode="async")
    assert asynchronous == (10052, 500, "async persist mode is not supported with atomic batch publish")
    mirror = create_refused(rg, unique("M"), allow_atomic=True, mirror={"name": "X"})
    assert mirror == (10198, 400, "stream mirrors can not also use atomic publishing")


@pytest.mark.rule("BAT-28")
def test_the_level_of_the_api_that_a_batch_needs(stream: Stream, sender: Sender) -> None:
    sender.stage("B", 2, Nats_Required_Api_Level=3)
    answer = sender.send("B", 3, "eob", Nats_Required_Api_Level=3)
    assert answer is not None
    assert answer["count"] == 2
    assert all(name != h.REQUIRED_API_LEVEL for name, _ in stream.get(2).headers)
    sender.stage("C", 1)
    assert sender.refused("C", 2, "eob", Nats_Required_Api_Level=4) == LEVEL
    assert sender.refused("C", 2, "1") == INCOMPLETE
    assert sender.send("D", 1, "1", Nats_Required_Api_Level="") is not None
    assert (h.REQUIRED_API_LEVEL, b"") in stream.get(3).headers  # it asks for none


@pytest.mark.rule("BAT-07", "BAT-20", "BAT-28")
def test_a_commit_that_is_not_valid_is_told_first(sender: Sender) -> None:
    sender.stage("B", 1)
    assert sender.refused("B", 7, "yes") == COMMIT_INVALID
    assert sender.refused("C", 1, "yes", Nats_Required_Api_Level=4) == COMMIT_INVALID


# ------------------------------------------------------------ abandoned


@pytest.fixture
def abandoned(rg: Railgun, stream: Stream) -> Any:
    """What was told of the stream's batches so far: (id, reason)."""
    found: list[tuple[str, str]] = []
    subject = f"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.{stream.name}"

    def listen() -> None:
        for advisory in advisories:
            if advisory.subject == subject:
                body = advisory.json()
                assert body["type"] == "io.nats.jetstream.advisory.v1.batch_abandoned"
                assert body["stream"] == stream.name
                found.append((body["batch"], body["reason"]))

    with rg.advisories() as advisories:
        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield found
    thread.join(10.0)


@pytest.mark.rule("BAT-37", "BAT-38", "BAT-39", "ADV-11")
def test_a_batch_without_messages_is_abandoned(
    stream: Stream, sender: Sender, clock: Clock, abandoned: list[tuple[str, str]]
) -> None:
    sender.stage("B", 1)
    clock.advance(9)
    assert sender.send("B", 2) is None
    clock.advance(9)
    assert sender.send("B", 3) is None
    clock.advance(10)
    wait_until(lambda: abandoned == [("B", "timeout")], "the advisory")
    assert sender.refused("B", 4, "1") == INCOMPLETE
    assert stream.info().state.last_seq == 0


@pytest.mark.rule("BAT-40", "BAT-41", "BAT-42")
def test_what_is_told_of_batches_that_are_refused(
    rg: Railgun, stream: Stream, sender: Sender, abandoned: list[tuple[str, str]]
) -> None:
    sender.stage("CHECK", 1)
    assert sender.refused("CHECK", 2, "1", Nats_Expected_Stream="OTHER")[0] == 10060
    sender.stage("GAP", 1)
    rg.publish(f"{stream.name}.a", headers=headers("GAP", 3), ack=False)
    sender.stage("LEVEL", 1)
    sender.refused("LEVEL", 2, Nats_Required_Api_Level=9)
    for number in range(1, 1001):
        rg.publish_soon(f"{stream.name}.a", headers=headers("LARGE", number))
    sender.refused("LARGE", 1001)
    told = [("GAP", "incomplete"), ("LEVEL", "unsupported"), ("LARGE", "large")]
    wait_until(lambda: len(abandoned) >= len(told), "the advisories")
    assert abandoned == told


# ------------------------------------------------------------ bad input


@pytest.mark.parametrize("identity", ["B", " B", "b\tb", "é", "*", "$JS.API"])
def test_any_text_is_an_id(stream: Stream, sender: Sender, identity: str) -> None:
    sender.stage(identity, 1)
    answer = sender.send(identity, 2, "1")
    assert answer is not None
    assert (answer["batch"], answer["count"]) == (identity.lstrip(" "), 2)


def test_headers_of_the_protocol_without_an_id_say_nothing(rg: Railgun, stream: Stream) -> None:
    (reply,) = frames(rg, f"{stream.name}.a", headers={h.BATCH_SEQUENCE: "7", h.BATCH_COMMIT: "1"})
    assert reply.json() == {"stream": stream.name, "seq": 1}
