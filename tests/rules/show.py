"""``python -m tests.rules.show``: the rules that no passing test shows, by section, and how many are shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from itertools import groupby

from tests.rules.book import BACKENDS, REPORT, exemptions, rule_ids

Outcomes = Mapping[str, Mapping[str, Mapping[str, bool]]]  # rule, backend, test, passed


def missing(rule: str, outcomes: Outcomes, exempt: Mapping[str, set[str]]) -> str | None:
    """Why the rule does not count as shown; None if it does."""
    tests = outcomes.get(rule, {})
    failed = sorted(backend for backend, results in tests.items() if not all(results.values()))
    if failed:
        return f"fails ({', '.join(failed)})"
    if not any(tests.values()):
        return "no test"
    lacking = [one for one in BACKENDS if not tests.get(one) and one not in exempt.get(rule, ())]
    return f"not on {', '.join(lacking)}" if lacking else None


def lines(outcomes: Outcomes, exempt: Mapping[str, set[str]]) -> list[str]:
    """The report."""
    ids = rule_ids()
    why = {rule: reason for rule in ids if (reason := missing(rule, outcomes, exempt)) is not None}
    result = []
    for section, group in groupby(ids, key=lambda rule: rule.split("-")[0]):
        rules = list(group)
        open_rules = [rule for rule in rules if rule in why]
        if not open_rules:
            continue
        result.append(f"{section}: {len(rules) - len(open_rules)} of {len(rules)}")
        if len(open_rules) == len(rules) and {why[rule] for rule in rules} == {"no test"}:
            result.append("  no test yet")
            continue
        result += [f"  {rule}  {why[rule]}" for rule in open_rules]
    return [*result, f"{len(ids) - len(why)} of {len(ids)} rules shown"]


def main() -> int:
    if not REPORT.exists():
        print("no test run was recorded yet: run `make rules`", file=sys.stderr)
        return 1
    print("\n".join(lines(json.loads(REPORT.read_text(encoding="utf-8")), exemptions())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
