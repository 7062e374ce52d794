"""Random operations of every kind, as plain values: a history can be printed, played again and made shorter.

What depends on how far a history has come (which delivery is acknowledged, which sequence is deleted) is a number that the
player takes as far as it goes, so that a history stays a history when some of its operations are left out.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.fuzz import batching
from tests.fuzz.counting import interleaved

SECOND = 1_000_000_000
STREAMS = ("A", "B", "C", "DEAD")
CONSUMERS = ("one", "two", "three")
CLIENTS = ("client", "other")
TOKENS = ("x", "y", "x.1", "x.2", "z.1", "é")
Operation = tuple[str, dict[str, Any]]


def history(seed: int, length: int, *, counting: bool = True) -> list[Operation]:
    """As many operations as asked for, the same for the same seed; and with ``counting`` some on counters, and batches, between them."""
    random = Random(seed)
    begin: list[Operation] = [
        ("create", {"stream": name, "config": _stream_config(random, name)}) for name in STREAMS
    ]
    begin += [("settle", _settle(random)), *(("consumer", _consumer(random)) for _ in range(4))]
    operations = begin + [_operation(random) for _ in range(length)]
    return batching.interleaved(interleaved(operations, seed), seed) if counting else operations


def _operation(random: Random) -> Operation:
    names, weights = zip(*_WEIGHTS.items(), strict=True)
    (name,) = random.choices(names, weights)
    return name, _MAKERS[name](random)


# ------------------------------------------------------------ streams


def _maybe(random: Random, chance: float, **fields: list[Any]) -> dict[str, Any]:
    return {name: random.choice(values) for name, values in fields.items() if random.random() < chance}


def _stream_config(random: Random, name: str) -> dict[str, Any]:
    fields = _maybe(random, 0.5, retention=["limits", "limits", "workqueue", "interest"], allow_direct=[True])
    return (
        {"name": name, "subjects": [f"{name}.>"]}
        | fields
        | _stream_limits(random)
        | _maybe(random, 0.15, first_seq=[7], storage=["memory"])
    )


def _stream_limits(random: Random) -> dict[str, Any]:
    fields = _maybe(
        random,
        0.25,
        discard=["old", "new"],
        max_msgs=[1, 3, 8],
        max_bytes=[150, 400],
        max_age=[5 * SECOND, 30 * SECOND],
        max_msgs_per_subject=[1, 2, 3],
        max_msg_size=[60],
        duplicate_window=[2 * SECOND, 20 * SECOND],
        allow_rollup_hdrs=[True],
        allow_msg_ttl=[True],
        subject_delete_marker_ttl=[3 * SECOND],
    )
    rare = _maybe(
        random,
        0.05,
        discard_new_per_subject=[True],
        max_consumers=[2],
        deny_delete=[True],
        deny_purge=[True],
        sealed=[True],
        consumer_limits=[{"max_ack_pending": 3}],
        republish=[{"src": ">", "dest": "again.>"}],
    )
    fields |= rare
    if "max_age" in fields and "duplicate_window" in fields:
        fields["duplicate_window"] = min(fields["max_age"], fields["duplicate_window"])
    if fields.get("discard_new_per_subject"):
        fields |= {"discard": "new", "max_msgs_per_subject": random.choice([1, 2])}
    if random.random() < 0.98:
        fields.pop("sealed", None)
    return fields


def _create(random: Random) -> dict[str, Any]:
    name = random.choice(STREAMS)
    return {"stream": name, "config": _stream_config(random, name)}


def _update(random: Random) -> dict[str, Any]:
    return {
        "stream": random.choice(STREAMS),
        "fields": _stream_limits(random)
        | _maybe(random, 0.2, allow_direct=[True, False], retention=["limits", "interest"])
        | _maybe(random, 0.5, discard=["old", "new"], max_msgs=[-1, 2], max_msgs_per_subject=[-1, 1, 2]),
    }


def _keep_bodies(random: Random) -> dict[str, Any]:
    """Bodies are kept in the table or leave it, and nothing else changes."""
    return {"stream": random.choice(STREAMS[:3]), "fields": {"allow_direct": random.random() < 0.5}}


def _of_stream(random: Random) -> dict[str, Any]:
    return {"stream": random.choice(STREAMS)}


# ------------------------------------------------------------ messages


def _publish(random: Random) -> dict[str, Any]:
    stream = random.choice(STREAMS[:3])
    count = random.choice([1, 1, 1, 2, 5, 12])
    subjects = [f"{stream}.{random.choice(TOKENS)}" for _ in range(count)]
    sizes = [random.choice([0, 3, 3, 20, 50]) for _ in range(count)]
    ids = [f"id{random.randrange(8)}" if random.random() < 0.5 else "" for _ in range(count)]
    headers = [_headers(random, stream) if random.random() < 0.4 else [] for _ in range(count)]
    return {
        "stream": stream,
        "subjects": subjects,
        "sizes": sizes,
        "ids": ids if random.random() < 0.4 else [],
        "headers": headers if random.random() < 0.5 else [],
    }


def _headers(random: Random, stream: str) -> list[tuple[str, str]]:
    some = [
        ("Nats-TTL", random.choice(["1s", "4s", "never", "9"])),
        ("Nats-Rollup", random.choice(["sub", "all"])),
        ("Nats-Expected-Last-Sequence", f"@{random.randrange(3)}"),
        ("Nats-Expected-Last-Subject-Sequence", f"@{random.randrange(3)}"),
        ("Nats-Expected-Last-Msg-Id", f"id{random.randrange(8)}"),
        ("Nats-Expected-Stream", stream),
        ("x", "1"),
    ]
    chosen = random.sample(some, random.choice([1, 1, 2]))
    if any(name == "Nats-Expected-Last-Subject-Sequence" for name, _ in chosen) and random.random() < 0.4:
        about = f"{stream}.{random.choice(['x.*', '>', 'x'])}"
        chosen.append(("Nats-Expected-Last-Subject-Sequence-Subject", about))
    return chosen


def _delete(random: Random) -> dict[str, Any]:
    return _of_stream(random) | {"sequence": random.randrange(60)}


def _purge(random: Random) -> dict[str, Any]:
    stream = random.choice(STREAMS)
    body = _maybe(random, 0.5, filter=[f"{stream}.x", f"{stream}.*", f"{stream}.>", "nothing"])
    return {
        "stream": stream,
        "body": body | _maybe(random, 0.3, seq=[1, 4, 9, 30, 60]) | _maybe(random, 0.2, keep=[1, 3]),
    }


def _get(random: Random) -> dict[str, Any]:
    stream = random.choice(STREAMS)
    pattern = f"{stream}.{random.choice([*TOKENS, '>', 'x.*', '*'])}"
    bodies: list[dict[str, Any]] = [
        {"seq": "#"},
        {"last_by_subj": pattern},
        {"seq": "#", "next_by_subj": pattern},
        {"batch": random.choice([2, 9]), "seq": "#"},
        {"batch": 5, "seq": 1, "next_by_subj": pattern},
        {"multi_last": [pattern]},
        {"multi_last": [f"{stream}.>"], "up_to_seq": "#"},
    ]
    return {
        "stream": stream,
        "body": random.choice(bodies),
        "sequence": random.randrange(60),
        "direct": random.random() < 0.5,
    }


# ------------------------------------------------------------ consumers


def _consumer(random: Random) -> dict[str, Any]:
    stream, name = random.choice(STREAMS), random.choice(CONSUMERS)
    config: dict[str, Any] = {
        "name": name,
        "ack_policy": random.choice(["explicit", "explicit", "all", "none"]),
    }
    if random.random() < 0.85:
        config["durable_name"] = name
    filters = [f"{stream}.x", f"{stream}.>", f"{stream}.*", f"{stream}.x.*"]
    config |= _maybe(
        random,
        0.3,
        filter_subject=filters,
        max_deliver=[1, 2, 3],
        ack_wait=[2 * SECOND, 10 * SECOND],
        max_ack_pending=[1, 3, -1],
        dead_letter=["DEAD"],
    )
    config |= _maybe(
        random,
        0.15,
        deliver_policy=["last", "new", "last_per_subject", "by_start_sequence"],
        max_ack_pending_per_subject=[1, 2],
        inactive_threshold=[4 * SECOND],
        headers_only=[True],
        max_waiting=[1, 2],
        sample_freq=["50"],
        deliver_subject=["inbox.1", "inbox.2"],
    )
    if config.get("deliver_policy") == "by_start_sequence":
        config["opt_start_seq"] = random.choice([1, 5, 20])
    if config.get("max_deliver", 0) == 3 and random.random() < 0.5:
        config["backoff"] = [SECOND, 3 * SECOND]
    if "deliver_subject" in config:
        config |= _maybe(random, 0.3, deliver_group=["g"], idle_heartbeat=[2 * SECOND])
        config.pop("max_waiting", None)
    return {"stream": stream, "consumer": name, "config": config}


def _of_consumer(random: Random) -> dict[str, Any]:
    return {"which": random.randrange(1_000)}


def _pull(random: Random) -> dict[str, Any]:
    return _of_consumer(random) | {
        "client": random.choice(CLIENTS),
        "batch": random.choice([1, 2, 5, 30]),
        "no_wait": random.random() < 0.6,
        **_maybe(random, 0.4, expires=[SECOND, 5 * SECOND]),
        **_maybe(random, 0.15, max_bytes=[100, 300]),
        **_maybe(random, 0.1, heartbeat=[SECOND // 4]),
    }


def _ack(random: Random) -> dict[str, Any]:
    return {
        "which": random.randrange(1_000),
        "kind": random.choice(["ack", "ack", "ack", "nak", "nak", "term", "progress", "back"]),
        "length": random.choice([1, 1, 1, 2, 4]),
        "delay": random.choice([0, 0, SECOND, 5 * SECOND]),
        "request": random.random() < 0.3,
    }


def _presence(random: Random) -> dict[str, Any]:
    listens = random.choice([[], [("inbox.1", "")], [("inbox.*", "")], [("inbox.2", "g")], [("again.>", "")]])
    return {
        "client": random.choice(CLIENTS),
        "listens": listens,
        "leaving": random.random() < 0.15,
    }


# ------------------------------------------------------------ time, drains and their failures


def _wait(random: Random) -> dict[str, Any]:
    return {"nanos": random.choice([SECOND // 10, SECOND, 2 * SECOND, 7 * SECOND])}


def _advance(random: Random) -> dict[str, Any]:
    return {"nanos": random.choice([SECOND, 3 * SECOND, 11 * SECOND, 31 * SECOND])}


def _step(random: Random) -> dict[str, Any]:
    return {
        "partition": random.randrange(2),
        "count": random.choice([1, 1, 2, 5, 1_000]),
        "aborts": random.choice([0, 0, 1, 2]),
    }


def _settle(random: Random) -> dict[str, Any]:
    return {"abort_every": random.choice([0, 0, 1, 2, 3]), "look": random.random() < 0.3}


def _partition(random: Random) -> dict[str, Any]:
    return {"partition": random.randrange(2)}


def _nothing(random: Random) -> dict[str, Any]:
    return {}


_MAKERS = {
    "create": _create,
    "update": _update,
    "keep_bodies": _keep_bodies,
    "remove": _of_stream,
    "publish": _publish,
    "delete": _delete,
    "purge": _purge,
    "get": _get,
    "info": _of_stream,
    "consumer": _consumer,
    "forget": _of_consumer,
    "about": _of_consumer,
    "pull": _pull,
    "ack": _ack,
    "presence": _presence,
    "wait": _wait,
    "advance": _advance,
    "step": _step,
    "settle": _settle,
    "restart": _partition,
    "lose_disk": _partition,
    "compact": _nothing,
}
_WEIGHTS = {
    "create": 1,
    "update": 3,
    "keep_bodies": 2,
    "remove": 0.5,
    "publish": 22,
    "delete": 4,
    "purge": 2,
    "get": 5,
    "info": 3,
    "consumer": 6,
    "forget": 0.7,
    "about": 3,
    "pull": 16,
    "ack": 18,
    "presence": 2,
    "wait": 3,
    "advance": 2,
    "step": 6,
    "settle": 12,
    "restart": 1.5,
    "lose_disk": 0.5,
    "compact": 1,
}
