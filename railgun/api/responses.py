"""Answers: JSON objects with JetStream's field names and ``type`` strings, one frame each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from railgun.api.bodies import parse_page
from railgun.api.names import Operation
from railgun.model import subjects
from railgun.model.cluster_limits import API_LEVEL, LIST_PAGE, NAMES_PAGE, ClusterLimits
from railgun.model.durations import from_nanos, rfc3339
from railgun.model.refusals import Refusal, topic_trouble
from railgun.model.stream_config import StreamSource, TopicSource
from railgun.model.subjects import Filter
from railgun.model.topics.topic_info import TopicPartitionInfo, TopicSourceInfo
from railgun.protocol.replies import Frame
from railgun.semantics.messages import searching
from railgun.semantics.steps import Steps
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.reading import paging
from railgun.semantics.streams.sourcing.origins import Origin

SUBJECTS_PAGE = 100_000  # of the per-subject counts in a stream's info
DETAILS_BYTES = 4_194_304  # an answer is one record: longer details are cut there
_TYPE = "io.nats.jetstream.api.v1."
_TYPES = {
    Operation.INFO: "account_info_response",
    Operation.STREAM_NAMES: "stream_names_response",
    Operation.STREAM_LIST: "stream_list_response",
    Operation.STREAM_CREATE: "stream_create_response",
    Operation.STREAM_UPDATE: "stream_update_response",
    Operation.STREAM_DELETE: "stream_delete_response",
    Operation.STREAM_INFO: "stream_info_response",
    Operation.STREAM_PURGE: "stream_purge_response",
    Operation.MSG_GET: "stream_msg_get_response",
    Operation.MSG_DELETE: "stream_msg_delete_response",
    Operation.CONSUMER_CREATE: "consumer_create_response",
    Operation.CONSUMER_DURABLE_CREATE: "consumer_create_response",
    Operation.CONSUMER_INFO: "consumer_info_response",
    Operation.CONSUMER_DELETE: "consumer_delete_response",
    Operation.CONSUMER_NAMES: "consumer_names_response",
    Operation.CONSUMER_LIST: "consumer_list_response",
}


def response_type(operation: Operation) -> str:
    """The ``type`` of the answers to a call."""
    return _TYPE + _TYPES.get(operation, "error_response")


def success_response(operation: Operation, fields: Mapping[str, Any] | None = None) -> Frame:
    """The call succeeded; ``fields`` are the answer, ``success`` where there is nothing to tell."""
    return _frame(response_type(operation), {"success": True} if fields is None else fields)


def error_response(operation: Operation, refusal: Refusal) -> Frame:
    """The call was refused."""
    return _frame(response_type(operation), {"error": refusal.as_json()})


def refusal_frame(refusal: Refusal) -> Frame:
    """The refusal of a request that is not a known call."""
    return _frame(_TYPE + "error_response", {"error": refusal.as_json()})


def _frame(kind: str, fields: Mapping[str, Any]) -> Frame:
    text = json.dumps({"type": kind, **fields}, separators=(",", ":"), ensure_ascii=False)
    return Frame([], text.encode("utf-8"))


def info_object(stream: OwnedStream, now: int) -> dict[str, Any]:
    """A stream's configuration and state (CFG-33); details of subjects and deletes only on request."""
    return (
        _copied_from(stream, now)
        | _adopted(stream, now)
        | {
            "config": stream.config.to_api(),
            "created": rfc3339(stream.created),
            "state": {
                "messages": stream.messages,
                "bytes": stream.bytes,
                "first_seq": stream.first_seq,
                "first_ts": rfc3339(stream.first_time()),
                "last_seq": stream.last_seq,
                "last_ts": rfc3339(stream.last_time),
                "num_deleted": stream.num_deleted,
                "num_subjects": stream.num_subjects,
                "consumer_count": len(stream.consumers.public),
            },
        }
    )


def _copied_from(stream: OwnedStream, now: int) -> dict[str, Any]:
    """The upstreams of the stream, with how far behind it is (MIR-12, SRC-13)."""
    infos = [
        _source_object(source, stream.origins.get(key), now)
        for key, source in stream.origins.wanted(stream.config).items()
    ]
    if not infos:
        return {}
    return {"mirror": infos[0]} if stream.config.mirror is not None else {"sources": infos}


def _source_object(source: StreamSource, origin: Origin | None, now: int) -> dict[str, Any]:
    """As NATS has it: ``active`` is the time since the upstream was last heard of, ns, or -1."""
    fields = source.to_api()
    shown = ("name", "filter_subject", "subject_transforms")
    told: dict[str, Any] = {name: fields[name] for name in shown if name in fields}
    heard = 0 if origin is None else origin.heard
    told |= {"lag": 0 if origin is None else origin.lag, "active": max(0, now - heard) if heard else -1}
    error = None if origin is None else origin.error
    return told if error is None else told | {"error": error.as_json()}


def _adopted(stream: OwnedStream, now: int) -> dict[str, Any]:
    """The topics that the stream adopts, with how far it is in each partition (TOP-15)."""
    infos = [_topic_info(stream, source, now).to_api() for source in stream.config.topics or ()]
    return {"topics": infos} if infos else {}


def _topic_info(stream: OwnedStream, source: TopicSource, now: int) -> TopicSourceInfo:
    known = sorted(stream.adopted.partitions(source.topic).items())
    heard = stream.adopted.seen.get(source.topic)
    trouble = stream.adopted.errors.get(source.topic) or ""
    waits = next((entry.waits for _, entry in known if entry.waits is not None), None)
    note = next((f"partition {number}: {entry.note}" for number, entry in known if entry.note), "")
    said = topic_trouble(trouble or note) if trouble or note else None
    return TopicSourceInfo(
        source.topic,
        source.subject,
        sum(entry.lag for _, entry in known),
        None if heard is None else from_nanos(max(0, now - heard)),
        said if trouble or waits is None else waits,
        tuple(
            TopicPartitionInfo(
                number, entry.position, entry.end, entry.lag, entry.passed, entry.lost, entry.note
            )
            for number, entry in known
        ),
    )


def info_response(
    stream: OwnedStream,
    now: int,
    *,
    subjects_filter: str = "",
    deleted_details: bool = False,
    offset: int = 0,
    tombstones: bool = False,
) -> Steps[Frame]:
    """The answer to STREAM.INFO, with the details that were asked for."""
    stones = (yield from paging.count_deleted(stream)) if tombstones else 0
    deleted, counts = list[int](), dict[str, int]()
    if deleted_details:
        deleted = yield from searching.deleted(stream, DETAILS_BYTES // 20)
    if subjects_filter:
        counts = yield from searching.counts(stream, Filter(subjects_filter))
    info = info_object(stream, now)
    if tombstones:
        info["state"]["num_tombstones"] = stones
    if deleted_details:
        info["state"]["deleted"] = deleted
    if subjects_filter:
        info["state"]["subjects"] = _page_of_counts(counts, offset)
        if counts:
            info |= {"total": len(counts), "offset": min(offset, len(counts)), "limit": SUBJECTS_PAGE}
    return success_response(Operation.STREAM_INFO, info)


def _page_of_counts(counts: dict[str, int], offset: int) -> dict[str, int]:
    page: dict[str, int] = {}
    room = DETAILS_BYTES
    for subject in sorted(counts)[offset : offset + SUBJECTS_PAGE]:
        room -= len(subject.encode("utf-8")) + 24
        if room < 0 and page:
            break
        page[subject] = counts[subject]
    return page


def create_response(stream: OwnedStream, now: int, *, created: bool) -> Frame:
    """The stream exists; ``did_create`` tells a new one from an identical one that was there."""
    did = {"did_create": True} if created else {}
    return success_response(Operation.STREAM_CREATE, info_object(stream, now) | did)


def update_response(stream: OwnedStream, now: int) -> Frame:
    return success_response(Operation.STREAM_UPDATE, info_object(stream, now))


def account_response(streams: Iterable[OwnedStream], limits: ClusterLimits) -> Frame:
    """The answer to INFO, for these streams and their consumers; -1 means that there is no limit."""
    of_account = {
        "max_storage": limits.max_store_bytes or -1,
        "max_bytes_required": limits.require_max_bytes,
        "storage_max_stream_bytes": limits.max_stream_bytes or -1,
    }
    consumers = [len(stream.consumers.public) for stream in streams]
    fields = {
        "streams": len(consumers),
        "consumers": sum(consumers),
        "limits": of_account,
        "api": {"level": API_LEVEL},
    }
    return success_response(Operation.INFO, fields)


def names_response(body: bytes, streams: Mapping[str, Sequence[str]]) -> Frame:
    """Names of streams, given as name to subjects: sorted, a page from the offset asked for (CFG-31)."""
    asked = parse_page(body)
    if isinstance(asked, Refusal):
        return error_response(Operation.STREAM_NAMES, asked)
    offset, subject = asked
    names = sorted(name for name, own in streams.items() if _captures(own, subject))
    offset = min(offset, len(names))
    page = names[offset : offset + NAMES_PAGE]
    return _page(Operation.STREAM_NAMES, page, len(names), offset, NAMES_PAGE)


def list_response(body: bytes, streams: Iterable[OwnedStream], now: int) -> Frame:
    """Infos of these streams: sorted by name, a page from the offset asked for."""
    asked = parse_page(body)
    if isinstance(asked, Refusal):
        return error_response(Operation.STREAM_LIST, asked)
    offset, subject = asked
    own = sorted(
        (s for s in streams if _captures(s.config.subjects, subject)), key=lambda stream: stream.name
    )
    page = [info_object(stream, now) for stream in own[offset : offset + LIST_PAGE]]
    return _page(Operation.STREAM_LIST, page, len(own), offset, LIST_PAGE)


def _captures(own: Sequence[str], subject: str) -> bool:
    """Whether the stream is in a list filtered by subject: one of its own collides with it."""
    return not subject or any(subjects.collides(one, subject) for one in own)


def _page(operation: Operation, found: list[Any], total: int, offset: int, limit: int) -> Frame:
    return success_response(operation, {"total": total, "offset": offset, "limit": limit, "streams": found})
