"""A plain member of a consumer group, as a process that can be killed: ``python -m … bootstrap topic group seconds``."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer


def member(bootstrap: str, topic: str, group: str, session_seconds: float) -> Consumer:
    """Joins with the same session time-out that a worker has."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "session.timeout.ms": int(session_seconds * 1000),
            "heartbeat.interval.ms": int(session_seconds * 1000 / 3),
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    return consumer


if __name__ == "__main__":
    joined = member(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
    while True:
        joined.poll(0.5)
