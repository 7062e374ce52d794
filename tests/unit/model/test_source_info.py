"""What an answer says about mirrors and sources, read back as it was written."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from railgun import StreamInfo, StreamSourceInfo, SubjectTransform
from railgun.model.refusals import Refusal

STATE = dict.fromkeys(
    ("messages", "bytes", "first_seq", "last_seq", "num_deleted", "num_subjects", "consumer_count"), 0
)


def info(**fields: Any) -> StreamInfo:
    state = {**STATE, "first_ts": "", "last_ts": ""}
    return StreamInfo.from_api({"config": {"name": "M"}, "state": state, "created": "", **fields})


@pytest.mark.rule("MIR-12", "SRC-13")
def test_an_answer_tells_how_far_the_copies_are() -> None:
    silent = {"name": "A", "lag": 0, "active": -1}
    failing = {
        "name": "B",
        "lag": 7,
        "active": 1_500_000_000,
        "error": {"code": 404, "err_code": 10059, "description": "stream not found"},
        "filter_subject": "b.>",
    }
    renaming = {"name": "C", "lag": 1, "active": 0, "subject_transforms": [{"src": "c", "dest": "d"}]}
    found = info(mirror=silent, sources=[failing, renaming])
    assert found.mirror == StreamSourceInfo("A")
    assert found.sources == [
        StreamSourceInfo(
            "B",
            7,
            timedelta(seconds=1.5),
            Refusal(404, 10059, "stream not found"),
            "b.>",
        ),
        StreamSourceInfo("C", 1, timedelta(0), subject_transforms=(SubjectTransform(src="c", dest="d"),)),
    ]
    assert [one.to_api() for one in (found.mirror, *found.sources)] == [silent, failing, renaming]


@pytest.mark.rule("MIR-12", "SRC-13")
def test_an_answer_without_copies_and_one_of_a_later_version_are_read() -> None:
    assert (info().mirror, info().sources) == (None, [])
    assert (info(mirror=None, sources=None).mirror, info(sources=None).sources) == (None, [])
    later = {"name": "A", "invented": 1, "subject_transforms": [{"src": "a", "dest": "b", "invented": 1}]}
    found = info(sources=[later]).sources
    assert [(one.name, one.lag, one.active, one.error) for one in found] == [("A", 0, None, None)]
