"""What the headers of a message ask for: conditions on the stream, its subject and its newest message.

An absent header is no condition, the value 0 is one; what is not a number never holds (PUB-16).
"""

from __future__ import annotations

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.headers import Headers
from railgun.model.refusals import Refusal
from railgun.model.subjects import Filter
from railgun.semantics.streams.ahead import Ahead
from railgun.semantics.streams.owned_stream import OwnedStream

_LONGEST_NUMBER = 20  # digits of 64 bits
_EMPTY_IS_ABSENT = frozenset(
    {
        h.EXPECTED_STREAM,
        h.EXPECTED_LAST_SEQUENCE,
        h.EXPECTED_LAST_SUBJECT_SEQUENCE,
        h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
        h.EXPECTED_LAST_MSG_ID,
        h.ROLLUP,
        h.TTL,
        h.STREAM_SOURCE,
        h.INCREMENT,
    }
)


def instructions(headers: Headers) -> dict[str, bytes]:
    """What the headers say, the first of each name: without leading spaces, and an empty value of some says nothing."""
    said = {name: value.lstrip(b" ") for name, value in reversed(headers)}
    return {name: value for name, value in said.items() if value or name not in _EMPTY_IS_ABSENT}


def check_headers(state: OwnedStream, given: dict[str, bytes]) -> Refusal | None:
    expected = given.get(h.EXPECTED_STREAM)
    if expected is not None and expected.decode("utf-8", "replace") != state.name:
        return refusals.EXPECTED_STREAM_MISMATCH  # PUB-07, BAT-36
    return None


def check_batched(given: dict[str, bytes]) -> Refusal | None:
    """What no message of a batch may carry (BAT-23)."""
    for unsupported in (h.EXPECTED_LAST_MSG_ID, h.MSG_ID):
        if given.get(unsupported):
            return refusals.batch_header_unsupported(unsupported)
    return None


def check_expectations(
    state: OwnedStream, subject: str, given: dict[str, bytes], ahead: Ahead | None = None
) -> Refusal | None:
    """The first condition that does not hold. Messages are decided one after the other, so of two with the same one wins (PUB-14).

    ``ahead``: the messages of the same batch before this one. The state is that before the batch (BAT-29).
    """
    if ahead is None:
        return (
            _check_subject_sequence(state, subject, given, None)
            or _check_last_sequence(state, given, None)
            or _check_source(given)
            or _check_last_id(state, given)
        )
    return (
        _check_source(given)
        or _check_last_sequence(state, given, ahead)
        or _check_subject_sequence(state, subject, given, ahead)
    )


def _check_subject_sequence(
    state: OwnedStream, subject: str, given: dict[str, bytes], ahead: Ahead | None
) -> Refusal | None:
    on_subject = given.get(h.EXPECTED_LAST_SUBJECT_SEQUENCE)
    pattern = given.get(h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT)
    if on_subject is None:
        return None if pattern is None else refusals.MISSING_SUBJECT_SEQUENCE  # PUB-12
    checked = None if pattern is None else Filter([pattern.decode("utf-8", "replace")])
    if ahead is not None and ahead.wrote(subject if checked is None else checked):
        return refusals.WRONG_LAST_IN_BATCH  # BAT-32, BAT-33
    found = state.last_of(subject) if checked is None else state.last_matching(checked)  # PUB-10, PUB-11
    return None if number_in(on_subject) == found else refusals.wrong_last_sequence(found)


def _check_last_sequence(state: OwnedStream, given: dict[str, bytes], ahead: Ahead | None) -> Refusal | None:
    expected = given.get(h.EXPECTED_LAST_SEQUENCE)
    if expected is None:
        return None
    if number_in(expected) != state.last_seq:  # PUB-08, BAT-31; PUB-09: no removal takes it back
        return refusals.wrong_last_sequence(state.last_seq)
    begun = ahead is not None and ahead.begun
    return refusals.WRONG_LAST_IN_BATCH if begun else None  # BAT-30


def _check_source(given: dict[str, bytes]) -> Refusal | None:
    return refusals.SOURCE_HEADER if h.STREAM_SOURCE in given else None  # PUB-18


def _check_last_id(state: OwnedStream, given: dict[str, bytes]) -> Refusal | None:
    last_id = given.get(h.EXPECTED_LAST_MSG_ID)
    if last_id is not None and last_id.decode("utf-8", "replace") != state.last_msg_id:
        return refusals.wrong_last_msg_id(state.last_msg_id)  # PUB-13
    return None


def number_in(value: bytes) -> int | None:
    """The number in a header, None if it holds anything else."""
    return int(value) if value.isdigit() and len(value) <= _LONGEST_NUMBER else None
