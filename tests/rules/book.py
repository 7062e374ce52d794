"""The list of rules and the exemptions, read from their files beside this module."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
REPORT: Final = HERE.parents[1] / ".railgun-rules.json"
BACKENDS: Final = ("memory", "kafka")
NO_BACKEND: Final = "neither"
MOST_RULES: Final = 5  # of one test


def rule_ids() -> list[str]:
    """Every rule, in the order of SEMANTICS."""
    return (HERE / "rule_ids.txt").read_text(encoding="utf-8").split()


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
