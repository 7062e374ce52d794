"""Leases of an upstream whose messages need no closer look, copied as columns: the way of busy sources and mirrors.

It gives what copying one by one gives (:mod:`railgun.semantics.streams.sourcing.copying`), which a property test holds it to.
"""

from __future__ import annotations

from functools import partial

from railgun.model import headers as h
from railgun.model.headers import Headers
from railgun.protocol.sourcing import SourceLease
from railgun.semantics.streams import limits
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.sourcing.copying import STRIPPED, Target, largest_copy, placed, without_orders
from railgun.semantics.streams.sourcing.origins import Origin, SourceMapping

OBEYED = frozenset({h.TTL, h.MSG_ID, h.ROLLUP, h.INCREMENT})


def copy_columns(target: Target, origin: Origin, mapping: SourceMapping, lease: SourceLease) -> bool:
    """Copy a whole lease at once; False if any of its messages needs a closer look, and then nothing has changed."""
    state, config = target.state, target.state.config
    if (
        config.sealed
        or config.discard == "new"
        or config.allow_msg_counter
        or not lease.payloads
        or lease.sequences[0]
        <= (max(origin.position, state.last_seq) if mapping.mirrors else origin.position)
    ):
        return False
    names = {name for one in lease.headers for name, _ in one}
    rename = mapping.subject if mapping.mirrors else partial(placed, state, mapping)
    renamed = {one: rename(one) for one in set(lease.subjects)}
    if names & OBEYED:
        return False
    headers = _column_headers(lease, mapping, bool(names & STRIPPED), h.STREAM_SOURCE in names)
    subjects = [renamed[one] for one in lease.subjects]
    sizes = sizes_that_fit(target, subjects, headers, lease.payloads)
    if sizes is None:
        return False
    if mapping.mirrors:
        _mirror_columns(target, lease, subjects, sizes, headers)
    else:
        append_columns(target, subjects, sizes, headers, lease.payloads)
    origin.position = lease.sequences[-1] + lease.counts[-1] - 1
    return True


def sizes_that_fit(
    target: Target, subjects: list[str], headers: list[Headers], payloads: list[bytes]
) -> list[int] | None:
    """The sizes of messages that can be stored together; None if a limit, or the interest in one of them, needs a closer look."""
    state, config = target.state, target.state.config
    named = set(subjects)
    if not all(map(state.is_wanted, named)):
        return None
    per_subject = config.max_msgs_per_subject
    if per_subject > 0 and max(map(state.count_of, named)) > per_subject:
        return None  # the limit sank, and what is beyond it is not gone yet
    blocks = list(map(h.block_size, headers))
    sizes = list(map(state.measure.of, subjects, blocks, payloads))
    total = sum(sizes)
    if max(blocks) > h.MAX_HEADER_BYTES or max(sizes) > largest_copy(config) or total > target.room:
        return None
    platform = target.platform.max_stream_bytes
    beyond = platform and config.max_bytes <= 0 and state.bytes + total > platform
    return None if beyond or limits.needs_trim(state, len(sizes), total) else sizes


def _column_headers(
    lease: SourceLease, mapping: SourceMapping, has_orders: bool, has_source: bool
) -> list[Headers]:
    headers: list[Headers] = list(lease.headers) or [()] * len(lease.payloads)
    if has_orders:
        headers = [without_orders(one) for one in headers]
    if mapping.mirrors:
        return headers
    if has_source:
        headers = [[pair for pair in one if pair[0] != h.STREAM_SOURCE] for one in headers]
    sequences = (
        sequence
        for first, count in zip(lease.sequences, lease.counts, strict=True)
        for sequence in range(first, first + count)
    )
    stated = map(mapping.header, sequences, lease.subjects)
    return [(*one, (h.STREAM_SOURCE, value)) for one, value in zip(headers, stated, strict=True)]


def _mirror_columns(
    target: Target, lease: SourceLease, subjects: list[str], sizes: list[int], headers: list[Headers]
) -> None:
    """Store copies with the sequences and times that they have upstream."""
    state, log = target.state, target.log
    before, at = state.bytes, 0
    tombstones = h.tombstones_among(headers)
    for first, count in zip(lease.sequences, lease.counts, strict=True):
        state.jump(first)
        end = at + count
        deleted = [place - at for place in tombstones if at <= place < end]
        _store(
            *(state, subjects[at:end], sizes[at:end], lease.times[at:end], deleted),
            *(headers[at:end], lease.payloads[at:end]),
        )
        log.sequences += range(first, first + count)
        at = end
    _note(target, before, subjects, headers, lease.payloads, lease.times)


def append_columns(
    target: Target, subjects: list[str], sizes: list[int], headers: list[Headers], payloads: list[bytes]
) -> None:
    """Store copies that :func:`sizes_that_fit` let pass, with the next sequences of the stream, at the time of the target."""
    state, before = target.state, target.state.bytes
    times = [target.time] * len(sizes)
    first = _store(state, subjects, sizes, times, h.tombstones_among(headers), headers, payloads)
    target.log.sequences += range(first, first + len(sizes))
    _note(target, before, subjects, headers, payloads, times)


def _note(
    target: Target,
    before: int,
    subjects: list[str],
    headers: list[Headers],
    payloads: list[bytes],
    times: list[int],
) -> None:
    target.room -= target.state.bytes - before
    target.state.last_msg_id = ""
    log = target.log
    log.subjects += subjects
    log.headers += headers
    log.payloads += payloads
    log.times += times


def _store(
    state: OwnedStream,
    subjects: list[str],
    sizes: list[int],
    times: list[int],
    tombstones: list[int],
    headers: list[Headers],
    payloads: list[bytes],
) -> int:
    """Store copies with consecutive sequences; that of the first."""
    if state.config.max_msgs_per_subject > 0:
        return state.store_capped(subjects, sizes, times, {}, tombstones, (), headers, payloads)
    first = state.store_columns(subjects, sizes, times, tombstones)
    if state.bodies.keeps:
        state.bodies.keep_run(first, subjects, headers, payloads, ())
    return first
