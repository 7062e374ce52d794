"""Adopted topics as reports for people: which are copied, and how far the stream has come in each partition."""

from __future__ import annotations

from railgun.cli.reports.source_report import ago
from railgun.model.stream_config import TopicSource
from railgun.model.topics.topic_info import TopicPartitionInfo, TopicSourceInfo


def topic_text(source: TopicSource) -> str:
    """An adopted topic in one line."""
    words = [source.topic, f"as {source.subject}"]
    if source.message_id:
        words.append(f"id {source.message_id}")
    if source.opt_start_time:
        words.append(f"from {source.opt_start_time}")
    elif source.start != "beginning":
        words.append(f"from the {source.start}")
    return " ".join(words)


def topic_lines(info: TopicSourceInfo) -> list[tuple[str, object]]:
    """How far a stream has come in a topic: one block of a report."""
    lines: list[tuple[str, object]] = [("Topic", info.topic), ("Subjects", info.subject)]
    lines += [("Lag", f"{info.lag:,}"), ("Last Seen", ago(info.active))]
    if info.error is not None:
        lines.append(("Error", f"{info.error.description} ({info.error.err_code})"))
    lines += [(f"Partition {one.partition}", _partition(one)) for one in info.partitions]
    return lines


def _partition(one: TopicPartitionInfo) -> str:
    words = [f"position {one.position:,}", f"lag {one.lag:,}"]
    if one.passed:
        words.append(f"passed {one.passed:,}")
    if one.lost:
        words.append(f"lost {one.lost:,}")
    return ", ".join(words) + (f" ({one.note})" if one.note else "")
