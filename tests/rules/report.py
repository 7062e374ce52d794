"""Pytest plugin: which rules passed on which backend, into ``.railgun-rules.json`` at the end of the run.

A test names its rules with ``@pytest.mark.rule("PUB-08")``, five at most; more, or an id that does not exist, is an error of
collection. The backend of a test is the parameter ``memory`` or ``kafka`` that it ran with; a test without one counts for
``kafka`` if it is marked so, else for neither.

Both travel with the report of the test, so that tests may run in other processes than the one that writes the file.
With ``--add-rules`` it adds to the file of an earlier run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Final

import pytest

from tests.rules.book import BACKENDS, MOST_RULES, NO_BACKEND, REPORT, faults

_PROPERTY: Final = "rules"


def rules_of(item: pytest.Item) -> list[str]:
    """The rules that the test names. Raises UsageError if it names too many, or some that do not exist."""
    ids = [one for mark in item.iter_markers("rule") for one in mark.args]
    fault = faults(ids) if any(True for _ in item.iter_markers("rule")) else None
    if fault is None and len(ids) > MOST_RULES:
        fault = f"{len(ids)} rules, at most {MOST_RULES}"
    if fault is not None:
        raise pytest.UsageError(f"{item.nodeid}: {fault}")
    return ids


def backend_of(item: pytest.Item) -> str:
    """``memory``, ``kafka``, or ``neither``."""
    callspec = getattr(item, "callspec", None)
    given = callspec.params.values() if callspec is not None else ()
    for backend in BACKENDS:
        if any(isinstance(value, str) and value == backend for value in given):
            return backend
    return "kafka" if item.get_closest_marker("kafka") else NO_BACKEND


class RuleReport:
    """Collects outcomes and writes them down."""

    def __init__(self, *, add: bool) -> None:
        self._outcomes: dict[str, dict[str, dict[str, bool]]] = defaultdict(lambda: defaultdict(dict))
        if add and REPORT.exists():
            for rule, backends in json.loads(REPORT.read_text(encoding="utf-8")).items():
                self._outcomes[rule].update(backends)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        known = dict(report.user_properties).get(_PROPERTY)
        if known is None or report.skipped or (report.passed and report.when != "call"):
            return
        ids, backend = known
        for rule in ids:
            by_test = self._outcomes[rule].setdefault(backend, {})
            by_test[report.nodeid] = by_test.get(report.nodeid, True) and report.passed

    def pytest_sessionfinish(self) -> None:
        if self._outcomes:
            REPORT.write_text(json.dumps(self._outcomes, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--add-rules", action="store_true", help="add to the rules that the last run has shown")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(
        config, "workerinput"
    ):  # a process of pytest-xdist sends its reports to the one that started it
        config.pluginmanager.register(RuleReport(add=config.option.add_rules), "railgun-rules")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        ids = rules_of(item)
        if ids:
            item.user_properties.append((_PROPERTY, (ids, backend_of(item))))
