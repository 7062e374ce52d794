"""railgun: subjects, acknowledgement, de-duplication and conditional appends on ordinary Kafka topics.

``connect`` and ``connect_async`` open a facade; the other names are what it takes and gives. ``railgun.app`` is the Faust
application of a worker, made when it is first asked for: ``faust -A railgun worker``. Importing railgun loads neither
Faust nor the packages of a worker.
"""

from __future__ import annotations

from typing import Any

from railgun import avro, codecs
from railgun.client.facade.aio.advisories import AsyncAdvisories
from railgun.client.facade.aio.batch import AsyncBatch
from railgun.client.facade.aio.buckets.bucket import AsyncBucket
from railgun.client.facade.aio.buckets.bucket_transaction import AsyncBucketTransaction
from railgun.client.facade.aio.buckets.cached_bucket import AsyncCachedBucket
from railgun.client.facade.aio.buckets.replica import AsyncReplica
from railgun.client.facade.aio.buckets.watch import AsyncWatch
from railgun.client.facade.aio.consumer import AsyncConsumer
from railgun.client.facade.aio.counter import AsyncCounter
from railgun.client.facade.aio.listener import AsyncListener
from railgun.client.facade.aio.message import AsyncMessage
from railgun.client.facade.aio.messages import AsyncMessages
from railgun.client.facade.aio.ordered import AsyncOrderedConsumer
from railgun.client.facade.aio.stream import AsyncStream
from railgun.client.facade.aio.stream_read import AsyncStreamRead
from railgun.client.facade.aio.transaction import AsyncTransaction
from railgun.client.facade.async_railgun import AsyncRailgun, connect_async
from railgun.client.facade.handlers import Reject
from railgun.client.facade.railgun import Railgun, connect
from railgun.client.facade.subscription import AsyncSubscription, Subscription
from railgun.client.facade.sync.advisories import Advisories
from railgun.client.facade.sync.batch import Batch
from railgun.client.facade.sync.buckets.bucket import Bucket
from railgun.client.facade.sync.buckets.bucket_transaction import BucketTransaction
from railgun.client.facade.sync.buckets.cached_bucket import CachedBucket
from railgun.client.facade.sync.buckets.replica import Replica
from railgun.client.facade.sync.buckets.watch import Watch
from railgun.client.facade.sync.consumer import Consumer
from railgun.client.facade.sync.counter import Counter
from railgun.client.facade.sync.listener import Listener
from railgun.client.facade.sync.message import Message
from railgun.client.facade.sync.messages import Messages
from railgun.client.facade.sync.ordered import OrderedConsumer
from railgun.client.facade.sync.stream import Stream
from railgun.client.facade.sync.stream_read import StreamRead
from railgun.client.facade.sync.transaction import Transaction
from railgun.client.operations.advisory_queue import Advisory
from railgun.client.publishing.packs import PublishFuture
from railgun.errors import (
    AlreadyAcknowledged,
    ApiError,
    BadBucket,
    BadRequest,
    BatchRefused,
    BucketNotFound,
    ConfigError,
    ConnectionClosed,
    ConnectionLost,
    ConsumerBound,
    ConsumerExists,
    ConsumerNotFound,
    CounterRefused,
    EmbeddedBrokerError,
    EventError,
    ExpectedStreamMismatch,
    InvalidBucketName,
    InvalidConsumerConfig,
    InvalidKey,
    InvalidStreamConfig,
    KeyExists,
    KeyHistoryTooLarge,
    KeyNotFound,
    KeyWrongLastSequence,
    MessageNotFound,
    MessageRefused,
    MessageTooLarge,
    NoStreamResponse,
    NotAuthorized,
    NotPending,
    NotPermitted,
    NoWorker,
    Overloaded,
    RailgunError,
    RequestTimeout,
    StreamFull,
    StreamNameTaken,
    StreamNotFound,
    StreamSealed,
    SubjectsOverlap,
    TooManyWaiting,
    WrongLastMessageId,
    WrongLastSequence,
)
from railgun.model.bucket_config import BucketConfig, BucketStatus
from railgun.model.bucket_entry import Entry
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.consumer_info import ConsumerInfo, SequencePair
from railgun.model.counters import Increment
from railgun.model.messages import PubAck, Reply, StoredMessage, StreamInfo, StreamState
from railgun.model.source_info import StreamSourceInfo
from railgun.model.stream_config import Republish, StreamConfig, StreamSource, SubjectTransform, TopicSource
from railgun.model.topics.topic_info import TopicPartitionInfo, TopicSourceInfo

__version__ = "0.1.0"

__all__ = [
    # the facade
    "connect",
    "connect_async",
    "Railgun",
    "AsyncRailgun",
    "Stream",
    "AsyncStream",
    "Consumer",
    "AsyncConsumer",
    "Messages",
    "AsyncMessages",
    "Message",
    "AsyncMessage",
    "Subscription",
    "AsyncSubscription",
    "StreamRead",
    "AsyncStreamRead",
    "OrderedConsumer",
    "AsyncOrderedConsumer",
    "Listener",
    "AsyncListener",
    "Counter",
    "AsyncCounter",
    "Advisories",
    "AsyncAdvisories",
    "Batch",
    "AsyncBatch",
    "Transaction",
    "AsyncTransaction",
    "Bucket",
    "AsyncBucket",
    "Watch",
    "AsyncWatch",
    "BucketTransaction",
    "AsyncBucketTransaction",
    "CachedBucket",
    "AsyncCachedBucket",
    "Replica",
    "AsyncReplica",
    "PublishFuture",
    "Reject",
    # what it takes and gives
    "StreamConfig",
    "StreamSource",
    "TopicSource",
    "SubjectTransform",
    "Republish",
    "BucketConfig",
    "BucketStatus",
    "Entry",
    "ConsumerConfig",
    "ConsumerInfo",
    "SequencePair",
    "Advisory",
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
    # errors
    "RailgunError",
    "AlreadyAcknowledged",
    "ApiError",
    "BadBucket",
    "BadRequest",
    "BatchRefused",
    "BucketNotFound",
    "ConfigError",
    "ConnectionClosed",
    "ConnectionLost",
    "ConsumerBound",
    "ConsumerExists",
    "ConsumerNotFound",
    "CounterRefused",
    "EmbeddedBrokerError",
    "EventError",
    "ExpectedStreamMismatch",
    "InvalidBucketName",
    "InvalidConsumerConfig",
    "InvalidKey",
    "InvalidStreamConfig",
    "KeyExists",
    "KeyHistoryTooLarge",
    "KeyNotFound",
    "KeyWrongLastSequence",
    "MessageNotFound",
    "MessageRefused",
    "MessageTooLarge",
    "NoStreamResponse",
    "NoWorker",
    "NotAuthorized",
    "NotPending",
    "NotPermitted",
    "Overloaded",
    "RequestTimeout",
    "StreamFull",
    "StreamNameTaken",
    "StreamNotFound",
    "StreamSealed",
    "SubjectsOverlap",
    "TooManyWaiting",
    "WrongLastMessageId",
    "WrongLastSequence",
]


def __getattr__(name: str) -> Any:
    """``railgun.app``: made once, on demand, because it needs the packages of a worker (PEP 562)."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from railgun.worker.faust_app import create_app

    app = create_app()
    globals()["app"] = app
    return app
