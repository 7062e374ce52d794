"""What ``import railgun`` gives, and what it must not cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

import railgun
from railgun import errors
from tests.support.checkout import TOP


def test_the_public_names() -> None:
    both = {
        "Railgun",
        "Stream",
        "Consumer",
        "Messages",
        "Message",
        "Subscription",
        "StreamRead",
        "OrderedConsumer",
        "Listener",
        "Counter",
        "Advisories",
        "Batch",
        "Transaction",
        "Bucket",
        "Watch",
        "BucketTransaction",
        "CachedBucket",
        "Replica",
    }
    facade = (
        {"connect", "connect_async", "PublishFuture", "Reject"} | both | {f"Async{name}" for name in both}
    )
    values = {
        "BucketConfig",
        "BucketStatus",
        "Entry",
        "ConsumerConfig",
        "ConsumerInfo",
        "SequencePair",
        "Advisory",
        "StreamConfig",
        "StreamSource",
        "TopicSource",
        "SubjectTransform",
        "Republish",
        "PubAck",
        "Increment",
        "Reply",
        "StoredMessage",
        "StreamInfo",
        "StreamSourceInfo",
        "TopicSourceInfo",
        "TopicPartitionInfo",
        "StreamState",
        "codecs",
        "avro",
    }
    assert set(railgun.__all__) == facade | values | (set(errors.__all__) - {"api_error"})
    assert len(railgun.__all__) == len(set(railgun.__all__))
    for name in railgun.__all__:
        assert getattr(railgun, name) is not None


def test_the_facade_is_sync_and_async_under_the_same_names() -> None:
    def names(cls: type) -> set[str]:
        return {name for name in dir(cls) if not name.startswith("_")}

    for name in dir(railgun):
        if f"Async{name}" in railgun.__all__:
            assert names(getattr(railgun, name)) == names(getattr(railgun, f"Async{name}")), name


def test_importing_railgun_loads_nothing_of_a_worker() -> None:
    code = (
        "import sys, railgun\n"
        "print([name for name in ('faust', 'pyspark', 'rocksdict', 'aiokafka', 'confluent_kafka', 'railgun.worker')"
        " if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = railgun.nothing
