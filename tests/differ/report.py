"""Findings as a person reads them: a script of the sequence, and what both said at its end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.differ.operations import dumps, shown
from tests.differ.running import Finding


def script(finding: Finding) -> str:
    """The sequence up to the difference, both answers, and the JSON to run it again."""
    lines = [f"{number + 1:>3}  {shown(one)}" for number, one in enumerate(finding.sequence)]
    lines += [
        "",
        "     nats-server:",
        _indented(finding.nats),
        "     railgun:",
        _indented(finding.railgun),
        "",
    ]
    for one in finding.differences:
        lines.append(f"     {one.place or 'the answer'}: {_short(one.nats)} ≠ {_short(one.railgun)}")
    return "\n".join([*lines, "", "     again, with --replay FILE:", dumps(finding.sequence)])


def grouped(findings: Mapping[str, Sequence[Finding]]) -> str:
    """One line for each kind, the most frequent first."""
    order = sorted(findings.items(), key=lambda item: -len(item[1]))
    return "\n".join(f"{len(found):>5}  {kind}" for kind, found in order)


def _indented(value: Any) -> str:
    return "\n".join("       " + json.dumps(frame, ensure_ascii=False) for frame in value) or "       silence"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:199] + "…"
