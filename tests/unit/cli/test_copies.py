"""Mirrors and sources on the command line: how they are given, and what a report says about them."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from railgun.cli.options.source_flags import source
from railgun.cli.reports.report import print_info
from railgun.cli.reports.source_report import source_lines, source_text
from railgun.model.messages import StreamInfo
from railgun.model.refusals import Refusal
from railgun.model.source_info import StreamSourceInfo
from railgun.model.stream_config import StreamSource, SubjectTransform
from tests.support.commands import Run, done, said


def test_a_mirror_is_made_shown_and_promoted(orders: Run) -> None:
    report = done(
        orders(
            "stream", "add", "M", "--mirror", "ORDERS", "--mirror-filter", "ORDERS.new", "--start-seq", "5"
        )
    )
    assert " Mirror: ORDERS filter=ORDERS.new start-seq=5\n" in report
    assert "Subjects:" not in report.partition("Options:")[0]
    assert " Mirror Direct Get: false\n" in report
    config = json.loads(done(orders("stream", "info", "M", "--json")))["config"]
    assert config["mirror"] == {"name": "ORDERS", "filter_subject": "ORDERS.new", "opt_start_seq": 5}
    changed = done(orders("stream", "edit", "M", "--no-mirror"))
    assert "  mirror: ORDERS filter=ORDERS.new start-seq=5 -> none\n" in changed
    assert " Subjects: M\n" in changed


def test_a_mirror_may_begin_at_a_time(orders: Run) -> None:
    given = ("stream", "add", "M", "--mirror", "ORDERS", "--start-time", "2026-01-31T12:00:00Z", "--json")
    assert json.loads(done(orders(*given)))["config"]["mirror"] == {
        "name": "ORDERS",
        "opt_start_time": "2026-01-31T12:00:00Z",
    }
    ago = json.loads(done(orders("stream", "add", "N", "--mirror", "ORDERS start-time=2h", "--json")))
    assert set(ago["config"]["mirror"]) == {"name", "opt_start_time"}


def test_sources_are_given_one_by_one_and_changed_together(orders: Run) -> None:
    detailed = "ORDERS filter=ORDERS.* start-seq=2"
    report = done(orders("stream", "add", "ALL", "--source", "A", "--source", detailed))
    assert " Source: A\n" in report
    assert f" Source: {detailed}\n" in report
    renamed = {"name": "B", "subject_transforms": [{"src": "b.*", "dest": "c.$1"}]}
    changed = orders("stream", "edit", "ALL", "--source", "A", "--source", json.dumps(renamed))
    assert f"  sources: A, {detailed} -> A, B (b.* to c.$1)\n" in done(changed)
    config = json.loads(done(orders("stream", "info", "ALL", "--json")))["config"]
    assert (config["sources"], config["subjects"]) == ([{"name": "A"}, renamed], [])
    assert "  subjects:  -> ALL\n" in done(orders("stream", "edit", "ALL", "--no-sources"))


@pytest.mark.parametrize(
    "flags, fault",
    [
        (("--mirror-filter", "a"), "error: say which stream is mirrored: --mirror STREAM\n"),
        (("--mirror", "A", "--no-mirror"), "error: give --mirror or --no-mirror, not both\n"),
        (("--source", "A", "--no-sources"), "error: give --source or --no-sources, not both\n"),
        (
            ("--source", "A filtre=x"),
            "error: --source: 'filtre=x' is not a valid part of a source: write STREAM",
        ),
        (("--source", "filter=x"), "error: --source: 'filter=x' does not begin with the name of a stream"),
        (("--source", ""), "error: --source: '' does not begin with the name of a stream"),
        (("--source", "A start-seq=0"), "error: --source: '0' is not a valid sequence"),
        (("--source", "A start-time=soon"), "error: --source: 'soon' is not a valid start: use a time"),
        (("--source", "{"), "error: --source: '{' cannot be read as JSON"),
        (("--source", '{"name": 1}'), "is not a valid source: name: Input should be a valid string"),
        (("--source", '{"name": "A", "x": 1}'), "is not a valid source: x: Extra inputs are not permitted"),
        (("--source", "A", "--source", "A"), "duplicate source configuration detected"),
        (("--mirror", "M"), "detected cycle"),
    ],
)
def test_what_cannot_be_understood_is_explained(run: Run, flags: tuple[str, ...], fault: str) -> None:
    refused = run("stream", "add", "M", *flags)
    assert refused.exit_code == 1
    assert fault in said(refused)


@pytest.mark.parametrize(
    "flags",
    [
        ("--mirror", "A start=5"),
        ("--mirror", "A", "--start-seq", "0"),
        ("--mirror", "A", "--start-time", "all"),
    ],
)
def test_a_flag_of_a_mirror_that_cannot_be_read_is_a_misuse(run: Run, flags: tuple[str, ...]) -> None:
    refused = run("stream", "add", "M", *flags)
    assert refused.exit_code == 2
    assert "is not a valid" in refused.stderr


def test_the_words_of_a_report_are_those_of_the_flag() -> None:
    for text in ("A", "A filter=a.> start-seq=7", "A start-time=2026-01-31T12:00:00Z"):
        assert source_text(source(text)) == text
    renaming = [SubjectTransform(src="a", dest="b"), SubjectTransform(src="c")]
    assert source_text(StreamSource(name="A", subject_transforms=renaming)) == "A (a to b) (c unchanged)"


@pytest.mark.rule("MIR-12", "SRC-13")
def test_a_report_tells_lag_activity_and_error() -> None:
    assert source_lines(StreamSourceInfo("A", 1_234)) == [
        ("Stream Name", "A"),
        ("Lag", "1,234"),
        ("Last Seen", "never"),
    ]
    missing = Refusal(404, 10059, "stream not found")
    renaming = (SubjectTransform(dest="b"),)
    assert source_lines(StreamSourceInfo("A", 0, timedelta(0), missing, None, renaming)) == [
        ("Stream Name", "A"),
        ("Subject Transform", "> to b"),
        ("Lag", "0"),
        ("Last Seen", "0s ago"),
        ("Error", "stream not found (10059)"),
    ]
    active = StreamSourceInfo("A", active=timedelta(milliseconds=250), filter_subject="a.>")
    assert source_lines(active)[1:] == [
        ("Subject Filter", "a.>"),
        ("Lag", "0"),
        ("Last Seen", "250ms ago"),
    ]


@pytest.mark.rule("MIR-12", "SRC-13")
def test_mirror_and_sources_have_blocks_of_their_own(orders: Run, capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(done(orders("stream", "info", "ORDERS", "--json")))
    copies = [{"name": "A", "lag": 3, "active": 10**9}, {"name": "B", "lag": 0, "active": -1}]
    print_info(StreamInfo.from_api({**answer, "mirror": copies[0], "sources": copies}))
    report = capsys.readouterr().out
    block = "\n\n           Stream Name: A\n                   Lag: 3\n             Last Seen: 1s ago\n"
    assert f"\nMirror Information:{block}" in report
    assert f"\nSource Information:{block}" in report
    assert report.count("Source Information:") == 2
    assert report.index("Source Information:") < report.index("State:")
