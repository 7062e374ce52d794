"""The newest messages in memory: found by sequence, bounded over all streams, never another stream's."""

from __future__ import annotations

import random

from railgun.semantics.messages.recent import RecentMessages


def test_messages_are_found_by_incarnation_and_sequence() -> None:
    recent = RecentMessages()
    recent.add(1, [1, 2, 3], [[], [("a", b"b")], []], [b"x", b"y", b"z"])
    recent.add(2, [2], [[]], [b"other"])
    recent.add(1, [7], [[]], [b"later"])
    assert recent.find(1, 2) == ([("a", b"b")], b"y")
    assert recent.find(1, 7) == ([], b"later")
    assert recent.find(2, 2) == ([], b"other")
    for missing in ((1, 0), (1, 4), (1, 8), (2, 1), (3, 1)):
        assert recent.find(*missing) is None


def test_the_oldest_go_first_when_the_limit_is_passed() -> None:
    dice, recent = random.Random(5), RecentMessages(limit=10_000)
    added: list[tuple[int, int, bytes]] = []
    next_of = {1: 1, 2: 1, 3: 1}
    for _ in range(200):
        incarnation, count = dice.choice([1, 2, 3]), dice.randint(1, 5)
        first = next_of[incarnation]
        next_of[incarnation] += count + dice.randint(0, 2)
        payloads = [dice.randbytes(dice.randint(0, 50)) for _ in range(count)]
        recent.add(incarnation, list(range(first, first + count)), [[] for _ in payloads], payloads)
        added += [(incarnation, first + index, payload) for index, payload in enumerate(payloads)]
    found = [recent.find(incarnation, sequence) for incarnation, sequence, _ in added]
    kept = [index for index, one in enumerate(found) if one is not None]
    assert kept == list(range(kept[0], len(added))), "what is kept is the newest, without a hole"
    assert 20 < len(kept) < 60
    assert all(found[index] == ([], added[index][2]) for index in kept)
