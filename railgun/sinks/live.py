"""The stream that lives under a name, and the Kafka that holds its log, as a sink needs them."""

from __future__ import annotations

import logging
from typing import Final

from confluent_kafka.admin import AdminClient

from railgun.client.facade.railgun import Railgun
from railgun.client.transports.kafka.kafka_transport import KafkaTransport
from railgun.errors import ConfigError, StreamNotFound
from railgun.kafka.topic_admin import TopicError, Topics
from railgun.kafka.trouble import PERMISSION, librdkafka
from railgun.sinks.errors import SinkRefused
from railgun.sinks.jdbc_sink import JdbcSink
from railgun.sinks.stream_sink import StreamSink

logger = logging.getLogger(__name__)

_TIMEOUT: Final = 30.0


def transport_of(rg: Railgun) -> KafkaTransport:
    """The connection to Kafka. Raises ConfigError for ``memory://``, whose streams have no log that Connect could read."""
    transport = rg.connection.transport
    if not isinstance(transport, KafkaTransport):
        raise ConfigError("a cluster in memory is not a valid source of sinks: connect to a Kafka broker")
    return transport


def live_incarnation(rg: Railgun, stream: str) -> int | None:
    """The incarnation of the stream that lives; None if there is none."""
    rg.connection.sync_registry(_TIMEOUT)
    known = rg.connection.stream(stream)
    return None if known is None else known.incarnation


def incarnation_for(sink: StreamSink, rg: Railgun) -> int:
    """The incarnation that the sink is to read. Raises StreamNotFound; ConfigError where the sink cannot take what the log holds."""
    limit = rg.stream(sink.stream).info().config.max_msgs_per_subject
    if isinstance(sink, JdbcSink) and limit > 1:
        # Their keys are the subject, a zero byte and the sequence, which no database takes for text.
        raise ConfigError(
            f"the stream {sink.stream} keeps {limit} messages of a subject, so the keys in its log are not subjects: "
            f"make a mirror of it (`railgun stream add COPY --mirror {sink.stream}`) and sink that"
        )
    incarnation = live_incarnation(rg, sink.stream)
    if incarnation is None:  # deleted in this moment
        raise StreamNotFound(404, 10059, "stream not found", stream=sink.stream)
    return incarnation


def make_dead_letter_topic(sink: StreamSink, rg: Railgun) -> None:
    """Make the topic of the sink's dead letters, or let it take large ones. Raises ConfigError, SinkRefused.

    Connect would make it as the brokers' defaults are, and drop each letter above their limit (1 MB) with no more than a line in its log (seen). One that
    was named by the user is left as it is.
    """
    transport = transport_of(rg)
    topic = sink.dead_letter_topic(transport.names)
    topics = Topics(AdminClient(transport.settings.admin(), logger=librdkafka), sink.dead_letter_copies)
    try:
        topics.create_dead_letters(topic, change=not sink.dead_letters)
    except TopicError as error:
        if error.error.code() not in PERMISSION:
            raise SinkRefused(
                sink.name, f"the sink {sink.name} has no place for dead letters: {error}"
            ) from error
        logger.warning(
            "%s: Kafka Connect makes it, as the brokers' defaults are; dead letters above their message.max.bytes are lost",
            error,
        )
