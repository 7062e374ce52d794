"""Fixtures for all tests. The ladder for a Kafka: a given address, else Docker, else the local broker."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

pytest_plugins = ["tests.rules.report"]  # which rules the tests show: `make rules`


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    """The address of a Kafka for this test session; topics of one test must not disturb another's.

    ``RAILGUN_TEST_KAFKA`` names a cluster that runs already.
    """
    given = os.environ.get("RAILGUN_TEST_KAFKA")
    if given:
        yield given
        return

    from tests.support.docker_kafka import ApacheKafkaContainer, docker_answers

    if docker_answers():
        with ApacheKafkaContainer() as container:
            yield container.bootstrap
        return

    from railgun.kafka.embedded import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker.bootstrap
