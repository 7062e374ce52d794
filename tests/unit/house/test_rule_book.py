"""The rule book in docs/rules: numbers that code, tests and pages name are there, and none is given twice."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from hatchling.builders.sdist import SdistBuilder

from tests.rules.book import PAGES, rule_ids
from tests.support.checkout import TOP

_CONFLICT = re.compile(r"\bC-\d\d\b")
_INVENTED = TOP / "tests" / "unit" / "house" / "test_rule_report.py"  # names rules that must not be known


def texts() -> Iterator[tuple[Path, str]]:
    """Code, tests and pages of this checkout, with their paths."""
    for folder, ending in (("railgun", "py"), ("tests", "py"), ("docs", "md")):
        for file in sorted((TOP / folder).rglob(f"*.{ending}")):
            if file != _INVENTED:
                yield file.relative_to(TOP), file.read_text(encoding="utf-8")


def conflicts() -> list[str]:
    table = (PAGES / "conflicts.md").read_text(encoding="utf-8")
    return re.findall(r"^\| (C-\d\d) \|", table, re.MULTILINE)


def test_no_number_is_given_twice() -> None:
    assert [one for one, times in Counter([*rule_ids(), *conflicts()]).items() if times > 1] == []


def test_every_rule_that_is_named_is_in_the_book() -> None:
    known = set(rule_ids())
    groups = "|".join({rule.partition("-")[0] for rule in known})
    rule = re.compile(rf"\b(?:{groups})-\d\d\b")
    named = {(str(file), one) for file, text in texts() for one in rule.findall(text)}
    assert len(named) > len(known)
    assert sorted(one for one in named if one[1] not in known) == []


def test_every_conflict_that_is_named_is_in_the_table() -> None:
    known = set(conflicts())
    named = {(str(file), one) for file, text in texts() for one in _CONFLICT.findall(text)}
    assert sorted(one for one in named if one[1] not in known) == []


def test_each_page_is_in_the_index() -> None:
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    pages = {page.name for page in PAGES.glob("*.md")} - {"README.md"}
    assert sorted(page for page in pages if f"({page})" not in index) == []


def test_every_design_record_that_is_named_exists() -> None:
    records = {page.name[:4] for page in (TOP / "docs" / "design").glob("[0-9]*.md")}
    named = {(str(file), one) for file, text in texts() for one in re.findall(r"docs/design/(\d{4})", text)}
    assert named
    assert sorted(one for one in named if one[1] not in records) == []


def test_the_source_package_has_the_pages_that_its_tests_read() -> None:
    packed = {one.relative_path for one in SdistBuilder(str(TOP)).recurse_included_files()}
    pages = {str(page.relative_to(TOP)) for page in (TOP / "docs").rglob("*.md")}
    assert sorted({*pages, "CONTRIBUTING.md", "tests/rules/book.py"} - packed) == []
