"""Random sequences: a seed gives the same sequence on every machine.

C-18 counts the bytes of headers otherwise than NATS. So a sequence has either limits in bytes or messages with headers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from tests.differ.batches import BatchWriter
from tests.differ.operations import Ack, Call, Headers, Operation, Publish, Wait
from tests.differ.spaces import (
    ACK_POLICIES,
    ACKS,
    CONSUMER_ODD,
    CONSUMER_USUAL,
    INCREMENTS,
    MESSAGE_HEADERS,
    MILLI,
    ODD_PULLS,
    STREAM_ODD,
    STREAM_USUAL,
    WRONG_TYPES,
    Values,
)

STREAMS: Final = ("S1", "S2")
CONSUMERS: Final = ("C1", "C2", "C3")
SUBJECTS: Final = ("a.1", "a.2", "a.3", "b.1", "a.1.x", "z")
CAPTURED: Final = {
    "S1": (["a.*"], ["a.>"], ["a.1", "a.2"], ["a.*", "b.*"], ["a.*", "a.*.x"]),
    "S2": (["b.*"], ["c.>"], ["z"]),
}
PATTERNS: Final = ("a.1", "a.2", "a.*", "a.>", ">", "*.1", "b.1", "z", "t.1", "t.>")
SHORT_ACK_WAIT: Final = 200 * MILLI
_LATER: Final = Wait(0.6)
_OF_BYTES: Final = frozenset({"max_bytes", "max_msg_size"})
_OF_TIME: Final = {  # values that would make the answer a matter of milliseconds
    "max_age": 100 * MILLI,
    "duplicate_window": 100 * MILLI,
    "ack_wait": 1,
    "inactive_threshold": 1,
}


def sequence(seed: str) -> list[Operation]:
    """The sequence of a seed. Whether it has batches is drawn apart, so that the others stay what they were without them."""
    return _Author(random.Random(seed), batching=random.Random(f"batches {seed}").random() < 0.2).write()


class _Author:
    """Writes one sequence; remembers what it made, so that most operations mean something."""

    def __init__(self, dice: random.Random, *, batching: bool) -> None:
        self._dice = dice
        self._bytes_matter = dice.random() < 0.25
        self._oddity = dice.choice((0.0, 0.02, 0.1))  # how often a value is odd
        self._hurried = dice.random() < 0.08  # short ack waits that pass
        self._counting = dice.random() < 0.15 and not self._bytes_matter  # most messages are increments
        self._batches = BatchWriter(dice) if batching and not self._bytes_matter else None
        self._streams: dict[str, dict[str, Any]] = {}
        self._consumers: dict[tuple[str, str], dict[str, Any]] = {}
        self._deliveries = 0

    def write(self) -> list[Operation]:
        written = [self._create_stream("S1"), *(self._publish() for _ in range(self._dice.randrange(4)))]
        for _ in range(self._dice.randrange(4, 24)):
            written.append(self._chances())
            if self._hurried and self._dice.random() < 0.05:
                written.append(_LATER)
        for name in self._streams:
            written += [
                Call(f"STREAM.INFO.{name}", {"subjects_filter": ">", "deleted_details": True}),
                Call(f"CONSUMER.LIST.{name}"),
            ]
        return written

    def _chances(self) -> Operation:
        chances: dict[Callable[[], Operation], int] = {
            self._publish: 70 if self._batches else 30,
            self._pull: 16 if self._consumers else 1,
            self._ack: 18 if self._deliveries else 1,
            self._create_consumer: 8 if self._consumers else 20,
            self._update_consumer: 3,
            self._consumer_call: 6,
            self._stream_info: 5,
            self._get: 4,
            self._direct_get: 4,
            self._delete_message: 4,
            self._purge: 3,
            self._update_stream: 5,
            self._second_stream: 2,
            self._list: 2,
            self._delete_stream: 1,
        }
        (chosen,) = self._dice.choices(list(chances), list(chances.values()))
        return chosen()

    # ------------------------------------------------------------ configurations

    def _fields(self, count: int, usual: Values, odd: Values) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(count):
            space = odd if self._dice.random() < self._oddity else usual
            left_out = () if self._batches else ("allow_atomic",)
            fields = [
                name for name in space if name.islower() and name not in left_out
            ]  # in capitals: by the tables
            field = self._dice.choice(fields)
            value = self._dice.choice(space[field])
            if space is odd and self._dice.random() < 0.2:
                value = self._dice.choice(WRONG_TYPES)
            if not self._is_risky(field, value):
                found[field] = value
        return found

    def _is_risky(self, field: str, value: Any) -> bool:
        if field in _OF_BYTES and not self._bytes_matter:
            return True
        if field == "allow_msg_counter" and not self._counting:
            return True
        if field == "no_ack" and (self._counting or self._batches):
            return True  # nobody is told that NATS refused a plain message (C-03), or railgun an id (C-07)
        if field == "max_ack_pending" and self._hurried:
            return (
                True  # NATS keeps a pull that met this wall, and fills it when the ack wait is over (PUL-03)
            )
        from_here = _OF_TIME.get(field)
        return from_here is not None and type(value) is int and from_here <= value < 10_000 * MILLI

    def _stream_config(self, name: str) -> dict[str, Any]:
        base = {"name": name, "subjects": self._dice.choice(CAPTURED[name])}
        if self._counting:
            base["allow_msg_counter"] = True
        elif self._dice.random() < 0.6:
            base["retention"] = self._dice.choice(("limits", "interest", "workqueue"))
        if self._batches and self._dice.random() < 0.95:
            base["allow_atomic"] = True
        if self._dice.random() < 0.5:
            base["allow_direct"] = True
        return base | self._fields(self._dice.choice((0, 1, 1, 2, 3, 4)), STREAM_USUAL, STREAM_ODD)

    def _consumer_config(self, name: str) -> dict[str, Any]:
        base: dict[str, Any] = {"durable_name": name, "ack_policy": self._dice.choice(ACK_POLICIES)}
        base |= self._fields(self._dice.choice((0, 0, 1, 1, 2, 3)), CONSUMER_USUAL, CONSUMER_ODD)
        if base.get("deliver_policy") == "by_start_sequence":
            base.setdefault("opt_start_seq", self._dice.choice((1, 2, 4)))
        elif self._dice.random() >= self._oddity:
            base.pop("opt_start_seq", None)
        if base.get("deliver_policy") == "last_per_subject":
            base.setdefault("filter_subject", self._dice.choice(("a.*", "a.>", ">")))
        if base.get("filter_subjects") and self._dice.random() >= self._oddity:
            base.pop("filter_subject", None)
        if self._hurried and "backoff" not in base:
            base["ack_wait"] = SHORT_ACK_WAIT
        return base

    # ------------------------------------------------------------ streams

    def _create_stream(self, name: str) -> Operation:
        config = self._streams[name] = self._stream_config(name)
        return Call(f"STREAM.CREATE.{name}", config)

    def _second_stream(self) -> Operation:
        return self._create_stream(self._dice.choice(STREAMS))

    def _update_stream(self) -> Operation:
        name = self._stream()
        config = dict(self._streams.get(name, {"name": name}))
        if config and self._dice.random() < 0.3:
            config.pop(self._dice.choice(list(config)))
        config |= self._fields(self._dice.choice((0, 1, 1, 2)), STREAM_USUAL, STREAM_ODD)
        if self._dice.random() < 0.15:
            config["subjects"] = self._dice.choice(CAPTURED["S1"])
        if self._dice.random() < 0.06:
            config["sealed"] = True
        return Call(f"STREAM.UPDATE.{name}", config)

    def _delete_stream(self) -> Operation:
        return Call(f"STREAM.DELETE.{self._stream()}", self._dice.choice((None, None, {}, "x")))

    def _stream_info(self) -> Operation:
        bodies: tuple[dict[str, Any] | None, ...] = (
            None,
            {},
            {"subjects_filter": self._dice.choice(PATTERNS)},
            {"deleted_details": True},
            {"offset": 1, "subjects_filter": ">"},
        )
        return Call(f"STREAM.INFO.{self._stream()}", self._dice.choice(bodies))

    def _list(self) -> Operation:
        call = self._dice.choice(("STREAM.LIST", "STREAM.NAMES", "CONSUMER.LIST.S1", "CONSUMER.NAMES.S1"))
        bodies: list[dict[str, Any] | str | None] = [None, {}, {"offset": 1}, {"offset": -1}]
        if call.startswith("STREAM"):
            bodies += [{"subject": pattern} for pattern in ("a.1", "b.>", "z")]
        return Call(call, self._dice.choice(bodies))

    # ------------------------------------------------------------ messages

    def _publish(self) -> Operation:
        message = self._message()
        if self._batches and self._dice.random() < 0.8:
            captured = self._streams.get("S1", {}).get("subjects")
            return self._batches.member(message, SUBJECTS, captured)
        return message

    def _message(self) -> Publish:
        weights = (6, 4, 2, 2, 1, 1)
        (subject,) = self._dice.choices(SUBJECTS, weights)
        payload = self._dice.choice(("", "x", "abc", "abcdefgh"))
        if self._counting and self._dice.random() < 0.9:
            return self._increment(subject)
        return Publish(subject, payload, () if self._bytes_matter else self._headers())

    def _increment(self, subject: str) -> Publish:
        headers = (("Nats-Incr", self._dice.choice(INCREMENTS)),)
        if self._dice.random() < 0.3:
            headers += self._headers()
        return Publish(subject, "x" if self._dice.random() < 0.03 else "", headers)

    def _headers(self) -> Headers:
        if self._dice.random() < 0.55:
            return ()
        drawn = [self._header() for _ in range(self._dice.choice((1, 1, 1, 2, 3)))]
        return tuple({name: (name, value) for name, value in drawn}.values())

    def _header(self) -> tuple[str, str]:
        (name,) = self._dice.choices(
            list(MESSAGE_HEADERS), [weight for weight, _ in MESSAGE_HEADERS.values()]
        )
        return name, self._dice.choice(MESSAGE_HEADERS[name][1])

    def _get(self) -> Operation:
        return Call(f"STREAM.MSG.GET.{self._stream()}", self._selection())

    def _direct_get(self) -> Operation:
        stream = self._stream()
        if self._dice.random() < 0.3:
            return Call(f"DIRECT.GET.{stream}.{self._dice.choice(SUBJECTS)}")
        body = self._selection()
        if isinstance(body, dict) and self._dice.random() < 0.4:
            body |= {"batch": self._dice.choice((1, 2, 5))}
            body.pop("last_by_subj", None)
        if self._dice.random() < 0.15:
            body = {"multi_last": [self._dice.choice(PATTERNS)]}
            if self._dice.random() < 0.3:
                body["up_to_seq"] = self._dice.randrange(6)
        return Call(f"DIRECT.GET.{stream}", body)

    def _selection(self) -> dict[str, Any] | str | None:
        sequence = self._sequence()
        choices: tuple[dict[str, Any] | str | None, ...] = (
            {"seq": sequence},
            {"seq": sequence},
            {"last_by_subj": self._dice.choice(PATTERNS)},
            {"next_by_subj": self._dice.choice(PATTERNS), "seq": sequence},
            {"next_by_subj": self._dice.choice(PATTERNS)},
            {"seq": sequence, "last_by_subj": "a.1"},
            {"seq": sequence, "no_hdr": True},
        )
        if self._dice.random() < 0.1:
            return self._dice.choice((None, {}, "x", {"seq": -1}, {"seq": "1"}, {"last_by_subj": "a..b"}))
        return self._dice.choice(choices)

    def _delete_message(self) -> Operation:
        bodies: tuple[dict[str, Any] | str | None, ...] = (
            {"seq": self._sequence()},
            {"seq": self._sequence()},
            {"seq": self._sequence(), "no_erase": True},
            {},
            None,
        )
        (body,) = self._dice.choices(bodies, (8, 4, 3, 1, 1))
        return Call(f"STREAM.MSG.DELETE.{self._stream()}", body)

    def _purge(self) -> Operation:
        body: dict[str, Any] = {}
        if self._dice.random() < 0.5:
            body["filter"] = self._dice.choice(PATTERNS)
        if self._dice.random() < 0.3:
            body["seq"] = self._sequence()
        if self._dice.random() < 0.3:
            body["keep"] = self._dice.randrange(4)
        return Call(f"STREAM.PURGE.{self._stream()}", self._dice.choice((body, body, body or None)))

    # ------------------------------------------------------------ consumers

    def _create_consumer(self) -> Operation:
        stream, name = self._stream(), self._dice.choice(CONSUMERS)
        config = self._consumer_config(name)
        self._consumers.setdefault((stream, name), config)
        body: dict[str, Any] = {"stream_name": stream, "config": config}
        if self._dice.random() < 0.2:
            body["action"] = self._dice.choice(("create", "update", "", "other"))
        if self._dice.random() < 0.1:
            return Call(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", body)
        filtered = config.get("filter_subject")
        if isinstance(filtered, str) and filtered and self._dice.random() < 0.2:
            return Call(f"CONSUMER.CREATE.{stream}.{name}.{filtered}".replace(" ", ""), body)
        return Call(f"CONSUMER.CREATE.{stream}.{name}", body)

    def _update_consumer(self) -> Operation:
        if not self._consumers:
            return self._create_consumer()
        stream, name = self._dice.choice(list(self._consumers))
        config = dict(self._consumers[stream, name])
        if self._dice.random() < 0.4:
            config.pop(self._dice.choice(list(config)))
        config |= self._fields(self._dice.choice((0, 1, 1, 2)), CONSUMER_USUAL, CONSUMER_ODD)
        action = self._dice.choice(("update", "update", "create"))
        body = {"stream_name": stream, "config": config, "action": action}
        return Call(f"CONSUMER.CREATE.{stream}.{name}", body)

    def _consumer_call(self) -> Operation:
        stream, name = self._consumer()
        (call,) = self._dice.choices(("INFO", "DELETE"), (5, 1))
        return Call(f"CONSUMER.{call}.{stream}.{name}")

    def _pull(self) -> Operation:
        stream, name = self._consumer()
        self._deliveries += 1
        body: dict[str, Any] = {"batch": self._dice.choice((1, 1, 2, 3, 10)), "no_wait": True}
        if self._dice.random() < 0.15:
            body |= {"expires": 40 * MILLI, "no_wait": self._dice.random() < 0.5}
        if self._bytes_matter and self._dice.random() < 0.2:
            body["max_bytes"] = self._dice.choice((1, 60, 120, 500))
        if self._dice.random() < 0.04:
            body |= self._dice.choice(ODD_PULLS)
        return Call(f"CONSUMER.MSG.NEXT.{stream}.{name}", body)

    def _ack(self) -> Operation:
        (body,) = self._dice.choices(list(ACKS), list(ACKS.values()))
        return Ack(self._dice.randrange(12), body)

    # ------------------------------------------------------------ choosing

    def _stream(self) -> str:
        if not self._streams or self._dice.random() < 0.03:
            return self._dice.choice(STREAMS)
        return self._dice.choice(list(self._streams))

    def _consumer(self) -> tuple[str, str]:
        if not self._consumers or self._dice.random() < 0.04:
            return self._stream(), self._dice.choice(CONSUMERS)
        return self._dice.choice(list(self._consumers))

    def _sequence(self) -> int:
        first = self._streams.get("S1", {}).get("first_seq", 1)
        return self._dice.randrange(10) + (first - 1 if first in (5, 100) else 0)
