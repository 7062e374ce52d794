"""Kafka in Docker for the tests, when an engine answers: apache/kafka, which testcontainers' own class does not know."""

from __future__ import annotations

import gc
import os
import time
import warnings
from typing import Any, Final

import docker
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from docker.errors import DockerException
from requests.exceptions import RequestException
from testcontainers.core.container import DockerContainer

IMAGE: Final = os.environ.get("RAILGUN_TEST_KAFKA_IMAGE", "apache/kafka:4.3.1")
_CLIENT_PORT: Final = 9092
_START_SCRIPT: Final = "/tmp/railgun-start.sh"


def docker_answers() -> bool:
    """Whether a Docker engine answers within two seconds."""
    with warnings.catch_warnings():
        # docker leaves its socket unclosed when no engine listens: collect it here, not in the middle of a test.
        warnings.simplefilter("ignore", ResourceWarning)
        answered = _ping()
        gc.collect()
    return answered


def _ping() -> bool:
    try:
        client = docker.from_env(timeout=2)
    except DockerException:
        return False
    try:
        return bool(client.ping())
    except (DockerException, RequestException):
        return False
    finally:
        client.close()


class ApacheKafkaContainer(DockerContainer):
    """One KRaft node. It waits for a script that tells the mapped port, which is known only after the start."""

    def __init__(self, image: str = IMAGE, **settings: Any) -> None:
        super().__init__(image, **settings)
        self.with_exposed_ports(_CLIENT_PORT)
        self.with_envs(
            KAFKA_NODE_ID="1",
            KAFKA_PROCESS_ROLES="broker,controller",
            KAFKA_CONTROLLER_QUORUM_VOTERS="1@localhost:9093",
            KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER",
            KAFKA_LISTENERS=f"HOST://:{_CLIENT_PORT},CONTROLLER://:9093,INSIDE://:29092",
            KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="HOST:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            KAFKA_INTER_BROKER_LISTENER_NAME="INSIDE",
            KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR="1",
            KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS="4",
            KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR="1",
            KAFKA_TRANSACTION_STATE_LOG_MIN_ISR="1",
            KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS="4",
            KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR="1",
            KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR="1",
            KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS="0",
            KAFKA_AUTO_CREATE_TOPICS_ENABLE="false",
            KAFKA_MESSAGE_MAX_BYTES="8388608",
            KAFKA_REPLICA_FETCH_MAX_BYTES="8388608",
        )
        self.with_kwargs(entrypoint=["sh", "-c"])
        self.with_command(
            [f"while [ ! -s {_START_SCRIPT} ]; do sleep 0.1; done; sleep 0.1; exec sh {_START_SCRIPT}"]
        )

    @property
    def bootstrap(self) -> str:
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(_CLIENT_PORT)}"

    def start(self) -> ApacheKafkaContainer:
        super().start()
        script = (
            f"export KAFKA_ADVERTISED_LISTENERS=HOST://{self.bootstrap},INSIDE://localhost:29092\n"
            "exec /etc/kafka/docker/run\n"
        )
        self.copy_into_container(script.encode(), _START_SCRIPT)
        self._await_metadata(timeout=60.0)
        return self

    def _await_metadata(self, timeout: float) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        deadline = time.monotonic() + timeout
        while True:
            try:
                admin.list_topics(timeout=2.0)
                return
            except KafkaException:
                if time.monotonic() > deadline:
                    self.stop()
                    raise
