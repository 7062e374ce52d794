"""The flags for adopted topics, and how a report shows them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from railgun.cli.options.topic_flags import topics_given
from railgun.cli.reports.topic_report import topic_lines, topic_text
from railgun.errors import ConfigError
from railgun.model.refusals import topic_trouble
from railgun.model.stream_config import TopicSource
from railgun.model.topics.topic_info import TopicPartitionInfo, TopicSourceInfo


def test_flags_become_topics() -> None:
    assert topics_given(None, None, None, None) is None
    assert topics_given(["a", "b"], "x.{key}", "{header:id}", "end") == [
        TopicSource(topic=name, subject="x.{key}", message_id="{header:id}", start="end")
        for name in ("a", "b")
    ]
    assert topics_given(['{"topic": "a", "start": "end"}'], None, None, "2026-01-31T12:00:00Z") == [
        TopicSource(topic="a", start="end", opt_start_time="2026-01-31T12:00:00Z")
    ]
    (ago,) = topics_given(["a"], None, None, "2h") or []
    assert ago.opt_start_time is not None


@pytest.mark.parametrize(
    "topics, subject, start, text",
    [
        (None, "x.{key}", None, "say which topic is adopted"),
        (["a"], None, "soon", "'soon' is not a valid start"),
        (['{"topic": 1}'], None, None, "is not a valid topic: topic"),
        (["{nothing"], None, None, "cannot be read as JSON"),
    ],
)
def test_odd_flags_are_refused(
    topics: list[str] | None, subject: str | None, start: str | None, text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        topics_given(topics, subject, None, start)


def test_a_topic_in_a_report() -> None:
    source = TopicSource(topic="orders", subject="o.{key}", message_id="{header:id}", start="end")
    assert topic_text(source) == "orders as o.{key} id {header:id} from the end"
    timed = TopicSource(topic="a", subject="a.{key}", opt_start_time="2026-01-31T12:00:00Z")
    assert topic_text(timed) == "a as a.{key} from 2026-01-31T12:00:00Z"
    partitions = (TopicPartitionInfo(0, 1_000, 1_200, 200), TopicPartitionInfo(1, 5, 5, 0, 1, 2, "why"))
    info = TopicSourceInfo(
        "orders", "o.{key}", 200, timedelta(seconds=1), topic_trouble("no permission"), partitions
    )
    assert TopicSourceInfo.from_api(info.to_api()) == info
    assert topic_lines(info) == [
        ("Topic", "orders"),
        ("Subjects", "o.{key}"),
        ("Lag", "200"),
        ("Last Seen", "1s ago"),
        ("Error", "no permission (10023)"),
        ("Partition 0", "position 1,000, lag 200"),
        ("Partition 1", "position 5, lag 0, passed 1, lost 2 (why)"),
    ]
