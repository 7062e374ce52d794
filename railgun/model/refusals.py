"""Refusals as values: what the rules return instead of raising, with the exact numbers and texts of the API."""

from __future__ import annotations

from typing import NamedTuple


class Refusal(NamedTuple):
    """A decision against a request: nothing of it happened."""

    code: int
    err_code: int
    description: str

    def as_json(self) -> dict[str, object]:
        return {"code": self.code, "err_code": self.err_code, "description": self.description}


BAD_REQUEST = Refusal(400, 10003, "bad request")
BODY_NOT_EMPTY = Refusal(400, 10038, "expected an empty request payload")
NO_MESSAGE_FOUND = Refusal(404, 10037, "no message found")
MESSAGE_TOO_LARGE = Refusal(400, 10054, "message size exceeds maximum allowed")
STREAM_MISMATCH = Refusal(400, 10056, "stream name in subject does not match request")
STREAM_NAME_TAKEN = Refusal(400, 10058, "stream name already in use with a different configuration")
STREAM_NOT_FOUND = Refusal(404, 10059, "stream not found")
EXPECTED_STREAM_MISMATCH = Refusal(400, 10060, "expected stream does not match")
SUBJECTS_OVERLAP = Refusal(400, 10065, "subjects overlap with an existing stream")
REPLICAS_UNSUPPORTED = Refusal(500, 10074, "replicas > 1 not supported in non-clustered mode")
HEADER_TOO_LARGE = Refusal(400, 10097, "header size exceeds maximum allowed of 64k")
SEALED = Refusal(400, 10109, "invalid operation on sealed stream")
MAX_BYTES_REQUIRED = Refusal(400, 10113, "account requires a stream config to have max bytes set")
MAX_BYTES_EXCEEDED = Refusal(400, 10122, "stream max bytes exceeds account limit max stream bytes")
NAME_HAS_PATH = Refusal(400, 10128, "Stream name can not contain path separators")
REPLICAS_NEGATIVE = Refusal(400, 10133, "replicas count cannot be negative")
INVALID_TTL = Refusal(400, 10165, "invalid per-message TTL")
TTL_DISABLED = Refusal(400, 10166, "per-message TTL is disabled")
TOO_MANY_REQUESTS = Refusal(429, 10167, "too many requests")
API_LEVEL = Refusal(412, 10185, "JetStream minimum api level required")
MISSING_SUBJECT_SEQUENCE = Refusal(400, 10193, "missing sequence for expected last sequence per subject")
SOURCE_HEADER = Refusal(400, 10227, "message stream source header is not allowed")
UPSTREAM_ANEW = Refusal(410, 10059, "stream was deleted and created anew")
LEASE_LOST = Refusal(
    503, 10023, "insufficient resources: messages on their way were rejected, and are asked for again"
)
OUT_OF_STORAGE = Refusal(503, 10023, "insufficient resources")
ACCOUNT_LIMIT = Refusal(400, 10002, "resource limits exceeded for account")


def invalid_json(detail: str) -> Refusal:
    """10025: a body that is not JSON, or not what its call takes: a wrong type, an unknown field or value (C-41)."""
    return Refusal(400, 10025, f"invalid JSON: {detail}")


def invalid_config(reason: str) -> Refusal:
    """10052: the reason is the whole text."""
    return Refusal(500, 10052, reason)


_NOT_IN_NAMES = "can not contain '.', '*', '>', '\\', '/'"
BAD_STREAM_NAME = invalid_config(f"stream name is required and {_NOT_IN_NAMES}")


def bad_consumer_name(called: str) -> Refusal:
    """A consumer has a name that none can have; ``called``: which of its names it is."""
    return invalid_config(f"consumer {called} {_NOT_IN_NAMES}")


def sequence_not_found(sequence: int) -> Refusal:
    return Refusal(400, 10043, f"sequence {sequence} not found")


def delete_refused(reason: str) -> Refusal:
    return Refusal(500, 10057, reason)


def purge_refused(reason: str) -> Refusal:
    return Refusal(500, 10110, reason)


def rollup_refused(reason: str) -> Refusal:
    return Refusal(500, 10111, reason)


def wrong_last_msg_id(actual: str) -> Refusal:
    return Refusal(400, 10070, f"wrong last msg ID: {actual}")


def wrong_last_sequence(actual: int) -> Refusal:
    return Refusal(400, 10071, f"wrong last sequence: {actual}")


def store_refused(reason: str) -> Refusal:
    """10077: ``maximum messages exceeded`` and its kin."""
    return Refusal(503, 10077, reason)


def transform_source_invalid(reason: str) -> Refusal:
    return Refusal(400, 10155, f"stream transform source: {reason}")


def transform_destination_invalid(reason: str) -> Refusal:
    return Refusal(400, 10156, f"stream transform: {reason}")


def pedantic(reason: str) -> Refusal:
    return Refusal(400, 10157, f"pedantic mode: {reason}")


MIRROR_TOO_SMALL = Refusal(400, 10030, "stream mirror must have max message size >= source")
MIRROR_WITH_SOURCES = Refusal(400, 10031, "stream mirrors can not also contain other sources")
MIRROR_WITH_SUBJECTS = Refusal(400, 10034, "stream mirrors can not contain subjects")
SOURCE_TOO_LARGE = Refusal(400, 10046, "stream source must have max message size >= target")
MIRROR_FIXED = Refusal(400, 10055, "stream mirror configuration can not be updated")
SOURCE_TWICE = Refusal(400, 10140, "duplicate source configuration detected")
SOURCE_NAME_INVALID = Refusal(400, 10141, "sourced stream name is invalid")
MIRROR_NAME_INVALID = Refusal(400, 10142, "mirrored stream name is invalid")
MIRROR_WITH_FIRST_SEQUENCE = Refusal(400, 10143, "stream mirrors can not have first sequence configured")
SOURCE_FILTERED_TWICE = Refusal(
    400, 10144, "source with multiple subject transforms cannot also have a single subject filter"
)
SOURCE_FILTERS_OVERLAP = Refusal(400, 10147, "source filters can not overlap")
MIRROR_FILTERED_TWICE = Refusal(
    400, 10150, "mirror with multiple subject transforms cannot also have a single subject filter"
)
MIRROR_FILTERS_OVERLAP = Refusal(400, 10152, "mirror subject filters can not overlap")
MIRROR_WITH_SCHEDULES = Refusal(400, 10186, "stream mirrors can not also schedule messages")
SOURCE_WITH_SCHEDULES = Refusal(400, 10187, "stream source can not also schedule messages")
CYCLE = invalid_config("detected cycle")


def source_filter_invalid(called: str, subject: str) -> Refusal:
    """10049: the filter of a mirror or a source; ``called``: which of the two."""
    colon = "" if called == "mirror" else ":"  # nats-server has none there
    return Refusal(500, 10049, f"subject filter '{subject}' for the {called}{colon} invalid subject")


def source_transform_source_invalid(called: str, reason: str) -> Refusal:
    """The source of a transform cannot be read; ``called``: whether it is of a mirror or of a source."""
    return Refusal(400, 10151 if called == "mirror" else 10145, f"{called} transform source: {reason}")


def source_transform_invalid(called: str, reason: str) -> Refusal:
    """The destination of a transform does not fit; ``called``: whether it is of a mirror or of a source."""
    return Refusal(400, 10154 if called == "mirror" else 10146, f"{called} transform: {reason}")


NO_STREAM = Refusal(503, 0, "no stream captures the subject")


def unavailable(reason: str) -> Refusal:
    """The stream cannot take anything now; nothing was stored, and the reason says what to mend."""
    return Refusal(503, 10023, f"insufficient resources: {reason}")


def topic_trouble(reason: str) -> Refusal:
    """Something is wrong with a topic that a stream adopts; the reason is the whole text."""
    return Refusal(503, 10023, reason)


def answer_too_large(size: int) -> Refusal:
    """The answer does not fit into a record of Kafka."""
    return Refusal(413, 10054, f"the answer of {size} bytes is too large to be sent: ask for less at once")


COUNTERS_DISABLED = Refusal(400, 10168, "message counters is disabled")
INCREMENT_MISSING = Refusal(400, 10169, "message counter increment is missing")
INCREMENT_WITH_PAYLOAD = Refusal(400, 10170, "message counter has payload")
INCREMENT_INVALID = Refusal(400, 10171, "message counter increment is invalid")
COUNTER_BROKEN = Refusal(400, 10172, "message counter is broken")
MIRROR_WITH_COUNTERS = Refusal(400, 10173, "stream mirrors can not also calculate counters")
WRONG_LAST_IN_BATCH = Refusal(400, 10164, "wrong last sequence")
BATCHES_DISABLED = Refusal(400, 10174, "atomic publish is disabled")
BATCH_SEQUENCE_MISSING = Refusal(400, 10175, "atomic publish sequence is missing")
BATCH_INCOMPLETE = Refusal(400, 10176, "atomic publish batch is incomplete")
BATCH_ID_INVALID = Refusal(400, 10179, "atomic publish batch ID is invalid")
BATCH_ON_MIRROR = Refusal(400, 10198, "stream mirrors can not also use atomic publishing")
BATCH_COMMIT_INVALID = Refusal(400, 10200, "atomic publish batch commit is invalid")
TOO_MANY_BATCHES = Refusal(429, 10210, "atomic publish too many inflight")


def batch_header_unsupported(header: str) -> Refusal:
    return Refusal(400, 10177, f"atomic publish unsupported header used: {header}")


def batch_too_large(limit: int | str) -> Refusal:
    """``limit``: messages; or bytes, with their unit."""
    return Refusal(400, 10199, f"atomic publish batch is too large: {limit}")


CONSUMER_NAME_IN_USE = Refusal(400, 10013, "consumer name already in use")
CONSUMER_NOT_FOUND = Refusal(404, 10014, "consumer not found")
TOO_MANY_CONSUMERS = Refusal(400, 10026, "maximum consumers limit reached")
DELIVER_SUBJECT_WILD = Refusal(400, 10079, "consumer deliver subject has wildcards")
PUSH_MAX_WAITING = Refusal(400, 10080, "consumer in push mode can not set max waiting")
DELIVER_SUBJECT_CYCLE = Refusal(400, 10081, "consumer deliver subject forms a cycle")
MAX_ACK_PENDING_NEEDS_ACKS = Refusal(400, 10082, "consumer requires ack policy for max ack pending")
HEARTBEAT_TOO_SHORT = Refusal(400, 10083, "consumer idle heartbeat needs to be >= 100ms")
PULL_NEEDS_EXPLICIT_ACK = Refusal(
    400, 10084, "consumer in pull mode requires explicit ack policy on workqueue stream"
)
PULL_RATE_LIMIT = Refusal(400, 10086, "consumer in pull mode can not have rate limit set")
PULL_HEARTBEAT = Refusal(400, 10088, "consumer idle heartbeat requires a push based consumer")
PULL_FLOW_CONTROL = Refusal(400, 10089, "consumer flow control requires a push based consumer")
QUEUE_NEEDS_EXPLICIT_ACK = Refusal(400, 10098, "workqueue stream requires explicit ack")
QUEUE_NEEDS_FILTERS = Refusal(400, 10099, "multiple non-filtered consumers not allowed on workqueue stream")
QUEUE_FILTER_TAKEN = Refusal(400, 10100, "filtered consumer not unique on workqueue stream")
QUEUE_NEEDS_DELIVER_ALL = Refusal(400, 10101, "consumer must be deliver all on workqueue stream")
FLOW_CONTROL_NEEDS_HEARTBEAT = Refusal(400, 10108, "consumer with flow control also needs heartbeats")
DELIVER_SUBJECT_INVALID = Refusal(400, 10112, "invalid push consumer deliver subject")
MAX_EXPIRES_TOO_SHORT = Refusal(400, 10115, "consumer max request expires needs to be >= 1ms")
TOO_MANY_BACKOFFS = Refusal(400, 10116, "max deliver is required to be > length of backoff values")
CONSUMER_NAME_HAS_PATH = Refusal(400, 10127, "Consumer name can not contain path separators")
CONSUMER_NAMES_DIFFER = Refusal(400, 10132, "Consumer Durable and Name have to be equal if both are provided")
CONSUMER_REPLICAS_DIFFER = Refusal(
    400, 10134, "consumer config replicas must match interest retention stream's replicas"
)
TWO_KINDS_OF_FILTERS = Refusal(
    400, 10136, "consumer cannot have both FilterSubject and FilterSubjects specified"
)
FILTERS_OVERLAP = Refusal(400, 10138, "consumer subject filters cannot overlap")
FILTER_EMPTY = Refusal(400, 10139, "consumer filter in FilterSubjects cannot be empty")
CONSUMER_EXISTS = Refusal(400, 10148, "consumer already exists")
CONSUMER_DOES_NOT_EXIST = Refusal(400, 10149, "consumer does not exist")
ACK_POLICY_INVALID = Refusal(400, 10181, "consumer ack policy invalid")
REPLAY_POLICY_INVALID = Refusal(400, 10182, "consumer replay policy invalid")
ACK_WAIT_NEGATIVE = Refusal(400, 10183, "consumer ack wait needs to be positive")
BACKOFF_NEGATIVE = Refusal(400, 10184, "consumer backoff needs to be positive")

# railgun's own: numbers from 20001 on are not JetStream's.
NOT_PENDING = Refusal(409, 20001, "the message is not pending at this delivery")


def hand_over_refused(reason: str) -> Refusal:
    """10003: a hand-over that no state of the message could allow."""
    return Refusal(400, 10003, f"bad request: {reason}")


def consumer_refused(reason: str) -> Refusal:
    """10012: what of a consumer can not be changed."""
    return Refusal(500, 10012, reason)


def consumers_violated(names: list[str]) -> Refusal:
    """10069: a stream's limits for consumers against those that it has."""
    return Refusal(500, 10069, f"change to limits violates consumers: {', '.join(names)}")


def start_invalid(reason: str) -> Refusal:
    """10094: the deliver policy and its options."""
    return Refusal(400, 10094, reason)


def sampling_invalid(reason: str) -> Refusal:
    return Refusal(400, 10095, f"failed to parse consumer sampling configuration: {reason}")


def consumer_name_too_long(longest: int) -> Refusal:
    return Refusal(400, 10102, f"consumer name is too long, maximum allowed is {longest}")


def consumer_description_too_long(longest: int) -> Refusal:
    return Refusal(400, 10107, f"consumer description is too long, maximum allowed is {longest}")


def max_ack_pending_exceeded(limit: int) -> Refusal:
    return Refusal(400, 10121, f"consumer max ack pending exceeds system limit of {limit}")


def consumer_metadata_too_large(limit: int) -> Refusal:
    return Refusal(400, 10135, f"consumer metadata exceeds maximum size of {limit // 1024}KB")


def inactive_threshold_exceeded(limit: str) -> Refusal:
    return Refusal(400, 10153, f"consumer inactive threshold exceeds system limit of {limit}")
