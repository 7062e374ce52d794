"""Operations on a stream of counters: increments, plain messages, deletes of the newest, purges, and the option off and on."""

from __future__ import annotations

from random import Random
from typing import Any

STREAM = "COUNT"
TOKENS = ("x", "y", "x.1", "é")
SECOND = 1_000_000_000
Operation = tuple[str, dict[str, Any]]


def interleaved(operations: list[Operation], seed: int) -> list[Operation]:
    """The history with a stream of counters in it; what was there before stays as it is."""
    random = Random(f"counters {seed}")
    found: list[Operation] = [("create", {"stream": STREAM, "config": _config(random)})]
    for operation in operations:
        found.append(operation)
        while random.random() < 0.3:
            found.append(_operation(random))
    return found


def _operation(random: Random) -> Operation:
    kinds = ("publish", "delete_newest", "delete", "purge", "update", "remove", "get", "info")
    (kind,) = random.choices(kinds, (30, 8, 3, 4, 5, 0.5, 3, 2))
    of = {"stream": STREAM}
    subject = f"{STREAM}.{random.choice(TOKENS)}"
    if kind == "publish":
        return kind, of | _increments(random)
    if kind == "delete_newest":
        return kind, of | {"back": random.randrange(4)}
    if kind == "delete":
        return kind, of | {"sequence": random.randrange(60)}
    if kind == "purge":
        bodies: list[dict[str, Any]] = [{}, {"filter": subject}, {"keep": 2}, {"seq": 5}]
        return kind, of | {"body": random.choice(bodies)}
    if kind == "update":
        return kind, of | {"fields": _limits(random) | {"allow_msg_counter": random.random() < 0.7}}
    if kind == "remove":
        return ("create", of | {"config": _config(random)}) if random.random() < 0.7 else (kind, of)
    if kind == "get":
        return kind, of | {"body": {"last_by_subj": subject}, "sequence": 0, "direct": False}
    return kind, of


def _config(random: Random) -> dict[str, Any]:
    return {
        "name": STREAM,
        "subjects": [f"{STREAM}.>"],
        "allow_msg_counter": True,
        "allow_direct": random.random() < 0.2,
        "allow_rollup_hdrs": True,
        **_limits(random),
    }


def _limits(random: Random) -> dict[str, Any]:
    choices: dict[str, list[Any]] = {
        "max_msgs": [-1, -1, 3, 8],
        "max_bytes": [-1, -1, 300],
        "max_age": [0, 0, 10 * SECOND],
        "max_msgs_per_subject": [-1, -1, 1, 2],
        "duplicate_window": [2 * SECOND],
    }
    return {name: random.choice(values) for name, values in choices.items() if random.random() < 0.4}


def _increments(random: Random) -> dict[str, Any]:
    """A pack of increments alone, or mixed with plain messages and with what is refused."""
    count = random.choice([1, 1, 2, 5, 12])
    mixed = random.random() < 0.4
    texts = ["+1", "-3", "5", "0", "+9223372036854775807", "x"] if mixed else ["+1", "2", "-5"]
    plain = [mixed and random.random() < 0.3 for _ in range(count)]
    rolled = [("Nats-Rollup", random.choice(["sub", "all"]))]
    headers = [
        (rolled if random.random() < 0.1 else []) if one else [("Nats-Incr", random.choice(texts))]
        for one in plain
    ]
    return {
        "subjects": [f"{STREAM}.{random.choice(TOKENS)}" for _ in range(count)],
        "sizes": [random.choice([0, 3]) if one else 0 for one in plain],
        "ids": [f"id{random.randrange(20)}" for _ in range(count)] if random.random() < 0.3 else [],
        "headers": headers,
    }
