"""Mirrors and sources as reports for people: what is copied, and how far it has come."""

from __future__ import annotations

from datetime import timedelta

from railgun.cli.options.units import show_duration
from railgun.model.source_info import StreamSourceInfo
from railgun.model.stream_config import StreamSource, SubjectTransform


def source_text(source: StreamSource) -> str:
    """A stream to copy in one line, in the words of ``--source``."""
    words = [source.name]
    if source.filter_subject:
        words.append(f"filter={source.filter_subject}")
    if source.opt_start_seq:
        words.append(f"start-seq={source.opt_start_seq}")
    if source.opt_start_time:
        words.append(f"start-time={source.opt_start_time}")
    words += [f"({_rename(one)})" for one in source.subject_transforms or ()]
    return " ".join(words)


def source_lines(info: StreamSourceInfo) -> list[tuple[str, object]]:
    """How far a copy has come: one block of a report."""
    lines: list[tuple[str, object]] = [("Stream Name", info.name)]
    if info.filter_subject:
        lines.append(("Subject Filter", info.filter_subject))
    lines += [("Subject Transform", _rename(one)) for one in info.subject_transforms]
    lines += [("Lag", f"{info.lag:,}"), ("Last Seen", ago(info.active))]
    if info.error is not None:
        lines.append(("Error", f"{info.error.description} ({info.error.err_code})"))
    return lines


def _rename(transform: SubjectTransform) -> str:
    source = transform.src or ">"
    return f"{source} to {transform.dest}" if transform.dest else f"{source} unchanged"


def ago(active: timedelta | None) -> str:
    """When something was last heard of, in words."""
    if active is None:
        return "never"
    return f"{show_duration(active) if active else '0s'} ago"
