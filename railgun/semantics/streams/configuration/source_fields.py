"""The rules for the mirror and the sources of one configuration, in the order in which nats-server asks (MIR, SRC).

What they say about other streams (their sizes, cycles) is asked by the registrar, which knows them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from railgun.model import refusals, subjects
from railgun.model.refusals import Refusal, invalid_config
from railgun.model.stream_config import StreamConfig, StreamSource, SubjectTransform
from railgun.model.transforms import BadDestination, BadSource, Transform
from railgun.semantics.streams.configuration.stream_names import MAX_FIRST_SEQUENCE, name_refused
from railgun.semantics.streams.sourcing.origins import origin_key

MAX_SOURCES = 1_000
MAX_TRANSFORMS = 1_000  # of all sources together: each is compared with the others of its source


def plain_sources(config: StreamConfig) -> dict[str, Any]:
    """The mirror and the sources as they are stored: what is empty says nothing, and is left out."""
    sources = [_plain(source) for source in config.sources or ()]
    return {"mirror": config.mirror and _plain(config.mirror), "sources": sources or None}


def promoted(old: StreamConfig, new: StreamConfig) -> StreamConfig:
    """The new configuration; where it takes the mirror away, direct gets for the upstream go with it (UPD-09)."""
    if old.mirror is None or new.mirror is not None or not new.mirror_direct:
        return new
    return new.model_copy(update={"mirror_direct": False})


def sources_refused(config: StreamConfig) -> Refusal | None:
    """Why a stream cannot have this mirror or these sources."""
    transforms = sum(len(source.subject_transforms or ()) for source in upstreams(config))
    if len(config.sources or ()) > MAX_SOURCES:
        return invalid_config(f"a stream can not have more than {MAX_SOURCES} sources")
    if transforms > MAX_TRANSFORMS:
        return invalid_config(f"the sources of a stream can not have more than {MAX_TRANSFORMS} transforms")
    if any((source.opt_start_seq or 0) > MAX_FIRST_SEQUENCE for source in upstreams(config)):
        return invalid_config(f"start sequence needs to be at most {MAX_FIRST_SEQUENCE}")
    return _mirror_refused(config) or _each_refused(config)


def upstreams(config: StreamConfig) -> list[StreamSource]:
    """The streams that a stream copies: the one that it mirrors, or its sources."""
    return [*([config.mirror] if config.mirror else []), *(config.sources or ())]


def _plain(source: StreamSource) -> StreamSource:
    names = ("opt_start_seq", "opt_start_time", "filter_subject", "subject_transforms")
    return source.model_copy(update={name: getattr(source, name) or None for name in names})


def _mirror_refused(config: StreamConfig) -> Refusal | None:
    mirror = config.mirror
    if mirror is None:
        return None
    refusal = _excluded_by_a_mirror(config)
    if refusal:
        return refusal
    if mirror.filter_subject and mirror.subject_transforms:  # MIR-04
        return refusals.MIRROR_FILTERED_TWICE
    if (
        config.subject_delete_marker_ttl
    ):  # TTL-07: markers would take sequences that the upstream does not have
        return invalid_config("subject delete markers forbidden on mirrors")
    transforms = mirror.subject_transforms or []
    refusal = _transforms_refused("mirror", transforms)
    if refusal:
        return refusal
    if _any_pair(transforms, subjects.collides):
        return refusals.MIRROR_FILTERS_OVERLAP
    if name_refused(mirror.name):
        return refusals.MIRROR_NAME_INVALID
    return _filter_refused("mirror", mirror) or _own_refused(config, mirror)


def _excluded_by_a_mirror(config: StreamConfig) -> Refusal | None:  # MIR-02, MIR-03
    excluded = (
        (config.first_seq, refusals.MIRROR_WITH_FIRST_SEQUENCE),
        (config.subjects, refusals.MIRROR_WITH_SUBJECTS),
        (config.sources, refusals.MIRROR_WITH_SOURCES),
        (config.allow_msg_counter, refusals.MIRROR_WITH_COUNTERS),  # CTR-21
        (config.allow_atomic, refusals.BATCH_ON_MIRROR),  # BAT-45; BAT-47: a stream with sources may
        (config.allow_msg_schedules, refusals.MIRROR_WITH_SCHEDULES),
    )
    return next((refusal for asked_for, refusal in excluded if asked_for), None)


def _each_refused(config: StreamConfig) -> Refusal | None:
    if config.sources and config.allow_msg_schedules:
        return refusals.SOURCE_WITH_SCHEDULES
    seen: set[str] = set()
    for source in config.sources or ():
        if name_refused(source.name):  # SRC-12
            return refusals.SOURCE_NAME_INVALID
        key = origin_key(source)
        if key in seen:  # SRC-06
            return refusals.SOURCE_TWICE
        seen.add(key)
        if source.filter_subject and source.subject_transforms:  # SRC-05
            return refusals.SOURCE_FILTERED_TWICE
        transforms = source.subject_transforms or []
        refusal = _transforms_refused("source", transforms)
        if refusal:
            return refusal
        if _any_pair(transforms, _covers_or_is_covered):
            return refusals.SOURCE_FILTERS_OVERLAP
        refusal = _filter_refused("source", source) or _own_refused(config, source)
        if refusal:
            return refusal
    return None


def _transforms_refused(called: str, transforms: Sequence[SubjectTransform]) -> Refusal | None:
    for transform in transforms:
        try:
            Transform(transform)
        except BadSource as error:
            return refusals.source_transform_source_invalid(called, str(error))
        except BadDestination as error:
            return refusals.source_transform_invalid(called, str(error))
    return None


def _any_pair(transforms: Sequence[SubjectTransform], overlap: Callable[[str, str], bool]) -> bool:
    sources = [one.src or ">" for one in transforms]
    wild = [one for one in sources if subjects.has_wildcard(one)]
    literal = [one for one in sources if not subjects.has_wildcard(one)]  # two different ones never overlap
    return len(set(literal)) < len(literal) or any(
        overlap(one, other) for at, one in enumerate(wild) for other in (*wild[at + 1 :], *literal)
    )


def _covers_or_is_covered(one: str, other: str) -> bool:
    return subjects.is_subset(one, other) or subjects.is_subset(other, one)


def _filter_refused(called: str, source: StreamSource) -> Refusal | None:
    if source.filter_subject and not subjects.is_valid(source.filter_subject):
        return refusals.source_filter_invalid(called, source.filter_subject)
    return None


def _own_refused(config: StreamConfig, source: StreamSource) -> Refusal | None:
    return refusals.CYCLE if source.name == config.name else None  # MIR-13: the shortest of all cycles
