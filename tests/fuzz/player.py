"""Plays a history to both clusters, and compares all that they say and hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from railgun.protocol.commands import AckRun, Pull
from railgun.protocol.routing import partition_of
from tests.fuzz import counting
from tests.fuzz.operations import Operation
from tests.fuzz.worlds import Plain, Tight, World

_CHANGES = (
    "filter_subject",
    "max_deliver",
    "ack_wait",
    "max_ack_pending",
    "dead_letter",
    "max_ack_pending_per_subject",
    "headers_only",
)
MOST_DRAINS = 2_000  # until nothing is left to do


class Difference(AssertionError):
    """The two clusters do not say or hold the same."""


class Player:
    """Both clusters, and one history."""

    def __init__(self) -> None:
        self.plain, self.tight = Plain(), Tight()
        self._worlds: tuple[World, World] = (self.plain, self.tight)
        self._pulls = 0

    def play(self, history: Iterable[Operation]) -> None:
        """Raises Difference, or whatever escapes from a rule."""
        for name, fields in history:
            getattr(self, f"_do_{name}")(**fields)
        self._do_settle(abort_every=0, look=True)
        self._add_nothing()
        self._do_settle(abort_every=0, look=True)

    # -- streams and messages

    def _do_create(self, stream: str, config: dict[str, Any]) -> None:
        self._ask(f"STREAM.CREATE.{stream}", config)

    def _do_update(self, stream: str, fields: dict[str, Any]) -> None:
        state = self.plain.cores[partition_of(stream, 2)]._streams.get(stream)
        known = {"name": stream} if state is None else state.config.to_api()
        self._ask(f"STREAM.UPDATE.{stream}", known | fields)

    _do_keep_bodies = _do_update

    def _do_remove(self, stream: str) -> None:
        self._ask(f"STREAM.DELETE.{stream}")

    def _do_publish(
        self,
        stream: str,
        subjects: list[str],
        sizes: list[int],
        ids: list[str],
        headers: list[list[tuple[str, str]]],
    ) -> None:
        last = self._last(stream)
        sent = [
            [
                (name, str(max(last - int(value[1:]), 0)).encode() if value[0] == "@" else value.encode())
                for name, value in one
            ]
            for one in headers
        ]
        self._both(
            lambda world: world.publish(
                stream,
                subjects,
                ids=ids,
                headers=sent,
                payloads=[(b"%d." % at).ljust(size, b"-") if size else b"" for at, size in enumerate(sizes)],
            )
        )

    _do_count = _do_publish

    def _add_nothing(self) -> None:
        """Every counter says its total."""
        subjects = [f"{counting.STREAM}.{token}" for token in counting.TOKENS]
        headers = [[("Nats-Incr", "0")]] * len(subjects)
        self._do_publish(counting.STREAM, subjects, [0] * len(subjects), [], headers)

    def _do_general(self) -> None:
        """From now on the plain cluster decides each message by itself: the quick ways must say the same."""
        self.plain.general = True

    def _do_batch(self, stream: str, subjects: list[str], cuts: list[int], **columns: Any) -> None:
        """Batches and other messages, as one pack or cut into several."""
        for start, end in pairwise([0, *sorted(set(cuts)), len(subjects)]):
            if start < end:
                part = {name: column[start:end] for name, column in columns.items()}
                self._do_publish(stream, subjects[start:end], ids=[], **part)

    def _do_delete_newest(self, stream: str, back: int) -> None:
        self._ask(f"STREAM.MSG.DELETE.{stream}", {"seq": max(self._last(stream) - back, 1)})

    def _do_delete(self, stream: str, sequence: int) -> None:
        self._ask(f"STREAM.MSG.DELETE.{stream}", {"seq": self._sequence(stream, sequence)})

    def _do_purge(self, stream: str, body: dict[str, Any]) -> None:
        self._ask(f"STREAM.PURGE.{stream}", body)

    def _do_get(self, stream: str, body: dict[str, Any], sequence: int, direct: bool) -> None:
        chosen = {
            name: self._sequence(stream, sequence) if value == "#" else value for name, value in body.items()
        }
        self._ask(f"DIRECT.GET.{stream}" if direct else f"STREAM.MSG.GET.{stream}", chosen)

    def _do_info(self, stream: str) -> None:
        self._ask(f"STREAM.INFO.{stream}", {"deleted_details": True, "subjects_filter": ">"})

    # -- consumers

    def _do_consumer(self, stream: str, consumer: str, config: dict[str, Any]) -> None:
        state = self.plain.cores[partition_of(stream, 2)]._streams.get(stream)
        known = None if state is None else state.consumers.get(consumer)
        if known is not None:  # a change: what may not be changed stays
            changes = {name: value for name, value in config.items() if name in _CHANGES}
            if (
                known.delivered.consumer
            ):  # where it stands then is not stored: it may have passed by more (CON-14)
                changes.pop("filter_subject", None)
            config = known.config.to_api() | changes
        elif state is not None and state.config.retention == "workqueue":
            config = config | {"ack_policy": "explicit", "deliver_policy": "all"}
        self._ask(f"CONSUMER.CREATE.{stream}.{consumer}", {"stream_name": stream, "config": config}, stream)

    def _do_forget(self, which: int) -> None:
        stream, consumer = self._consumer(which)
        self._ask(f"CONSUMER.DELETE.{stream}.{consumer}", stream=stream)

    def _do_about(self, which: int) -> None:
        stream, consumer = self._consumer(which)
        self._ask(f"CONSUMER.INFO.{stream}.{consumer}", stream=stream)

    def _do_pull(self, which: int, client: str, **fields: Any) -> None:
        stream, consumer = self._consumer(which)
        self._pulls += 1
        pull = Pull(self._pulls, **fields)
        self._both(lambda world: world.command(stream, consumer, client=client, pull=pull))

    def _do_ack(self, which: int, kind: str, length: int, delay: int, request: bool) -> None:
        if not self.plain.deliveries:
            return
        recent = self.plain.deliveries[-60:]
        stream, consumer, sequence, number, deliveries = recent[which % len(recent)]
        ack = AckRun(kind, sequence, length, number, deliveries, delay if kind == "nak" else 0, "why")
        asked = 0
        if request:
            self._pulls += 1
            asked = 1_000_000 + self._pulls
        self._both(lambda world: world.command(stream, consumer, acks=[ack], request=asked))

    def _do_presence(self, client: str, listens: list[tuple[str, str]], leaving: bool) -> None:
        self._both(lambda world: world.presence(client, *listens, leaving=leaving))

    # -- time, drains and their failures

    def _do_wait(self, nanos: int) -> None:
        for world in self._worlds:
            world.now += nanos

    def _do_advance(self, nanos: int) -> None:
        for partition in range(2):
            self._both(
                lambda world, to=partition: world.request(  # type: ignore[misc]
                    "CLOCK.ADVANCE", {"nanos": nanos}, partition=to
                )
            )

    def _do_step(self, partition: int, count: int, aborts: int) -> None:
        self._step(partition, count, aborts)
        self._compare()

    def _do_settle(self, abort_every: int, look: bool) -> None:
        for number in range(1, MOST_DRAINS):
            busy = [one for one in range(2) if any(_is_busy(world, one) for world in self._worlds)]
            if not busy:
                break
            self._step(busy[0], 1_000, 1 if abort_every and number % abort_every == 0 else 0)
            self._compare()
        else:
            raise Difference("the shards never come to rest")
        if look:
            expected, found = self.plain.state(), self.tight.state()
            if self.plain.general:  # an id that has left the window, or the total of a message that is gone, may leave at another time
                for one in (*expected.values(), *found.values()):
                    if isinstance(one, dict):
                        one |= dict.fromkeys(("ids", "totals"))
            if expected != found:
                raise Difference("\n".join(_differences(expected, found, "")))

    def _do_restart(self, partition: int) -> None:
        self.tight.restart(partition)
        self.plain.forget(partition)

    def _do_lose_disk(self, partition: int) -> None:
        self.tight.lose_disk(partition)

    def _do_compact(self) -> None:
        self.tight.compact()

    # -- inside

    def _step(self, partition: int, count: int, aborts: int) -> None:
        for number in range(aborts):
            loaded = self.tight.abort(partition, max(count - number, 1))
            self.plain.forget_order(partition, loaded)
        self.plain.step(partition, count)
        self.tight.step(partition, count)

    def _compare(self) -> None:
        for expected, found in zip(self.plain.said, self.tight.said, strict=True):
            if expected != found:
                raise Difference("\n".join(_differences(expected, found, "")))
        self.plain.said.clear()
        self.tight.said.clear()

    def _both(self, tell: Callable[[World], Any]) -> None:
        for world in self._worlds:
            tell(world)

    def _ask(self, api: str, body: dict[str, Any] | None = None, stream: str = "") -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self._both(lambda world: world.request(api, data, stream=stream))

    def _consumer(self, which: int) -> tuple[str, str]:
        """One of those that there are, sometimes one that is not there."""
        known = [
            (state.name, one.name)
            for core in self.plain.cores
            for state in core._streams
            for one in state.consumers
        ]
        return (known * 10 + [("A", "nobody")])[which % (len(known) * 10 + 1)]

    def _last(self, stream: str) -> int:
        state = self.plain.cores[partition_of(stream, 2)]._streams.get(stream)
        return 0 if state is None else state.last_seq

    def _sequence(self, stream: str, number: int) -> int:
        """One of the stream, or the one behind them."""
        state = self.plain.cores[partition_of(stream, 2)]._streams.get(stream)
        first, last = (1, 0) if state is None else (max(state.first_seq, 1), state.last_seq)
        return first + number % (max(last - first, 0) + 2)


def _is_busy(world: World, partition: int) -> bool:
    due = world.cores[partition].next_deadline()
    return bool(world.inboxes[partition]) or (due is not None and due <= world.now)


def _differences(expected: Any, found: Any, where: str) -> list[str]:
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = [*expected, *(key for key in found if key not in expected)]
        return [
            line for key in keys for line in _differences(expected.get(key), found.get(key), f"{where}/{key}")
        ]
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [line for at, pair in pairs for line in _differences(*pair, f"{where}/{at}")]
    return [] if expected == found else [f"{where}: expected {expected}, found {found}"]
