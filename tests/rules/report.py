"""Pytest plugin: which rules passed on which backend, into ``.railgun-rules.json`` at the end of the run.

A test names its rules with ``@pytest.mark.rule("PUB-08")``, five at most; more, or an id that does not exist, is an error of
collection. The backend of a test is the parameter ``memory`` or ``kafka`` that it ran with; a test without one counts for
``kafka`` if it is marked so, else for neither.
"""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from tests.rules.book import BACKENDS, MOST_RULES, NO_BACKEND, REPORT, faults


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

    def __init__(self) -> None:
        self._rules: dict[str, tuple[list[str], str]] = {}  # by node id
        self._outcomes: dict[str, dict[str, dict[str, bool]]] = defaultdict(lambda: defaultdict(dict))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            ids = rules_of(item)
            if ids:
                self._rules[item.nodeid] = (ids, backend_of(item))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        known = self._rules.get(report.nodeid)
        if known is None or report.skipped or (report.passed and report.when != "call"):
            return
        ids, backend = known
        for rule in ids:
            by_test = self._outcomes[rule][backend]
            by_test[report.nodeid] = by_test.get(report.nodeid, True) and report.passed

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._rules and not session.config.option.collectonly:
            REPORT.write_text(json.dumps(self._outcomes, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RuleReport(), "railgun-rules")
