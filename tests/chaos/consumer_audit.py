"""What the journals of the clients say against what was published and what the owner says. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from railgun.model.consumer_info import ConsumerInfo
from tests.chaos.journal import ACKING, CONFIRMED, GOT, LOOKED, Entry


def differences(
    entries: Sequence[Entry], published: Mapping[str, int], *, ends: int, in_turn: bool
) -> list[str]:
    """What is wrong with the deliveries of one consumer, whose entries are given in the order of time.

    ``published``: the sequence of every id that was acked; an id is the body of its message. ``ends``: how often a client
    was ended. ``in_turn``: messages of one subject must come one after the other.
    """
    got = [entry for entry in entries if entry.what == GOT]
    wrong = [*_foreign(got, published), *_handed_out_twice(got), *_miscounted(got)]
    wrong += _again_after_the_confirmation(entries, got)
    wrong += _lost(entries, published, ends)
    if in_turn:
        wrong += _out_of_turn(entries)
    return wrong


def _foreign(got: Sequence[Entry], published: Mapping[str, int]) -> list[str]:
    """The body belongs to the sequence."""
    found = [(entry.sequence, entry.body) for entry in got if published.get(entry.body) != entry.sequence]
    return [f"delivered under a sequence that is not theirs: {found[:5]}"] if found else []


def _handed_out_twice(got: Sequence[Entry]) -> list[str]:
    """SEQ-01: a consumer sequence is one delivery, to one client."""
    seen: dict[int, Entry] = {}
    found = []
    for entry in got:
        other = seen.setdefault(entry.consumer_sequence, entry)
        if other is not entry:
            found.append((entry.consumer_sequence, other.sequence, entry.sequence))
    return [f"handed out twice (consumer sequence, messages): {found[:5]}"] if found else []


def _miscounted(got: Sequence[Entry]) -> list[str]:
    """RDL-04: every further delivery of a message has a higher count."""
    by_message: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for entry in got:
        by_message[entry.sequence].append((entry.consumer_sequence, entry.deliveries))
    found = [
        (sequence, sorted(places))
        for sequence, places in by_message.items()
        if any(left[1] >= right[1] for left, right in pairwise(sorted(places)))
    ]
    return [f"counts that do not rise (sequence, deliveries): {found[:5]}"] if found else []


def _again_after_the_confirmation(entries: Sequence[Entry], got: Sequence[Entry]) -> list[str]:
    """EXO-03. A delivery may have been on its way while an older one was being confirmed; but one that was decided after
    an info that was asked for after the confirmation is a violation: its consumer sequence is beyond what the info said.
    """
    bound: dict[int, int] = {}  # by message: no delivery may have a higher consumer sequence
    waiting: list[int] = []
    for entry in entries:
        if entry.what == CONFIRMED:
            waiting.append(entry.sequence)
        elif entry.what == LOOKED:
            for sequence in waiting:
                bound.setdefault(sequence, entry.consumer_sequence)
            waiting.clear()
    found = [
        (entry.sequence, entry.consumer_sequence, bound[entry.sequence])
        for entry in got
        if entry.consumer_sequence > bound.get(entry.sequence, entry.consumer_sequence)
    ]
    return (
        [f"delivered after the confirmation (sequence, delivery, last before): {found[:5]}"] if found else []
    )


def _lost(entries: Sequence[Entry], published: Mapping[str, int], ends: int) -> list[str]:
    """Every message was confirmed; an end may hide the answer to the one double ack that was on its way."""
    begun = {entry.sequence for entry in entries if entry.what == ACKING}
    confirmed = {entry.sequence for entry in entries if entry.what == CONFIRMED}
    wanted = set(published.values())
    wrong = []
    if lost := sorted(wanted - begun):
        wrong.append(f"{len(lost)} messages were never worked on: {lost[:5]}")
    unknown = sorted(begun - confirmed)
    if len(unknown) > ends:
        wrong.append(f"{len(unknown)} double acks without an answer after {ends} ends: {unknown[:5]}")
    return wrong


def _out_of_turn(entries: Sequence[Entry]) -> list[str]:
    """One message of a subject at a time: it is delivered when all before it are being confirmed, and not before."""
    latest: dict[str, Entry] = {}  # by subject: of all deliveries so far, the one of the newest message
    acking: dict[int, int] = {}  # by message: when its first double ack was sent
    found = []
    for entry in entries:
        if entry.what == ACKING:
            acking.setdefault(entry.sequence, entry.time)
    for entry in sorted(
        (entry for entry in entries if entry.what == GOT), key=lambda one: one.consumer_sequence
    ):
        before = latest.setdefault(entry.subject, entry)
        early = before.sequence < entry.sequence and acking.get(before.sequence, entry.time) >= entry.time
        if early or before.sequence > entry.sequence:
            found.append((entry.subject, before.sequence, entry.sequence))
        if before.sequence < entry.sequence:
            latest[entry.subject] = entry
    return [f"not in turn (subject, earlier, later): {found[:5]}"] if found else []


def info_differences(info: ConsumerInfo, last: int) -> list[str]:
    """All is delivered and confirmed: nothing is open, and the floor is the end of the stream."""
    said = (info.num_pending, info.num_ack_pending, info.num_redelivered)
    wrong = [f"info says {said} (pending, ack pending, redelivered)"] if said != (0, 0, 0) else []
    if info.ack_floor != info.delivered:
        wrong.append(f"the floor is {info.ack_floor}, delivered is {info.delivered}")
    if info.ack_floor.stream_seq != last:
        wrong.append(f"the floor is {info.ack_floor}, the last message {last}")
    return wrong
