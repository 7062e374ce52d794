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
OUT_OF_STORAGE = Refusal(503, 10023, "insufficient resources")
ACCOUNT_LIMIT = Refusal(400, 10002, "resource limits exceeded for account")


def invalid_config(reason: str) -> Refusal:
    """10052: the reason is the whole text."""
    return Refusal(500, 10052, reason)


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


NO_STREAM = Refusal(503, 0, "no stream captures the subject")


def unavailable(reason: str) -> Refusal:
    """The stream cannot take anything now; nothing was stored, and the reason says what to mend."""
    return Refusal(503, 10023, f"insufficient resources: {reason}")


COUNTERS_DISABLED = Refusal(400, 10168, "message counters is disabled")
BATCHES_DISABLED = Refusal(400, 10174, "atomic publish is disabled")
