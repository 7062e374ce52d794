"""The flags of ``railgun stream add`` and ``edit``, and what they say about a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

import typer

from railgun.cli.options.flags import DURATION, SIZE, ConfigFile, Metadata, given_fields, listed
from railgun.cli.options.source_flags import MOMENT, SEQUENCE, SOURCE, mirror_given, source
from railgun.cli.options.topic_flags import topics_given
from railgun.errors import ConfigError
from railgun.model.stream_config import ConsumerLimits, Republish, StreamConfig, StreamSource


@dataclass(frozen=True)
class StreamFlags:
    """Flags for the configuration of a stream; None: the flag was not given."""

    subjects: Annotated[
        list[str] | None,
        typer.Option(
            "--subjects", help="Subjects that the stream captures, `ORDERS.*`; repeatable, or with commas."
        ),
    ] = None
    description: Annotated[str | None, typer.Option(help="What the stream is for.")] = None
    dupe_window: Annotated[
        timedelta | None,
        typer.Option(parser=DURATION, metavar="DURATION", help="How long message ids are remembered (2m)."),
    ] = None
    max_msgs: Annotated[int | None, typer.Option(help="How many messages are kept; -1: no limit.")] = None
    max_bytes: Annotated[
        int | None,
        typer.Option(parser=SIZE, metavar="SIZE", help="How many bytes are kept (64MB); -1: no limit."),
    ] = None
    max_age: Annotated[
        timedelta | None,
        typer.Option(
            parser=DURATION, metavar="DURATION", help="How long messages are kept (7d); 0: no limit."
        ),
    ] = None
    max_msgs_per_subject: Annotated[
        int | None, typer.Option(help="How many messages of each subject are kept.")
    ] = None
    max_msg_size: Annotated[
        int | None, typer.Option(parser=SIZE, metavar="SIZE", help="How large a message may be.")
    ] = None
    max_consumers: Annotated[int | None, typer.Option(help="How many consumers the stream may have.")] = None
    discard: Annotated[
        Literal["old", "new"] | None, typer.Option(help="At a limit: drop the old, or refuse the new.")
    ] = None
    discard_per_subject: Annotated[
        bool | None,
        typer.Option("--discard-per-subject", help="Refuse the new for each subject, too."),
    ] = None
    retention: Annotated[
        Literal["limits", "interest", "workqueue"] | None, typer.Option(help="What removes messages.")
    ] = None
    storage: Annotated[Literal["file", "memory"] | None, typer.Option(help="Where messages are kept.")] = None
    replicas: Annotated[int | None, typer.Option(help="How many copies the brokers keep.")] = None
    ack: Annotated[bool | None, typer.Option("--ack/--no-ack", help="Whether publishers are answered.")] = (
        None
    )
    allow_direct: Annotated[
        bool | None,
        typer.Option("--allow-direct/--no-allow-direct", help="Keep bodies ready for direct gets."),
    ] = None
    allow_rollup: Annotated[
        bool | None, typer.Option("--allow-rollup/--no-allow-rollup", help="Allow the header Nats-Rollup.")
    ] = None
    allow_counter: Annotated[
        bool | None,
        typer.Option("--allow-counter/--no-allow-counter", help="Count: allow the header Nats-Incr."),
    ] = None
    allow_msg_ttl: Annotated[
        bool | None, typer.Option("--allow-msg-ttl", help="Allow the header Nats-TTL.")
    ] = None
    allow_atomic: Annotated[
        bool | None,
        typer.Option(
            "--allow-atomic/--no-allow-atomic",
            help="Allow batches of messages that are stored together or not at all.",
        ),
    ] = None
    subject_delete_marker_ttl: Annotated[
        timedelta | None,
        typer.Option(
            parser=DURATION, metavar="DURATION", help="How long a marker of a removed subject stays."
        ),
    ] = None
    deny_delete: Annotated[
        bool | None, typer.Option("--deny-delete", help="Forbid removing single messages.")
    ] = None
    deny_purge: Annotated[bool | None, typer.Option("--deny-purge", help="Forbid purges.")] = None
    sealed: Annotated[bool | None, typer.Option("--sealed", help="Close the stream for good (edit).")] = None
    first_seq: Annotated[int | None, typer.Option(help="The sequence of the first message (add).")] = None
    republish_source: Annotated[
        str | None, typer.Option(metavar="FILTER", help="Which messages are emitted again (all).")
    ] = None
    republish_destination: Annotated[
        str | None, typer.Option(metavar="SUBJECT", help="Emit stored messages again, on this subject.")
    ] = None
    republish_headers: Annotated[
        bool | None, typer.Option("--republish-headers", help="Emit their headers only.")
    ] = None
    mirror: Annotated[
        StreamSource | None,
        typer.Option(
            parser=SOURCE, metavar="STREAM", help="Be a copy of this stream, sequences and all (add)."
        ),
    ] = None
    mirror_filter: Annotated[
        str | None, typer.Option(metavar="FILTER", help="Which of its subjects are mirrored (all).")
    ] = None
    start_seq: Annotated[
        int | None,
        typer.Option(parser=SEQUENCE, metavar="SEQUENCE", help="The first sequence that is mirrored."),
    ] = None
    start_time: Annotated[
        str | None,
        typer.Option(
            parser=MOMENT,
            metavar="TIME",
            help="Mirror from this time on (2026-01-31T12:00:00Z, or 2h for 2h ago).",
        ),
    ] = None
    no_mirror: Annotated[
        bool | None,
        typer.Option(
            "--no-mirror", help="End mirroring: what is there stays, and subjects are captured (edit)."
        ),
    ] = None
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STREAM",
            help="Copy messages of this stream too; repeatable. With details: "
            "`'STREAM filter=SUBJECT start-seq=N start-time=TIME'`, or the API's object as JSON.",
        ),
    ] = None
    no_sources: Annotated[
        bool | None, typer.Option("--no-sources", help="Copy from no stream any more (edit).")
    ] = None
    from_topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC",
            help="Copy the records of this Kafka topic; repeatable, or the API's object as JSON.",
        ),
    ] = None
    subject_from: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE",
            help="Their subjects, of `{key}`, `{header:NAME}`, `{topic}`, `{partition}`, `{offset}` (`TOPIC.{key}`).",
        ),
    ] = None
    message_id_from: Annotated[
        str | None,
        typer.Option(metavar="TEMPLATE", help="Their message ids, as `{header:event-id}` (Nats-Msg-Id)."),
    ] = None
    from_topic_start: Annotated[
        str | None,
        typer.Option(
            metavar="START",
            help="Where copying begins: beginning, end, a time, or how long ago (beginning).",
        ),
    ] = None
    no_topics: Annotated[
        bool | None, typer.Option("--no-topics", help="Copy from no Kafka topic any more (edit).")
    ] = None
    limit_consumer_inactive: Annotated[
        timedelta | None,
        typer.Option(parser=DURATION, metavar="DURATION", help="How long its consumers may be unused."),
    ] = None
    limit_consumer_max_pending: Annotated[
        int | None, typer.Option(help="How many deliveries of a consumer may wait for their ack.")
    ] = None
    metadata: Metadata = None
    config: ConfigFile = None

    def given(self) -> dict[str, Any]:
        """The fields of a StreamConfig that were given; the file's first, then the flags'. Raises ConfigError."""
        result = given_fields(self, StreamConfig, "stream", special=_SPECIAL, field_of=_FIELD_OF)
        if self.subjects is not None:
            result["subjects"] = listed(self.subjects)
        if self.ack is not None:
            result["no_ack"] = not self.ack
        if self.republish_destination is not None:
            result["republish"] = Republish(
                src=self.republish_source or "",
                dest=self.republish_destination,
                headers_only=bool(self.republish_headers),
            )
        elif self.republish_source is not None or self.republish_headers is not None:
            raise ConfigError("say where to emit messages again: --republish-destination SUBJECT")
        result |= self._copied()
        if self.limit_consumer_inactive is not None or self.limit_consumer_max_pending is not None:
            result["consumer_limits"] = ConsumerLimits(
                inactive_threshold=self.limit_consumer_inactive,
                max_ack_pending=self.limit_consumer_max_pending,
            )
        return result

    def _copied(self) -> dict[str, Any]:
        """What the flags say about mirror, sources and topics. Raises ConfigError."""
        result: dict[str, Any] = {}
        mirror = mirror_given(self.mirror, self.mirror_filter, self.start_seq, self.start_time)
        if self.no_mirror and mirror is not None:
            raise ConfigError("give --mirror or --no-mirror, not both")
        if self.no_sources and self.source is not None:
            raise ConfigError("give --source or --no-sources, not both")
        if mirror is not None or self.no_mirror:
            result["mirror"] = mirror
        if self.no_sources:
            result["sources"] = None
        elif self.source is not None:
            try:
                result["sources"] = [source(text) for text in self.source]
            except ValueError as error:
                raise ConfigError(f"--source: {error}") from error
        topics = topics_given(self.from_topic, self.subject_from, self.message_id_from, self.from_topic_start)
        if self.no_topics and topics is not None:
            raise ConfigError("give --from-topic or --no-topics, not both")
        return result | {"topics": topics} if topics is not None or self.no_topics else result


_SPECIAL: Final = (
    "mirror",
    "mirror_filter",
    "start_seq",
    "start_time",
    "no_mirror",
    "source",
    "no_sources",
    "from_topic",
    "subject_from",
    "message_id_from",
    "from_topic_start",
    "no_topics",
    "subjects",
    "ack",
    "republish_source",
    "republish_destination",
    "republish_headers",
    "limit_consumer_inactive",
    "limit_consumer_max_pending",
)
_FIELD_OF: Final = {
    "dupe_window": "duplicate_window",
    "discard_per_subject": "discard_new_per_subject",
    "replicas": "num_replicas",
    "allow_rollup": "allow_rollup_hdrs",
    "allow_counter": "allow_msg_counter",
}
