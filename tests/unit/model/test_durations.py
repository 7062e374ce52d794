"""Durations as texts, in both directions."""

from __future__ import annotations

import pytest

from railgun.model.durations import LONGEST, NANOS, duration_text, parse_duration

HOUR = 3_600 * NANOS
GO = [  # what fmt.Println of a time.Duration prints
    (0, "0s"),
    (1, "1ns"),
    (999, "999ns"),
    (1_500, "1.5µs"),
    (500_000, "500µs"),
    (1_000_001, "1.000001ms"),
    (100_000_000, "100ms"),
    (999_999_999, "999.999999ms"),
    (NANOS, "1s"),
    (1_500_000_000, "1.5s"),
    (NANOS + 1, "1.000000001s"),
    (90 * NANOS, "1m30s"),
    (60 * NANOS, "1m0s"),
    (HOUR, "1h0m0s"),
    (HOUR + 1_800 * NANOS, "1h30m0s"),
    (24 * HOUR + 500_000_000, "24h0m0.5s"),
    (-500_000, "-500µs"),
    (LONGEST, "876000h0m0s"),
]


@pytest.mark.parametrize("nanos, text", GO)
def test_a_duration_is_printed_as_go_prints_it(nanos: int, text: str) -> None:
    assert duration_text(nanos) == text


@pytest.mark.parametrize("nanos, text", GO)
def test_what_is_printed_is_read_again(nanos: int, text: str) -> None:
    assert parse_duration(text) == nanos


@pytest.mark.rule("TTL-03")
@pytest.mark.parametrize("text", ["1" * 1_000_000 + "x", "1." + "1" * 1_000_000, "1." * 500_000])
def test_a_text_as_long_as_a_record_is_refused_without_trying_each_of_its_digits(text: str) -> None:
    """Any client may send one, as a life time or as the delay of a nak: tried anew from each digit it takes hours."""
    with pytest.raises(ValueError, match="is not a duration") as refused:
        parse_duration(text)
    assert len(str(refused.value)) < 200
