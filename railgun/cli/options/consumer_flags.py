"""The flags of ``railgun consumer add`` and ``edit``, and what they say about a configuration."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

import typer

from railgun.cli.options import units
from railgun.cli.options.completion import known_streams
from railgun.cli.options.flags import DURATION, SIZE, ConfigFile, Metadata, given_fields, listed, parser
from railgun.errors import ConfigError
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.durations import LONGEST, from_nanos, parse_rfc3339, rfc3339, to_nanos

_POLICIES: Final = {
    "all": "all",
    "last": "last",
    "new": "new",
    "last-per-subject": "last_per_subject",
    "last_per_subject": "last_per_subject",
    "subject": "last_per_subject",  # what the `nats` command calls it
}


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a consumer: a policy, with the sequence or the time that it needs."""

    policy: str
    sequence: int | None = None
    time: int | None = None  # ns
    ago: timedelta | None = None

    def given(self) -> dict[str, Any]:
        """The fields of the configuration; a span counts from this moment."""
        fields: dict[str, Any] = {"deliver_policy": self.policy}
        if self.sequence is not None:
            fields["opt_start_seq"] = self.sequence
        if self.time is not None:
            fields["opt_start_time"] = rfc3339(self.time)
        if self.ago is not None:
            fields["opt_start_time"] = rfc3339(time.time_ns() - to_nanos(self.ago))
        return fields


def start(text: str) -> Start:
    """``all``, ``last``, ``new``, ``last-per-subject``, a sequence, a span such as ``2m``, or a time. Raises ValueError."""
    if text.lower() in _POLICIES:
        return Start(_POLICIES[text.lower()])
    if re.fullmatch(r"\d+", text):
        if int(text) < 1:
            raise ValueError(f"{text!r} is not a valid start: sequences begin at 1")
        return Start("by_start_sequence", sequence=int(text))
    try:
        if re.match(r"\d{4}-\d\d-\d\d", text):
            return Start("by_start_time", time=parse_rfc3339(text))
        ago = units.duration(text)
        if not timedelta(0) < ago <= _LONGEST_AGO:
            raise ValueError
        return Start("by_start_time", ago=ago)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a valid start: use all, last, new, last-per-subject, a sequence (10), how long ago (2m) "
            "or a time (2026-01-31T12:00:00Z)"
        ) from None


def _sample(text: str) -> str:
    if not re.fullmatch(r"\d+%?", text.strip()):
        raise ValueError(
            f"{text!r} is not a valid share of acknowledgements: use a number such as 80 or 100%"
        )
    return text.strip()


_LONGEST_AGO: Final = from_nanos(LONGEST)  # before there was any message; Python has no dates further back
START: Final = parser(start)


@dataclass(frozen=True)
class ConsumerFlags:
    """Flags for the configuration of a consumer; None: the flag was not given."""

    filter: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", metavar="SUBJECT", help="Only these subjects; repeatable, or with commas; '': all."
        ),
    ] = None
    deliver: Annotated[
        Start | None,
        typer.Option(
            parser=START,
            metavar="START",
            help="Where it begins: all, last, new, last-per-subject, a sequence, how long ago (2m), or a time.",
        ),
    ] = None
    ack: Annotated[
        Literal["explicit", "none", "all"] | None, typer.Option(help="How messages are acknowledged.")
    ] = None
    pull: Annotated[
        bool | None, typer.Option("--pull", help="Messages wait until they are asked for; the usual way.")
    ] = None
    target: Annotated[
        str | None,
        typer.Option(metavar="SUBJECT", help="Push: messages go to the listeners on this subject."),
    ] = None
    deliver_group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Push: each message goes to one member of this group.")
    ] = None
    replay: Annotated[
        Literal["instant", "original"] | None,
        typer.Option(help="At once, or with the gaps in which messages came (push)."),
    ] = None
    wait: Annotated[
        timedelta | None,
        typer.Option(
            parser=DURATION,
            metavar="DURATION",
            help="Redeliver messages that are not acknowledged after this time.",
        ),
    ] = None
    backoff: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DURATIONS", help="Waits before each redelivery in turn: 1s,5s,30s; none: no waits."
        ),
    ] = None
    max_deliver: Annotated[
        int | None, typer.Option(help="How often a message is delivered at most; -1: no limit.")
    ] = None
    max_pending: Annotated[
        int | None, typer.Option(help="How many deliveries may wait for their acknowledgement.")
    ] = None
    max_pending_per_subject: Annotated[
        int | None, typer.Option(help="The same for each subject; 1: its messages come strictly in turn.")
    ] = None
    dead_letter: Annotated[
        str | None,
        typer.Option(
            metavar="STREAM",
            help="Gets messages that run out of deliveries or are terminated; created if missing.",
            autocompletion=known_streams,
        ),
    ] = None
    sample: Annotated[
        str | None,
        typer.Option(
            parser=parser(_sample), metavar="PERCENT", help="Share of acknowledgements reported as events."
        ),
    ] = None
    heartbeat: Annotated[
        timedelta | None,
        typer.Option(
            parser=DURATION, metavar="DURATION", help="Push: send a heartbeat when idle for this long."
        ),
    ] = None
    flow_control: Annotated[
        bool | None, typer.Option("--flow-control", help="Push: wait for slow listeners.")
    ] = None
    rate_limit: Annotated[int | None, typer.Option(metavar="BITS", help="Push: bits a second at most.")] = (
        None
    )
    headers_only: Annotated[
        bool | None, typer.Option("--headers-only/--no-headers-only", help="Deliver without the bodies.")
    ] = None
    max_waiting: Annotated[int | None, typer.Option(help="How many pulls may wait.")] = None
    max_pull_batch: Annotated[int | None, typer.Option(help="How many messages a pull may ask for.")] = None
    max_pull_expires: Annotated[
        timedelta | None,
        typer.Option(parser=DURATION, metavar="DURATION", help="How long a pull may wait."),
    ] = None
    max_pull_bytes: Annotated[
        int | None, typer.Option(parser=SIZE, metavar="SIZE", help="How many bytes a pull may ask for.")
    ] = None
    inactive_threshold: Annotated[
        timedelta | None,
        typer.Option(
            parser=DURATION, metavar="DURATION", help="Remove the consumer when unused for this long."
        ),
    ] = None
    description: Annotated[str | None, typer.Option(help="What the consumer is for.")] = None
    replicas: Annotated[int | None, typer.Option(help="Copies of its state; 0: as the stream.")] = None
    metadata: Metadata = None
    config: ConfigFile = None

    def given(self) -> dict[str, Any]:
        """The fields of a ConsumerConfig that were given; the file's first, then the flags'. Raises ConfigError."""
        result = given_fields(self, ConsumerConfig, "consumer", special=_SPECIAL, field_of=_FIELD_OF)
        if self.filter is not None:
            wanted = listed(self.filter)
            result["filter_subject"] = wanted[0] if len(wanted) == 1 else None
            result["filter_subjects"] = wanted if len(wanted) > 1 else None
        if self.deliver is not None:
            result |= {"opt_start_seq": None, "opt_start_time": None, **self.deliver.given()}
        if self.pull:
            if self.target is not None:
                raise ConfigError("give --pull or --target, not both")
            result["deliver_subject"] = None
        if self.backoff is not None:
            result["backoff"] = _waits(self.backoff)
        return result


_SPECIAL: Final = ("filter", "deliver", "pull", "backoff")
_FIELD_OF: Final = {
    "ack": "ack_policy",
    "target": "deliver_subject",
    "replay": "replay_policy",
    "wait": "ack_wait",
    "max_pending": "max_ack_pending",
    "max_pending_per_subject": "max_ack_pending_per_subject",
    "sample": "sample_freq",
    "heartbeat": "idle_heartbeat",
    "rate_limit": "rate_limit_bps",
    "max_pull_batch": "max_batch",
    "max_pull_expires": "max_expires",
    "max_pull_bytes": "max_bytes",
    "replicas": "num_replicas",
}


def _waits(given: list[str]) -> list[timedelta] | None:
    wanted = listed(given)
    if wanted in ([], ["none"]):
        return None
    try:
        return [units.duration(one) for one in wanted]
    except ValueError as error:
        raise ConfigError(f"--backoff: {error}") from None
