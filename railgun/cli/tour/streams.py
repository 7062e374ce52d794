"""The tour's first part: streams, de-duplication, conditions, limits, life times."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Final

from railgun.cli.options.units import show_duration
from railgun.cli.tour.walk import MARK, SLACK, TourFailed, Walk
from railgun.errors import MessageNotFound, StreamFull, WrongLastSequence

SEED_WINDOW: Final = timedelta(minutes=2)
SHORT_WINDOW: Final = timedelta(seconds=0.5)
MOMENT: Final = timedelta(seconds=0.05)
LIFE: Final = timedelta(
    seconds=3
)  # enough to be seen alive on a busy machine; it is over by the end of the tour


def create(walk: Walk) -> None:
    walk.title("A stream captures subjects")
    walk.say(f"railgun stream add {walk.stream} --subjects '{walk.stream}.*'")
    walk.rg.create_stream(walk.stream, subjects=[f"{walk.stream}.*"], metadata=MARK)
    walk.shown(f"stream {walk.stream} was created")


def duplicates(walk: Walk) -> None:
    walk.title("Four publishes with one id leave one message")
    subject = f"{walk.stream}.new"
    for number in range(1, 5):
        walk.say(f"railgun pub -H Nats-Msg-Id:1 {subject} hello{number}")
        ack = walk.rg.publish(subject, f"hello{number}", headers={"Nats-Msg-Id": "1"})
        walk.expect(ack.duplicate == (number > 1), "only the first publish is new")
        walk.shown(f"{'duplicate of' if ack.duplicate else 'stored as'} {ack.stream}#{ack.sequence}")
    walk.say(f"railgun stream info {walk.stream}")
    state = walk.rg.stream(walk.stream).info().state
    walk.expect((state.messages, state.bytes) == (1, 67), "one message of 67 bytes")
    walk.shown(f"Messages: {state.messages}", f"   Bytes: {state.bytes} B")


def window(walk: Walk) -> None:
    wait = walk.scaled(SEED_WINDOW, SHORT_WINDOW)
    walk.title(f"The id is forgotten when its window is over ({show_duration(wait)} here)")
    if wait != SEED_WINDOW:
        walk.say(f"railgun stream edit {walk.stream} --dupe-window {show_duration(wait)}")
        walk.rg.update_stream(walk.stream, duplicate_window=wait)
    walk.pause(wait + MOMENT)
    walk.say(f"railgun pub --id 1 {walk.stream}.new hello5")
    ack = walk.rg.publish(f"{walk.stream}.new", "hello5", msg_id="1")
    walk.expect(not ack.duplicate and ack.sequence == 2, "the id can be used again")
    walk.shown(f"stored as {ack.stream}#{ack.sequence}")


def conditions(walk: Walk) -> None:
    walk.title("Append only if no other publisher was faster")
    subject = f"{walk.stream}.new"
    walk.say(f"railgun pub {subject} paid --expect-last-subject-sequence 2")
    ack = walk.rg.publish(subject, "paid", expected_last_subject_sequence=2)
    walk.shown(f"stored as {ack.stream}#{ack.sequence}")
    walk.say(f"railgun pub {subject} cancelled --expect-last-subject-sequence 2")
    try:
        walk.rg.publish(subject, "cancelled", expected_last_subject_sequence=2)
    except WrongLastSequence as refusal:
        walk.shown(f"refused: {refusal}")
    else:
        raise TourFailed("a conditional publish on an old sequence was stored")


def reading(walk: Walk) -> None:
    walk.title("Read the newest message of a subject")
    walk.say(f"railgun stream get {walk.stream} --last-for {walk.stream}.new")
    message = walk.rg.stream(walk.stream).get_last(f"{walk.stream}.new")
    walk.expect(message.text == "paid", "the last message is the one that was stored")
    walk.shown(f"{walk.stream}#{message.sequence} on {message.subject}: {message.text}")


def limits(walk: Walk) -> None:
    walk.title("Limits: drop the old, or refuse the new")
    name = walk.side("RECENT")
    walk.say(f"railgun stream add {name} --subjects '{name}.*' --max-msgs 3")
    recent = walk.rg.create_stream(name, subjects=[f"{name}.*"], max_msgs=3, metadata=MARK)
    walk.say(f"railgun pub {name}.a 'number {{{{Count}}}}' --count 5")
    for number in range(1, 6):
        walk.rg.publish(f"{name}.a", f"number {number}")
    state = recent.info().state
    walk.expect((state.messages, state.first_seq, state.last_seq) == (3, 3, 5), "the newest three stay")
    walk.shown(f"Messages: {state.messages}, FirstSeq: {state.first_seq}, LastSeq: {state.last_seq}")
    walk.say(f"railgun stream edit {name} --discard new")
    walk.rg.update_stream(name, discard="new")
    try:
        walk.rg.publish(f"{name}.a", "number 6")
    except StreamFull as refusal:
        walk.shown(f"refused: {refusal}")
    else:
        raise TourFailed("a full stream that discards the new took a message")


def life_time(walk: Walk) -> None:
    walk.title("A message with a life time")
    name = walk.side("SESSIONS")
    walk.say(f"railgun stream add {name} --subjects '{name}.*' --allow-msg-ttl")
    sessions = walk.rg.create_stream(name, subjects=[f"{name}.*"], allow_msg_ttl=True, metadata=MARK)
    walk.say(f"railgun pub {name}.a 'logged in' --ttl {show_duration(LIFE)}")
    ack = walk.rg.publish(f"{name}.a", "logged in", ttl=LIFE)
    walk.shown(f"stored as {ack.stream}#{ack.sequence}: {sessions.get(ack.sequence).text}")


def counter(walk: Walk) -> None:
    walk.title("A counter")
    name = walk.side("COUNTER")
    walk.say(f"railgun stream add {name} --subjects '{name}.*' --allow-counter")
    counters = walk.rg.create_stream(name, subjects=[f"{name}.*"], allow_msg_counter=True, metadata=MARK)
    hits = walk.rg.counter(f"{name}.hits")
    for number, total in ((100, 100), (1, 101)):
        walk.say(f"railgun counter add {name}.hits {number}")
        walk.expect(hits.add(number) == total, f"the total is {total}")
        walk.shown(str(total))
    last = counters.get_last(f"{name}.hits")
    walk.say(f"railgun stream get {name} --last-for {name}.hits")
    walk.shown(f"Nats-Incr: {last.header('Nats-Incr')}   {last.text}")


def expiry(walk: Walk) -> None:
    walk.title("The message with a life time is gone")
    name = walk.side("SESSIONS")
    walk.say(f"railgun stream get {name} 1")
    deadline = time.monotonic() + LIFE.total_seconds() + SLACK
    while True:
        try:
            walk.rg.stream(name).get(1)
        except MessageNotFound as gone:
            walk.shown(str(gone))
            return
        walk.expect(time.monotonic() < deadline, "a message is gone when its time is over")
        time.sleep(0.1)
