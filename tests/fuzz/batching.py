"""Operations with batches: whole ones one behind the other, broken ones, cut ones, with conditions or without, and other messages between."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.fuzz import counting

STREAMS = ("A", "B", "C", counting.STREAM)
TOKENS = ("x", "y", "x.1", "z.1", "é")
SECOND = 1_000_000_000
Operation = tuple[str, dict[str, Any]]


def interleaved(operations: list[Operation], seed: int) -> list[Operation]:
    """The history with batches in it; of every second one the plain cluster decides each message by itself."""
    random = Random(f"batches {seed}")
    found: list[Operation] = [("general", {})] if seed % 2 else []
    for name, fields in operations:
        if name == "create" and random.random() < 0.95:
            fields = fields | {"config": fields["config"] | {"allow_atomic": True}}
        found.append((name, fields))
        while random.random() < 0.2:
            found.append(("batch", _batches(random)))
        if random.random() < 0.02:
            allowed = {"allow_atomic": random.random() < 0.8}
            found.append(("update", {"stream": random.choice(STREAMS), "fields": allowed}))
        if random.random() < 0.01:
            found.append(("wait", {"nanos": 11 * SECOND}))
    return found


def _batches(random: Random) -> dict[str, Any]:
    stream = random.choice(STREAMS)
    asks = random.random() < 0.45
    messages: list[tuple[str, int, list[tuple[str, str]]]] = []
    for _ in range(random.choice([1, 1, 2, 3, 6])):
        if random.random() < 0.2:
            messages.append((_subject(random, stream), random.choice([0, 3]), []))
        else:
            messages += _batch(random, stream, asks=asks)
    subjects, sizes, headers = map(list, zip(*messages, strict=True))
    cuts = [random.randrange(len(messages) + 1)] if random.random() < 0.2 else []
    return {"stream": stream, "subjects": subjects, "sizes": sizes, "headers": headers, "cuts": cuts}


def _batch(random: Random, stream: str, *, asks: bool) -> list[tuple[str, int, list[tuple[str, str]]]]:
    """The messages of one batch: subject, size and headers. ``asks``: for more than to be stored."""
    identity = f"b{random.randrange(4)}" if random.random() < 0.7 else f"u{random.randrange(1 << 30)}"
    count, broken = random.choice([1, 1, 2, 3, 5, 7]), random.random() < 0.12
    found = []
    for number in range(1, count + 1):
        own = list(random.choice(_ASKED)) if asks and random.random() < 0.25 else []
        size = random.choice([0, 3, 3, 20, 50])
        if stream == counting.STREAM and random.random() < 0.8:
            texts = ["+1", "-3", "+9223372036854775807", "2", "0"] if asks else ["+1", "-2"]
            own, size = [*own, ("Nats-Incr", random.choice(texts))], 0
        shown = number + (broken and random.random() < 0.3)
        place = [("Nats-Batch-Id", identity), ("Nats-Batch-Sequence", str(shown))]
        if number == count and not (broken and random.random() < 0.5):
            place.append(("Nats-Batch-Commit", random.choice(["1"] * 6 + ["eob"])))
        headers = own + place if random.random() < 0.8 else place + own
        found.append((_subject(random, stream), size, headers))
    return found


def _subject(random: Random, stream: str) -> str:
    return f"{stream}.{random.choice(TOKENS)}" if random.random() < 0.98 else "nowhere"


_ASKED: list[list[tuple[str, str]]] = [
    [("Nats-Expected-Last-Sequence", "@0")],
    [("Nats-Expected-Last-Sequence", "@1")],
    [("Nats-Expected-Last-Subject-Sequence", "@0")],
    [("Nats-Expected-Last-Subject-Sequence", "0")],
    [
        ("Nats-Expected-Last-Subject-Sequence", "@0"),
        ("Nats-Expected-Last-Subject-Sequence-Subject", ">"),
    ],
    [
        ("Nats-Expected-Last-Subject-Sequence", "0"),
        ("Nats-Expected-Last-Subject-Sequence-Subject", "*.nobody"),
    ],
    [("Nats-Rollup", "sub")],
    [("Nats-Rollup", "all")],
    [("Nats-TTL", "1s")],
    [("Nats-TTL", "never")],
    [("Nats-Msg-Id", "id1")],
    [("Nats-Required-Api-Level", "1")],
    [("Nats-Required-Api-Level", "9")],
    [("Nats-Counter-Sources", "{}")],
    [("KV-Operation", "DEL")],
    [("Nats-Expected-Stream", "A")],
    [("x", "1")],
]
