"""The masks of the differential test for consumers whose filters differ from nats-server's view of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.differ.comparing import Difference
from tests.differ.masks import MASKS
from tests.differ.moments import Done, Moment
from tests.differ.operations import Call, Operation

RENAMES = {"src": "a.*", "dest": "t.{{wildcard(1)}}"}


def asked(**config: Any) -> Call:
    return Call("CONSUMER.CREATE.S1.C1", {"stream_name": "S1", "config": config})


def explained(
    conflict: str, operation: Operation, nats: Any, railgun: Any, path: tuple[str, ...], *before: Done
) -> bool:
    moment = Moment(operation, [{"body": nats}], [{"body": railgun}], before, lambda _: [])
    difference = Difference((0, "body", *path), 1, 2)
    return any(mask.explains(moment, difference) for mask in MASKS if mask.reason == conflict)


@pytest.mark.parametrize(
    "transform, filters, left, masked",
    [
        (RENAMES, ["b.*", "a.*"], 1, True),
        (RENAMES, ["b.*", "a.*"], 3, False),
        (RENAMES, ["b.*"], 1, False),
        (None, ["b.*", "a.*"], 1, False),
    ],
)
def test_what_is_kept_for_filters_that_are_the_subjects_is_masked_beside_a_transform(
    transform: dict[str, str] | None, filters: list[str], left: int, masked: bool
) -> None:
    config = {"name": "S1", "subjects": ["a.*", "b.*"], "retention": "interest"}
    create = Call("STREAM.CREATE.S1", config | ({"subject_transform": transform} if transform else {}))
    before: list[Done] = [(create, []), (asked(filter_subjects=filters), [])]
    nats, railgun = ({"config": {"name": "S1"}, "state": {"messages": number}} for number in (2, left))
    info = Call("STREAM.INFO.S1")
    assert explained("C-85", info, nats, railgun, ("state", "messages"), *before) is masked


@pytest.mark.parametrize(
    "filters, removal, pending, masked",
    [
        ("z", Call("STREAM.PURGE.S1"), 0, True),
        ("z", Call("STREAM.PURGE.S1"), 1, False),
        ("z", Call("STREAM.INFO.S1"), 0, False),
        ("a.1", Call("STREAM.PURGE.S1"), 0, False),
    ],
)
def test_a_removed_message_behind_a_new_filter_is_masked_while_nats_has_it_pending(
    filters: str, removal: Call, pending: int, masked: bool
) -> None:
    before: list[Done] = [
        (asked(filter_subject="a.1"), []),
        (asked(filter_subject=filters), []),
        (removal, []),
    ]
    nats, railgun = (
        {"stream_name": "S1", "name": "C1", "num_ack_pending": number, "ack_floor": {"stream_seq": 1}}
        for number in (1, pending)
    )
    info = Call("CONSUMER.INFO.S1.C1")
    for path in (("num_ack_pending",), ("ack_floor", "stream_seq")):
        assert explained("C-89", info, nats, railgun, path, *before) is masked
