"""Wildcards of the conditions in one pack: which of them a subject matches, without asking each of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_END = ""  # in a node: the pattern that ends there; no token is empty


class WatchedPatterns:
    """Patterns as a tree of tokens. A subject is looked up once, whatever the number of patterns."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._root: dict[str, Any] = {}
        self._found: dict[str, list[str]] = {}
        for pattern in patterns:
            node = self._root
            for token in pattern.split("."):
                node = node.setdefault(token or "\0", {})  # an empty token is not a token of a subject
            node[_END] = pattern

    def __bool__(self) -> bool:
        return bool(self._root)

    def matching(self, subject: str) -> list[str]:
        """The patterns that match the literal subject."""
        found = self._found.get(subject)
        if found is None:
            found = self._found[subject] = self._walk(subject.split("."))
        return found

    def _walk(self, tokens: list[str]) -> list[str]:
        found: list[str] = []
        nodes = [self._root]
        for token in tokens:
            following = []
            for node in nodes:
                rest = node.get(">")
                if rest is not None and _END in rest:
                    found.append(rest[_END])
                following += [reached for key in (token, "*") if (reached := node.get(key)) is not None]
            if not following:
                return found
            nodes = following
        return found + [node[_END] for node in nodes if _END in node]
