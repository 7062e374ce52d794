"""Rules have an address: whoever looks for the id of a rule in the code finds where it is decided."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.checkout import TOP

ID: Final = re.compile(r"\b[A-Z]{2,3}-\d{2,3}\b")
OF_THE_WHOLE: Final = {  # rules that no single place decides, and why
    "EXO-07": "a scenario from a publisher to a double ack, which all rules of EXO and DUP together make true",
}


def rules_named_in(source: str) -> set[str]:
    """The ids that the ``rule`` marks of a test module name."""
    marks = (
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "rule"
    )
    return {
        argument.value
        for mark in marks
        for argument in mark.args
        if isinstance(argument, ast.Constant)
        and isinstance(argument.value, str)
        and ID.fullmatch(argument.value)
    }


def ids_in(package: Path) -> set[str]:
    """The ids that stand in comments, docstrings or code of a package."""
    return {found for file in package.rglob("*.py") for found in ID.findall(file.read_text(encoding="utf-8"))}


def marked_modules() -> Iterator[str]:
    """The sources of all test modules that mark rules."""
    for file in (TOP / "tests").rglob("test_*.py"):
        source = file.read_text(encoding="utf-8")
        if "mark.rule(" in source:
            yield source


def test_every_rule_that_a_test_shows_has_an_address_in_the_code() -> None:
    shown = set[str]().union(*map(rules_named_in, marked_modules()))
    assert len(shown) > 300
    assert sorted(shown - ids_in(TOP / "railgun") - OF_THE_WHOLE.keys()) == []


def test_a_rule_of_the_whole_is_shown_by_a_test_and_has_no_address() -> None:
    shown = set[str]().union(*map(rules_named_in, marked_modules()))
    assert OF_THE_WHOLE.keys() <= shown
    assert not OF_THE_WHOLE.keys() & ids_in(TOP / "railgun")


def test_marks_are_found_wherever_they_stand() -> None:
    source = """
@pytest.mark.rule("PUB-01", "DUP-09")
def test_one(): ...
@pytest.mark.parametrize("a", [pytest.param(1, marks=pytest.mark.rule("KV-01"))])
def test_two(a): "PUB-02"
"""
    assert rules_named_in(source) == {"PUB-01", "DUP-09", "KV-01"}
