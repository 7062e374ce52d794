"""Every error that railgun raises, in one tree.

::

    RailgunError
    ├── ConfigError                 a setting, file or argument cannot be used as given
    │   ├── InvalidBucketName       a bucket cannot have this name
    │   ├── InvalidKey              a bucket cannot have this key, or the key is reserved (field ``key``)
    │   └── KeyHistoryTooLarge      a bucket keeps at most 64 values of a key
    ├── NotAuthorized               the cluster refused the credentials or the permission
    ├── ConnectionLost              no broker answers at the given address
    ├── NoWorker                    no live worker would answer; says how to start one
    ├── RequestTimeout              no answer in time (also a TimeoutError); the outcome is unknown
    ├── ConnectionClosed            the facade was closed before the call could end
    ├── MessageTooLarge             refused before sending: the record would not fit
    ├── TooManyWaiting              refused before sending: an async publisher is far ahead of the answers
    ├── NoStreamResponse            no stream captures the subject
    ├── AlreadyAcknowledged         the message was resolved before
    ├── ConsumerBound               another subscription has the push consumer
    ├── BadBucket                   the stream is not a bucket
    ├── KeyNotFound                 the bucket has no value of that key (also a KeyError)
    ├── EmbeddedBrokerError         the local broker cannot be started or kept running
    ├── EventError                  a typed event cannot be written or read; the tree is in railgun.avro
    └── ApiError                    a refusal by the stream's owner: code, err_code, description
        ├── BadRequest              10003, 10025, 10038
        ├── StreamNotFound          10059
        │   └── BucketNotFound      there is no such bucket (field ``bucket``)
        ├── StreamNameTaken         10058
        ├── SubjectsOverlap         10065
        ├── InvalidStreamConfig     10052, 10056, 10069, 10074, 10113, 10122, 10128, 10133, 10155 … 10157, 10173, 10198;
        │                           of mirrors and sources 10030, 10031, 10034, 10046, 10049, 10055, 10140 … 10154, 10186, 10187
        ├── ConsumerNotFound        10014, 10149
        ├── ConsumerExists          10013, 10148
        ├── InvalidConsumerConfig   10012, 10026, 10079 … 10139, 10153, 10181 … 10184; 10025, 10052 and 10133 of a consumer
        ├── MessageNotFound         10037, 10043
        ├── WrongLastSequence       10071, 10164 (field ``actual``)
        │   ├── KeyExists           of ``create`` (field ``key``)
        │   └── KeyWrongLastSequence    of a write to a bucket that expects a revision (field ``key``)
        ├── WrongLastMessageId      10070 (field ``actual``)
        ├── ExpectedStreamMismatch  10060
        ├── StreamFull              10077
        ├── MessageRefused          10054, 10097, 10111, 10165, 10166, 10193, 10227
        ├── CounterRefused          10168 … 10172
        ├── BatchRefused            10174 … 10177, 10179, 10199, 10200
        ├── StreamSealed            10109
        ├── NotPermitted            10057, 10110
        ├── NotPending              20001
        └── Overloaded              10002, 10023, 10167, 10210
"""

from __future__ import annotations

import re

START_A_WORKER = "start one with `railgun worker` or `faust -A railgun worker`"

__all__ = [
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
    "RailgunError",
    "RequestTimeout",
    "StreamFull",
    "StreamNameTaken",
    "StreamNotFound",
    "StreamSealed",
    "SubjectsOverlap",
    "TooManyWaiting",
    "WrongLastMessageId",
    "WrongLastSequence",
    "api_error",
]


class RailgunError(Exception):
    """The root: ``except RailgunError`` catches everything that railgun raises on purpose."""


class ConfigError(RailgunError):
    """A setting, a file or an argument cannot be used as given; nothing was sent."""


class InvalidBucketName(ConfigError):
    """A bucket cannot have this name; nothing was sent (KV-01)."""

    def __init__(self, bucket: object) -> None:
        self.bucket = bucket
        super().__init__(f"{bucket!r} is not a valid name of a bucket: use letters, digits, - and _")


class InvalidKey(ConfigError):
    """A bucket cannot have this key, or it is reserved; nothing was sent (KV-02 … KV-04)."""

    def __init__(self, key: object, why: str) -> None:
        self.key = key
        super().__init__(f"{key!r} is not a valid key: {why}")


class KeyHistoryTooLarge(ConfigError):
    """A bucket keeps at most 64 values of a key; nothing was sent (KV-07)."""

    def __init__(self, history: int, most: int) -> None:
        self.history = history
        super().__init__(
            f"{history} is not a valid history of a bucket: it keeps at most {most} values of a key"
        )


class NotAuthorized(RailgunError):
    """Kafka refused the credentials or the permission; the text names what is missing."""


class ConnectionLost(RailgunError):
    """No broker answers at the given address."""


class NoWorker(RailgunError):
    """No live worker owns the stream, so nobody would answer; the text says how to start one."""


class RequestTimeout(RailgunError, TimeoutError):
    """No answer came in time. The command is stored and its outcome is unknown: retry with the same id."""


class ConnectionClosed(RailgunError):
    """The facade was closed; what was not answered by then has an unknown outcome."""


class MessageTooLarge(RailgunError, ValueError):
    """Refused before anything was sent: the record would not fit into the transport."""


class TooManyWaiting(RailgunError):
    """Nothing was sent: ``publish_soon`` of an event loop is too far ahead of the answers. Await some, then go on."""


class NoStreamResponse(RailgunError):
    """No stream captures the subject; nothing was stored."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        super().__init__(f"no stream captures the subject {subject!r}")


class AlreadyAcknowledged(RailgunError):
    """This message object was acknowledged, given back or terminated before: nothing was sent."""


class ConsumerBound(RailgunError):
    """A client listens on the push consumer already, and it has no group to share its messages."""

    def __init__(self, consumer: str) -> None:
        self.consumer = consumer
        super().__init__(f"consumer is already bound to a subscription: {consumer}")


class BadBucket(RailgunError):
    """The stream is there and is not a bucket (KV-12)."""

    def __init__(self, bucket: str, stream: str, wanted: str | None = None) -> None:
        self.bucket = bucket
        self.stream = stream
        what = f"the bucket {bucket!r}" if wanted is None else wanted
        super().__init__(f"the stream {stream!r} is not {what}: open it with rg.stream()")


class KeyNotFound(RailgunError, KeyError):
    """The bucket has no value of this key: never put, deleted, expired; or not in this revision (KV-14, KV-15)."""

    def __init__(self, bucket: str, key: str, revision: int | None = None) -> None:
        self.bucket = bucket
        self.key = key
        self.revision = revision
        super().__init__(bucket, key, revision)

    def __str__(self) -> str:
        what = "value" if self.revision is None else f"revision {self.revision}"
        return f"the bucket {self.bucket!r} has no {what} of the key {self.key!r}"


class EmbeddedBrokerError(RailgunError):
    """The local broker cannot be started or kept running; the text is one sentence for the user."""


class EventError(RailgunError):
    """A typed event cannot be written or read; what is below it says why (:mod:`railgun.avro`)."""


class ApiError(RailgunError):
    """A refusal by the owner of the stream, with the numbers of the JetStream API."""

    def __init__(self, code: int, err_code: int, description: str, *, stream: str | None = None) -> None:
        self.code = code
        self.err_code = err_code
        self.description = description
        self.stream = stream
        super().__init__(description)

    def __str__(self) -> str:
        number = f"{self.err_code}/{self.code}" if self.err_code else str(self.code)
        return f"{self.description} ({number})"


class BadRequest(ApiError):
    """The request cannot be understood, or its fields exclude each other."""


class StreamNotFound(ApiError):
    """There is no stream of that name."""


class BucketNotFound(StreamNotFound):
    """There is no bucket of that name (KV-12)."""

    def __init__(self, bucket: str, *, stream: str | None = None) -> None:
        self.bucket = bucket
        super().__init__(404, 10059, f"bucket {bucket!r} not found", stream=stream)


class StreamNameTaken(ApiError):
    """A stream of that name exists with another configuration."""


class SubjectsOverlap(ApiError):
    """Another stream captures some of these subjects already."""


class InvalidStreamConfig(ApiError):
    """The configuration breaks a rule; the description says which."""


class ConsumerNotFound(ApiError):
    """The stream has no consumer of that name: never created, deleted, or idle for too long."""


class ConsumerExists(ApiError):
    """A consumer of that name exists with another configuration, or is in use."""


class InvalidConsumerConfig(ApiError):
    """The consumer's configuration breaks a rule or cannot be changed so; the description says which."""


class MessageNotFound(ApiError):
    """The stream holds no such message (never stored, deleted, or removed by a limit)."""


class WrongLastSequence(ApiError):
    """The stream or subject moved on since the caller read it: read again, then decide."""

    @property
    def actual(self) -> int | None:
        """The sequence that the owner found, or None where it did not say."""
        found = re.search(r"(\d+)$", self.description)
        return int(found[1]) if found else None


class _OfKey(WrongLastSequence):
    """A refused write to a key; ``key`` is None where the refusal of a transaction does not tell which."""

    def __init__(self, refused: ApiError, bucket: str, key: str | None) -> None:
        self.bucket = bucket
        self.key = key
        super().__init__(refused.code, refused.err_code, refused.description, stream=refused.stream)

    def __str__(self) -> str:
        of = "" if self.key is None else f" of the key {self.key!r}"
        return f"{super().__str__()}{of} in the bucket {self.bucket!r}"


class KeyExists(_OfKey):
    """The key has a value already: ``create`` stores nothing (KV-17)."""


class KeyWrongLastSequence(_OfKey):
    """The newest revision of the key is another than the caller expected: read again, then decide (KV-18, KV-24)."""


class WrongLastMessageId(ApiError):
    """The last stored message carries another id than the caller expected."""

    @property
    def actual(self) -> str:
        """The id of the last stored message; empty if it had none."""
        return self.description.removeprefix("wrong last msg ID:").strip()


class ExpectedStreamMismatch(ApiError):
    """The subject belongs to another stream than the caller expected."""


class StreamFull(ApiError):
    """Discard ``new``: the stream or subject is at its limit, nothing was stored."""


class MessageRefused(ApiError):
    """The message itself breaks a rule of its stream: size, headers, TTL, roll-up."""


class CounterRefused(ApiError):
    """The increment or the message does not fit its subject: no counters here, not a number, or a counter beside plain messages."""


class BatchRefused(ApiError):
    """The batch is refused as a whole: nothing of it is stored."""


class StreamSealed(ApiError):
    """The stream is sealed: it can be read, never changed."""


class NotPermitted(ApiError):
    """The stream's configuration forbids this delete or purge."""


class NotPending(ApiError):
    """The message is not this delivery's to resolve any more: resolved, delivered again, asked for again, or gone. Nothing was done."""


class Overloaded(ApiError):
    """The platform is out of storage or takes no more for now: slow down and retry."""


_CLASSES: dict[type[ApiError], tuple[int, ...]] = {
    BadRequest: (10003, 10025, 10038),
    StreamNotFound: (10059,),
    StreamNameTaken: (10058,),
    SubjectsOverlap: (10065,),
    InvalidStreamConfig: (
        *(10052, 10056, 10069, 10074, 10113, 10122, 10128, 10133, 10155, 10156, 10157, 10173, 10198),
        *(10030, 10031, 10034, 10046, 10049, 10055, 10140, 10141, 10142, 10143, 10144, 10145, 10146, 10147),
        *(10150, 10151, 10152, 10154, 10186, 10187),
    ),
    ConsumerNotFound: (10014, 10149),
    ConsumerExists: (10013, 10148),
    InvalidConsumerConfig: (
        *(10012, 10026, 10079, 10080, 10081, 10082, 10083, 10084, 10086, 10087, 10088, 10089, 10094, 10095),
        *(10098, 10099, 10100, 10101, 10102, 10107, 10108, 10112, 10114, 10115, 10116, 10121, 10127, 10132),
        *(10134, 10135, 10136, 10138, 10139, 10153, 10181, 10182, 10183, 10184),
    ),
    MessageNotFound: (10037, 10043),
    WrongLastSequence: (10071, 10164),
    WrongLastMessageId: (10070,),
    ExpectedStreamMismatch: (10060,),
    StreamFull: (10077,),
    MessageRefused: (10054, 10097, 10111, 10165, 10166, 10193, 10227),
    CounterRefused: (10168, 10169, 10170, 10171, 10172),
    BatchRefused: (10174, 10175, 10176, 10177, 10179, 10199, 10200),
    StreamSealed: (10109,),
    NotPermitted: (10057, 10110),
    NotPending: (20001,),
    Overloaded: (10002, 10023, 10167, 10210),
}
_OF_ANY_CONFIG = (10025, 10052, 10133)  # JetStream has one number for streams and consumers alike
_BY_NUMBER = {number: cls for cls, numbers in _CLASSES.items() for number in numbers}


def api_error(
    code: int, err_code: int, description: str, *, stream: str | None = None, of_consumer: bool = False
) -> ApiError:
    """The error for a refusal, of the most telling class that its number has for a stream or for a consumer."""
    found = _BY_NUMBER.get(err_code, ApiError)
    if of_consumer and err_code in _OF_ANY_CONFIG:
        found = InvalidConsumerConfig
    return found(code, err_code, description, stream=stream)
