"""The benchmark's report as JSON, as a table and as a page. What it measures is shown by running it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.benchmarks.render import markdown_page, text_table
from tests.benchmarks.results import Goal, Report, Result

FASTER = Result.of("pipelined publish", 150_000, 48_000, "nats-py", "messages/s")
SLOWER = Result.of("one at a time", 6.9, 4.6, "raw Kafka", "ms")
SMALL = Result.of("memory", 512.4, 200.0, "nats-server", "MB")
GOALS = {
    (FASTER.name, FASTER.peer_name): Goal("≥ 3 ×", least_ratio=3),
    (SLOWER.name, SLOWER.peer_name): Goal("≤ 1.3 ×", most_ratio=1.3),
}


@pytest.fixture
def report() -> Report:
    return Report(
        "2026-01-02T03:04:05+00:00",
        {"processor": "A fast one", "cores": "2 cores"},
        {"Python": "3.11.7", "Kafka": "4.3.1"},
        (FASTER, SLOWER, SMALL),
        {"takeover": "TimeoutError: not within 60 s"},
    )


def test_json_has_the_promised_shape(report: Report) -> None:
    read = json.loads(report.to_json())
    assert {"date", "machine", "versions", "results"} <= read.keys()
    assert read["results"][0] == {
        "name": "pipelined publish",
        "railgun": 150_000,
        "peer": 48_000,
        "peer_name": "nats-py",
        "unit": "messages/s",
        "ratio": 3.125,
        "date": "",
    }
    assert all(result.keys() == read["results"][0].keys() for result in read["results"])


def test_json_is_read_back_as_it_was_written(report: Report) -> None:
    assert Report.from_json(report.to_json()) == report


def test_advantage_is_above_one_for_what_is_better_rates_and_costs_alike() -> None:
    assert FASTER.advantage == pytest.approx(3.125)
    assert SLOWER.advantage == pytest.approx(4.6 / 6.9)


def test_goals_bound_the_ratio_or_the_value() -> None:
    assert GOALS[FASTER.name, FASTER.peer_name].met(FASTER)
    assert not GOALS[SLOWER.name, SLOWER.peer_name].met(SLOWER)
    assert Goal("≤ 600 MB", most=600).met(SMALL)
    assert not Goal("≤ 500 MB", most=500).met(SMALL)


def test_the_table_lines_up_and_judges(report: Report) -> None:
    lines = text_table(report, GOALS).splitlines()
    assert lines[0].split() == ["work", "railgun", "peer", "unit", "ratio", "goal"]
    ends = {line.index("×") for line in lines[2:5]}
    assert len(ends) == 1
    assert "150,000" in lines[2]
    assert lines[2].endswith("≥ 3 × (met)")
    assert lines[3].endswith("≤ 1.3 × (missed)")
    assert "- takeover: TimeoutError: not within 60 s" in lines


def test_the_page_holds_plot_table_machine_and_versions(report: Report) -> None:
    page = markdown_page(report, GOALS, "latest.svg")
    assert "](latest.svg)" in page
    assert "| pipelined publish | 150,000 | 48,000 | nats-py | messages/s | 3.12 × | ≥ 3 × (met) |" in page
    assert "A fast one, 2 cores" in page
    assert "Kafka 4.3.1" in page


def test_rows_that_are_measured_anew_take_the_place_of_others_and_the_page_says_so(report: Report) -> None:
    better = Result.of(FASTER.name, 200_000, 50_000, "nats-py", "messages/s")
    restored = Result.of("takeover", 6.0, 5.0, "plain consumer group", "s")
    later = replace(report, date="2026-02-03T04:05:06+00:00", results=(better, restored), missing={})
    order = [SMALL.name, "takeover", FASTER.name]  # a row that is no longer there goes
    renewed = report.renewed(later, order)
    assert [result.railgun for result in renewed.results] == [512.4, 6.0, 200_000]
    assert not renewed.missing
    page = markdown_page(renewed, GOALS, "latest.svg")
    assert "- 2026-02-03T04:05:06+00:00: takeover; pipelined publish" in page
    assert "2026-01-02T03:04:05+00:00 on A fast one" in page
    with pytest.raises(ValueError, match="another machine"):
        report.renewed(replace(later, machine={"processor": "A slow one"}), order)
