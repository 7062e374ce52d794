"""The tour of ``make run``: a few minutes of what railgun does, live, against the cluster that just started.

Every step is checked: a tour that ends well has shown what it says. It makes streams that carry a mark, and removes them at
its end and at its beginning, so that it can run again after it was interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from railgun.cli.options import Cluster, command, console
from railgun.cli.units import show_duration
from railgun.errors import MessageNotFound, RailgunError, StreamFull, StreamNotFound, WrongLastSequence
from railgun.model.names import DEFAULT_PREFIX, Names

MARK: Final = {"railgun-tour": "remove me"}
SEED_WINDOW: Final = timedelta(minutes=2)
SHORT: Final = timedelta(seconds=1)
_SLACK: Final = 10.0  # how much later than due a timer may be seen to act


class TourFailed(RailgunError):
    """A step of the tour did not show what it promises."""


class Tour:
    """One walk through a connected cluster."""

    def __init__(self, rg: Any, out: Console, real_time: bool) -> None:
        self._rg, self._out = rg, out
        self._wait = SEED_WINDOW if real_time else SHORT
        self.stream, self.subject = "ORDERS", "ORDERS"
        self._step = 0

    def walk(self, show_topic: Callable[[str], None] | None) -> None:
        """All steps; the streams of the tour are gone afterwards, however it ends."""
        self._remove_own()
        self._choose_names()
        try:
            self._create()
            self._duplicates()
            self._window()
            self._conditions()
            self._reading()
            if show_topic is not None:
                self._title("The stream is an ordinary Kafka topic")
                show_topic(self.stream)
            self._limits()
            self._expiry()
        finally:
            with suppress(RailgunError):
                self._remove_own()
        self._out.print("\n[bold green]That was the tour[/]: its streams are removed again.")

    # -- the steps

    def _create(self) -> None:
        self._title("A stream captures subjects")
        self._say(f"railgun stream add {self.stream} --subjects '{self.subject}.*'")
        self._rg.create_stream(self.stream, subjects=[f"{self.subject}.*"], metadata=MARK)
        self._shown(f"stream {self.stream} was created")

    def _duplicates(self) -> None:
        self._title("Four publishes with one id leave one message")
        for number in range(1, 5):
            self._say(f"railgun pub -H Nats-Msg-Id:1 {self.subject}.new hello{number}")
            ack = self._rg.publish(f"{self.subject}.new", f"hello{number}", headers={"Nats-Msg-Id": "1"})
            self._expect(ack.duplicate == (number > 1), "only the first publish is new")
            self._shown(f"{'duplicate of' if ack.duplicate else 'stored as'} {ack.stream}#{ack.sequence}")
        self._say(f"railgun stream info {self.stream}")
        state = self._rg.stream(self.stream).info().state
        self._expect((state.messages, state.bytes) == (1, 67), "one message of 67 bytes")
        self._shown(f"Messages: {state.messages}", f"   Bytes: {state.bytes} B")

    def _window(self) -> None:
        window = show_duration(self._wait)
        self._title(f"The id is forgotten when its window is over ({window} here)")
        if self._wait != SEED_WINDOW:
            self._say(f"railgun stream edit {self.stream} --dupe-window {window}")
            self._rg.update_stream(self.stream, duplicate_window=self._wait)
        self._pause(self._wait)
        self._say(f"railgun pub --id 1 {self.subject}.new hello5")
        ack = self._rg.publish(f"{self.subject}.new", "hello5", msg_id="1")
        self._expect(not ack.duplicate and ack.sequence == 2, "the id can be used again")
        self._shown(f"stored as {ack.stream}#{ack.sequence}")

    def _conditions(self) -> None:
        self._title("Append only if nobody was faster")
        subject = f"{self.subject}.new"
        self._say(f"railgun pub {subject} paid --expect-last-subject-sequence 2")
        ack = self._rg.publish(subject, "paid", expected_last_subject_sequence=2)
        self._shown(f"stored as {ack.stream}#{ack.sequence}")
        self._say(f"railgun pub {subject} cancelled --expect-last-subject-sequence 2")
        try:
            self._rg.publish(subject, "cancelled", expected_last_subject_sequence=2)
        except WrongLastSequence as refusal:
            self._shown(f"refused: {refusal}")
        else:
            raise TourFailed("a conditional publish on an old sequence was stored")

    def _reading(self) -> None:
        self._title("Read the newest message of a subject")
        self._say(f"railgun stream get {self.stream} --last-for {self.subject}.new")
        message = self._rg.stream(self.stream).get_last(f"{self.subject}.new")
        self._expect(message.text == "paid", "the last message is the one that was stored")
        self._shown(f"{self.stream}#{message.sequence} on {message.subject}: {message.text}")

    def _limits(self) -> None:
        self._title("Limits: drop the old, or refuse the new")
        name = f"{self.stream}_RECENT"
        recent = self._rg.create_stream(name, subjects=[f"{name}.*"], max_msgs=3, metadata=MARK)
        self._say(f"railgun stream add {name} --subjects '{name}.*' --max-msgs 3")
        self._say(f"railgun pub {name}.a 'number {{{{Count}}}}' --count 5")
        for number in range(1, 6):
            self._rg.publish(f"{name}.a", f"number {number}")
        state = recent.info().state
        self._expect((state.messages, state.first_seq, state.last_seq) == (3, 3, 5), "the newest three stay")
        self._shown(f"Messages: {state.messages}, FirstSeq: {state.first_seq}, LastSeq: {state.last_seq}")
        self._say(f"railgun stream edit {name} --discard new")
        self._rg.update_stream(name, discard="new")
        try:
            self._rg.publish(f"{name}.a", "number 6")
        except StreamFull as refusal:
            self._shown(f"refused: {refusal}")
        else:
            raise TourFailed("a full stream that discards the new took a message")

    def _expiry(self) -> None:
        self._title("A message with a life time")
        name = f"{self.stream}_SESSIONS"
        sessions = self._rg.create_stream(name, subjects=[f"{name}.*"], allow_msg_ttl=True, metadata=MARK)
        self._say(f"railgun stream add {name} --subjects '{name}.*' --allow-msg-ttl")
        self._say(f"railgun pub {name}.a 'logged in' --ttl 1s")
        ack = self._rg.publish(f"{name}.a", "logged in", ttl=SHORT)
        self._shown(f"stored as {ack.stream}#{ack.sequence}: {sessions.get(ack.sequence).text}")
        deadline = time.monotonic() + SHORT.total_seconds() + _SLACK
        while True:
            self._pause(SHORT / 4, silently=True)
            try:
                sessions.get(ack.sequence)
            except MessageNotFound as gone:
                self._shown(f"a second later: {gone}")
                return
            self._expect(time.monotonic() < deadline, "a message is gone when its time is over")

    # -- around them

    def _choose_names(self) -> None:
        """The seed's names, unless this cluster uses them: then others of the same length, and so of the same bytes."""
        for name in ("ORDERS", *(f"TOUR_{letter}" for letter in "ABCDEFGH")):
            wanted = (name, f"{name}_RECENT", f"{name}_SESSIONS")
            if not any(self._rg.streams(subject=f"{one}.*") or self._exists(one) for one in wanted):
                self.stream = self.subject = name
                return
        raise TourFailed("the names of the tour are all taken: remove the streams TOUR_A to TOUR_H")

    def _exists(self, name: str) -> bool:
        try:
            self._rg.stream(name).info()
        except StreamNotFound:
            return False
        return True

    def _remove_own(self) -> None:
        for info in self._rg.streams():
            if (info.config.metadata or {}).get("railgun-tour") == MARK["railgun-tour"]:
                self._rg.delete_stream(info.config.name)

    def _title(self, text: str) -> None:
        self._step += 1
        self._out.print(f"\n[bold]{self._step}. {text}[/]")

    def _say(self, line: str) -> None:
        self._out.print(f"   [cyan]$ {line}[/]")

    def _shown(self, *lines: str) -> None:
        for line in lines:
            self._out.print(f"     {line}", markup=False)

    def _pause(self, wait: timedelta, *, silently: bool = False) -> None:
        if not silently:
            self._out.print(f"     [dim]… waiting {show_duration(wait)}[/]")
        time.sleep(wait.total_seconds() + (0.0 if silently else 0.05))

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            raise TourFailed(f"the tour did not show that {what}")


def run_tour(
    bootstrap: str,
    real_time: bool = False,
    prefix: str = DEFAULT_PREFIX,
    kafka: Mapping[str, Any] | None = None,
    timeout: float = 10.0,
) -> None:
    """Walk through the cluster at this address. Raises TourFailed, or what a step raised."""
    from railgun.client.facade import connect

    out = console()
    out.print(f"[bold]A short tour of railgun[/] at {bootstrap}")
    show_topic = None
    if not bootstrap.startswith("memory://"):
        show_topic = _topic_reader(out, bootstrap, prefix, kafka)
    with connect(bootstrap, prefix=prefix, timeout=timeout, kafka=kafka) as rg:
        Tour(rg, out, real_time).walk(show_topic)


def _topic_reader(
    out: Console, bootstrap: str, prefix: str, kafka: Mapping[str, Any] | None
) -> Callable[[str], None]:
    """Shows the first record of a stream's log as any Kafka consumer sees it."""

    def show(stream: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        from railgun.kafka.settings import KafkaSettings

        topic = Names(prefix).log(stream)
        consumer = Consumer(KafkaSettings(bootstrap, dict(kafka or {})).consumer())
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            record = consumer.poll(_SLACK)
        finally:
            consumer.close()
        if record is None or record.error() is not None:
            raise TourFailed(f"the topic {topic} could not be read")
        out.print(f"     topic {topic}, read with a plain consumer:", markup=False)
        out.print(f"       key     {(record.key() or b'').decode()}", markup=False)
        out.print(f"       value   {(record.value() or b'').decode()}", markup=False)
        headers: Any = record.headers() or []
        for name, value in headers:
            out.print(f"       header  {name}: {value.decode()}", markup=False)

    return show


@command
def tour(
    cluster: Cluster,
    real_time: Annotated[bool, typer.Option("--real-time", help="Wait as long as the story says.")] = False,
) -> None:
    """Show what railgun does, live; the streams that it makes are removed again."""
    run_tour(
        cluster.address,
        real_time=real_time,
        prefix=cluster.prefix,
        kafka=cluster.kafka_options(),
        timeout=cluster.timeout,
    )
