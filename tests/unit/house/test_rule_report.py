"""The rule report: what counts as shown, what a mark may say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

from tests.rules import report
from tests.rules.book import exemptions, faults, rule_ids
from tests.rules.report import RuleReport, backend_of, rules_of
from tests.rules.show import lines, missing


def test_there_are_631_rules() -> None:
    ids = rule_ids()
    assert len(ids) == len(set(ids)) == 631


@pytest.mark.parametrize(
    "results, exempt, reason",
    [
        ({}, set(), "no test"),
        ({"memory": {"t": True}, "kafka": {"t": True}}, set(), None),
        ({"memory": {"t": True}}, set(), "not on kafka"),
        ({"memory": {"t": True}}, {"kafka"}, None),
        ({"neither": {"t": True}}, {"memory", "kafka"}, None),
        ({"neither": {"t": True}}, set(), "not on memory, kafka"),
        ({}, {"memory", "kafka"}, "no test"),
        ({"memory": {"t": True, "u": False}, "kafka": {"t": True}}, set(), "fails (memory)"),
    ],
)
def test_a_rule_counts_when_it_passed_wherever_it_must(
    results: dict[str, dict[str, bool]], exempt: set[str], reason: str | None
) -> None:
    assert missing("PUB-01", {"PUB-01": results}, {"PUB-01": exempt}) == reason


def test_the_last_line_counts_the_rules() -> None:
    passed = {"memory": {"t": True}, "kafka": {"t": True}}
    assert lines({"PUB-01": passed, "PUB-02": passed}, {})[-1] == "2 of 631 rules shown"


@pytest.mark.parametrize("ids, wrong", [((), True), (("PUB-01",), False), (("PUB-01", "PUB-99"), True)])
def test_a_mark_names_rules_that_exist(ids: tuple[str, ...], wrong: bool) -> None:
    assert (faults(ids) is not None) == wrong


def test_the_exemptions_can_be_read() -> None:
    assert set(exemptions()) <= set(rule_ids())


@pytest.mark.parametrize(
    "entry",
    [
        'rules = ["PUB-99"]\nbackends = ["kafka"]\nreason = "this rule does not exist"',
        'rules = ["PUB-01"]\nbackends = ["spark"]\nreason = "this backend does not exist"',
        'rules = ["PUB-01"]\nbackends = ["kafka"]\nreason = "because"',
        'backends = ["kafka"]\nreason = "there is no rule here"',
    ],
)
def test_an_exemption_without_rule_backend_or_reason_is_refused(entry: str, tmp_path: Path) -> None:
    file = tmp_path / "exemptions.toml"
    file.write_text(f"[[exempt]]\n{entry}\n", encoding="utf-8")
    with pytest.raises(ValueError):
        exemptions(file)


@pytest.mark.parametrize(
    "ids", [("PUB-99",), ("PUB-01", "PUB-02", "PUB-03", "PUB-04", "PUB-05", "PUB-06"), ()]
)
def test_a_wrong_mark_is_an_error_of_collection(ids: tuple[str, ...], request: pytest.FixtureRequest) -> None:
    request.node.add_marker(pytest.mark.rule(*ids))
    with pytest.raises(pytest.UsageError, match="test_a_wrong_mark"):
        rules_of(request.node)


@pytest.mark.parametrize("backend", ["memory", "kafka", "other"])
def test_the_backend_is_a_parameter_of_the_test(backend: str, request: pytest.FixtureRequest) -> None:
    assert backend_of(request.node) == ("neither" if backend == "other" else backend)


def outcome(
    test: str, backend: str, *, when: Literal["setup", "call"] = "call", passed: bool = True
) -> pytest.TestReport:
    """What another process reports of a test that shows PUB-01."""
    properties = [("rules", [["PUB-01"], backend])]
    result: Literal["passed", "failed"] = "passed" if passed else "failed"
    return pytest.TestReport(test, ("", 0, test), {}, result, None, when, user_properties=properties)


def test_a_second_run_adds_to_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rules.json"
    monkeypatch.setattr(report, "REPORT", file)
    first = RuleReport(add=False)
    first.pytest_runtest_logreport(outcome("a", "memory", when="setup"))
    first.pytest_runtest_logreport(outcome("a", "memory"))
    first.pytest_runtest_logreport(outcome("b", "kafka", when="setup", passed=False))
    first.pytest_sessionfinish()
    assert json.loads(file.read_text()) == {"PUB-01": {"memory": {"a": True}, "kafka": {"b": False}}}
    second = RuleReport(add=True)
    second.pytest_runtest_logreport(outcome("c", "kafka"))
    second.pytest_sessionfinish()
    assert json.loads(file.read_text()) == {
        "PUB-01": {"memory": {"a": True}, "kafka": {"b": False, "c": True}}
    }
    third = RuleReport(add=False)
    third.pytest_runtest_logreport(outcome("c", "kafka"))
    third.pytest_sessionfinish()
    assert json.loads(file.read_text()) == {"PUB-01": {"kafka": {"c": True}}}
