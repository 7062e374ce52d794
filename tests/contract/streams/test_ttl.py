"""Time to live of single messages, and the markers that the last of a subject leaves (TTL)."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from railgun.client.facade.railgun import Railgun
from railgun.errors import InvalidStreamConfig
from railgun.model import headers as h
from railgun.testing import Clock
from tests.support.raw import create_refused, refused
from tests.support.streams import Make, Unique, held

SECOND = 1_000_000_000
INVALID = (10165, 400, "invalid per-message TTL")


@pytest.fixture
def make(make: Make) -> Make:
    """Streams whose messages may have a time to live."""
    return partial(make, allow_msg_ttl=True)


# ------------------------------------------------------------ the header


@pytest.mark.rule("TTL-01", "TTL-04")
def test_a_message_lives_as_long_as_its_header_says(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make()
    for text in ("60", "1m30s", "1h", "never"):
        rg.request(f"{stream.name}.a", b"x", headers={h.TTL: text})
    rg.publish(f"{stream.name}.a", ttl=timedelta(minutes=2))
    rg.publish(f"{stream.name}.a")
    assert held(stream) == [1, 2, 3, 4, 5, 6]
    clock.advance(58)
    assert held(stream) == [1, 2, 3, 4, 5, 6]
    clock.advance(4)
    assert held(stream) == [2, 3, 4, 5, 6]
    clock.advance(30)
    assert held(stream) == [3, 4, 5, 6]
    clock.advance(30)
    assert held(stream) == [3, 4, 6]
    clock.advance(3_600)
    assert held(stream) == [4, 6]
    assert stream.get(4).header(h.TTL) == "never"


@pytest.mark.rule("TTL-02")
def test_the_header_needs_the_option(rg: Railgun, make: Make) -> None:
    stream = make(allow_msg_ttl=False)
    for text in ("60", "never", "1h"):
        told = refused(rg, f"{stream.name}.a", b"x", headers={h.TTL: text})
        assert told == (10166, 400, "per-message TTL is disabled")
    assert stream.info().state.messages == 0


@pytest.mark.rule("TTL-03")
@pytest.mark.parametrize("text", ["0", "999ms", "soon", "-5", "-1h", "1.5", "5 s", "9" * 30])
def test_a_header_below_a_second_or_without_sense_is_refused(rg: Railgun, make: Make, text: str) -> None:
    stream = make()
    assert refused(rg, f"{stream.name}.a", b"x", headers={h.TTL: text}) == INVALID
    assert stream.info().state.messages == 0


@pytest.mark.rule("TTL-04")
def test_an_earlier_age_wins(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make(max_age=60)
    rg.publish(f"{stream.name}.a", ttl=300)
    rg.publish(f"{stream.name}.b", ttl=30)
    clock.advance(31)
    assert held(stream) == [1]
    clock.advance(31)
    assert held(stream) == []


@pytest.mark.rule("TTL-05")
def test_never_outlives_age(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make(max_age=60)
    rg.publish(f"{stream.name}.a", ttl="never")
    rg.publish(f"{stream.name}.a")
    rg.publish(f"{stream.name}.a", ttl="never")
    clock.advance(100_000)
    assert held(stream) == [1, 3]


# ------------------------------------------------------------ delete markers


@pytest.mark.rule("TTL-07")
def test_markers_imply_the_options_they_need(rg: Railgun, make: Make, unique: Unique) -> None:
    stream = make(allow_msg_ttl=False, subject_delete_marker_ttl=1)
    config = stream.info().config
    assert (config.allow_msg_ttl, config.allow_rollup_hdrs) == (True, True)
    name = unique("SHORT")
    told = create_refused(rg, name, subjects=[name], subject_delete_marker_ttl=SECOND - 1_000_000)
    assert told == (10052, 500, "subject delete marker TTL must be at least 1 second")
    with pytest.raises(InvalidStreamConfig):
        rg.create_stream(name, subjects=[name], subject_delete_marker_ttl=0.5)


@pytest.mark.rule("TTL-08")
@pytest.mark.parametrize("reason", ["age", "ttl"])
def test_the_last_message_of_a_subject_leaves_a_marker(
    rg: Railgun, make: Make, clock: Clock, reason: str
) -> None:
    by_age = reason == "age"
    stream = make(subject_delete_marker_ttl=10, **({"max_age": 60} if by_age else {}))
    for token in ("a", "a", "b"):
        rg.publish(f"{stream.name}.{token}", b"x", **({} if by_age else {"ttl": 60}))
    if by_age:
        clock.advance(30)
    rg.publish(f"{stream.name}.b", b"young", ttl="never")
    clock.advance(61 if not by_age else 31)
    assert held(stream) == [4, 5]  # b still has a message; a has none, so it has a marker
    marker = stream.get(5)
    assert (marker.subject, marker.payload) == (f"{stream.name}.a", b"")
    assert dict(marker.headers) == {h.MARKER_REASON: b"MaxAge", h.TTL: b"10", h.ROLLUP: b"sub"}
    clock.advance(11)
    assert held(stream) == [4]  # the marker has gone, and left none
    assert stream.info().state.last_seq == 5


@pytest.mark.rule("TTL-09")
@pytest.mark.parametrize("per_subject, stored", [(-1, "60"), (3, "60"), (1, "5")])
def test_a_life_shorter_than_the_markers_is_raised(
    rg: Railgun, make: Make, clock: Clock, per_subject: int, stored: str
) -> None:
    stream = make(subject_delete_marker_ttl=60, max_msgs_per_subject=per_subject)
    rg.publish(f"{stream.name}.a", b"x", headers={"Other": "1"}, ttl=5)
    rg.publish(f"{stream.name}.b", b"x", ttl=90)
    assert list(stream.get(1).headers) == [("Other", b"1"), (h.TTL, stored.encode())]
    assert stream.get(2).header(h.TTL) == "90"
    clock.advance(30)
    raised = stored == "60"
    assert held(stream) == ([1, 2] if raised else [2, 3])  # not raised: gone, and 3 is its marker


@pytest.mark.rule("TTL-10")
def test_delete_and_purge_leave_no_marker(rg: Railgun, make: Make) -> None:
    stream = make(subject_delete_marker_ttl=60)
    for token in "abc":
        rg.publish(f"{stream.name}.{token}")
    stream.delete_message(1)
    stream.purge(subject=f"{stream.name}.b")
    assert held(stream) == [3]
    stream.purge()
    state = stream.info().state
    assert (state.messages, state.last_seq) == (0, 3)
