"""Kafka's errors as railgun's, with the text that says what was refused and while doing what."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from railgun.errors import ConnectionLost, MessageTooLarge, NotAuthorized, RailgunError
from railgun.kafka.trouble import in_words


@pytest.mark.parametrize(
    "code, kind, text",
    [
        (KafkaError._AUTHENTICATION, NotAuthorized, "refused the credentials"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, NotAuthorized, "refused the credentials"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, NotAuthorized, "refused the permission while reading x"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, NotAuthorized, "refused the permission while reading x"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, NotAuthorized, "refused the permission while reading x"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NotAuthorized, "refused the permission while reading x"),
        (KafkaError.MSG_SIZE_TOO_LARGE, MessageTooLarge, "does not fit"),
        (KafkaError._ALL_BROKERS_DOWN, ConnectionLost, "failed while reading x"),
    ],
)  # fmt: skip
def test_an_error_of_kafka_is_one_of_ours(code: int, kind: type[RailgunError], text: str) -> None:
    for given in (KafkaError(code), KafkaException(KafkaError(code))):
        error = in_words(given, "reading x")
        assert type(error) is kind
        assert text in str(error)
