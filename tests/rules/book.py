"""The rules, read from the pages of docs/rules, and the exemptions, read from the file beside this module."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
PAGES: Final = HERE.parents[1] / "docs" / "rules"
REPORT: Final = HERE.parents[1] / ".railgun-rules.json"
BACKENDS: Final = ("memory", "kafka")
NO_BACKEND: Final = "neither"
MOST_RULES: Final = 5  # of one test


_RULE: Final = re.compile(r"^- \*\*([A-Z]+-\d+)\*\* ", re.MULTILINE)


@cache
def rule_ids() -> tuple[str, ...]:
    """The ids of all rules in the order of the book: by page, then by line."""
    pages = sorted(PAGES.glob("[0-9]*.md"))
    return tuple(rule for page in pages for rule in _RULE.findall(page.read_text(encoding="utf-8")))


def exemptions(path: Path = HERE / "exemptions.toml") -> dict[str, set[str]]:
    """Rule to the backends on which it need not be shown. Raises ValueError for an entry that says nothing or lies."""
    known = set(rule_ids())
    exempt: dict[str, set[str]] = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("exempt", []):
        rules, backends = _checked(entry)
        for rule in rules:
            if rule not in known:
                raise ValueError(f"{path.name}: there is no rule {rule}")
            exempt.setdefault(rule, set()).update(backends)
    return exempt


def _checked(entry: dict[str, Any]) -> tuple[list[str], list[str]]:
    rules, backends, reason = entry.get("rules"), entry.get("backends"), entry.get("reason", "")
    if not rules or not backends or not set(backends) <= set(BACKENDS) or len(reason.split()) < 4:
        raise ValueError(f"an exemption needs rules, backends of {BACKENDS} and a reason: {entry}")
    return rules, backends


def faults(ids: Iterable[Any]) -> str | None:
    """What is wrong with the ids of one mark, None if nothing is."""
    named, known = list(ids), set(rule_ids())
    unknown = [one for one in named if one not in known]
    if unknown:
        return f"no such rule: {', '.join(map(str, unknown))}"
    return None if named else "a rule mark without ids"
