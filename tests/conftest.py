"""Fixtures for all tests. The ladder for a Kafka: a given address, else Docker, else the local broker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Which rules the tests show (`make rules`), one Spark for those that want it, and which process gets which file.
pytest_plugins = ["tests.rules.report", "tests.support.spark_session", "tests.support.sharing"]


settings.register_profile("railgun", deadline=None)  # a busy machine is not a defect
settings.load_profile("railgun")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--chaos",
        choices=["with", "without", "only"],
        default="with",
        help="tests that want the machine for themselves",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what ``--chaos`` does not ask for; a choice of marks (``-m``) remains possible beside it."""
    if config.option.chaos == "with":
        return
    wanted = config.option.chaos == "only"
    config.hook.pytest_deselected(items=[item for item in items if _is_alone(item) != wanted])
    items[:] = [item for item in items if _is_alone(item) == wanted]


def _is_alone(item: pytest.Item) -> bool:
    """Whether it is under chaos that wants the machine for itself."""
    mark = item.get_closest_marker("chaos")
    return mark is not None and bool(mark.kwargs.get("alone", True))


def pytest_configure() -> None:
    """A run in the background may begin with Ctrl-C ignored, which all commands that it starts would inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
        broker.kill()  # an orderly end would take care of hundreds of logs that nobody reads again
