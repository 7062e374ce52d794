"""Subjects and their wildcards: what is valid, what matches, what overlaps (SUB).

Everything here is a pure function of texts. The functions are total: a text that is not a valid pattern matches
nothing and raises nothing. Code that takes a subject from outside asks :func:`is_valid` or :func:`is_literal` first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_TOKEN = r"[^.\x00 \t\r\n\f]+"
# SUB-01: tokens joined by dots; SUB-02: none is empty; SUB-03: none holds white space
_SUBJECT = re.compile(rf"{_TOKEN}(?:\.{_TOKEN})*")
_LONGEST_EXPRESSION = 1_024  # compiling costs time: longer patterns, and several at once, go to the tree


def is_valid(pattern: str) -> bool:
    """Whether the text is a subject, with or without wildcards."""
    if _SUBJECT.fullmatch(pattern) is None:
        return False
    # SUB-06: `>` stands at the end or nowhere; SUB-07: inside a longer token it is a plain character
    return ">" not in pattern or ">" not in pattern.split(".")[:-1]


def is_literal(subject: str) -> bool:
    """Whether a message can be published to it: valid, and no token is a wildcard (SUB-08)."""
    if _SUBJECT.fullmatch(subject) is None:
        return False
    if "*" not in subject and ">" not in subject:
        return True
    return not has_wildcard(subject)


def has_wildcard(pattern: str) -> bool:
    """Whether some whole token is ``*`` or ``>``."""
    tokens = pattern.split(".")
    return "*" in tokens or ">" in tokens


def matches(pattern: str, subject: str) -> bool:
    """Whether the literal subject is one of those that the pattern stands for (SUB-04, SUB-05)."""
    return pattern == subject or is_subset(subject, pattern)


def collides(a: str, b: str) -> bool:
    """Whether some literal subject matches both patterns (SUB-09)."""
    tokens_a, tokens_b = a.split("."), b.split(".")
    for token_a, token_b in zip(tokens_a, tokens_b, strict=False):
        if token_a == ">" or token_b == ">":
            return True
        if token_a != token_b and token_a != "*" and token_b != "*":
            return False
    return len(tokens_a) == len(tokens_b)


def intersection(a: str, b: str) -> str | None:
    """The pattern of the subjects that match both patterns; None if there are none."""
    if not collides(a, b):
        return None
    tokens_a, tokens_b = a.split("."), b.split(".")
    common: list[str] = []
    for token_a, token_b in zip(tokens_a, tokens_b, strict=False):
        if token_a == ">":
            return ".".join([*common, *tokens_b[len(common) :]])
        if token_b == ">":
            return ".".join([*common, *tokens_a[len(common) :]])
        common.append(token_b if token_a == "*" else token_a)
    return ".".join(common)


def is_subset(a: str, b: str) -> bool:
    """Whether everything that ``a`` matches is matched by ``b`` too (SUB-10)."""
    tokens_a, tokens_b = a.split("."), b.split(".")
    last = len(tokens_b) - 1
    for index, (token_a, token_b) in enumerate(zip(tokens_a, tokens_b, strict=False)):
        if token_b == ">" and index == last:
            return True
        if token_a != token_b and (token_b != "*" or token_a == ">"):
            return False
    return len(tokens_a) == len(tokens_b)


class Filter:
    """One or many patterns, compiled once: a subject passes if any of them matches it.

    No patterns, an empty one, or ``>`` select everything (SUB-11). Compare and hash by the patterns.
    """

    __slots__ = ("_among", "_compiled", "everything", "literal", "matches", "patterns")

    def __init__(self, patterns: str | Iterable[str] = ()) -> None:
        given = (patterns,) if isinstance(patterns, str) else tuple(dict.fromkeys(patterns))
        self.everything = not given or "" in given or ">" in given
        self.patterns: tuple[str, ...] = (">",) if self.everything else given
        self.literal: str | None = None
        if len(self.patterns) == 1 and not has_wildcard(self.patterns[0]):
            self.literal = self.patterns[0]
        self._compiled: Callable[[str], bool] | None = None
        # Whether a literal subject passes. Compiling costs far more than one match, and many filters are never asked.
        self.matches: Callable[[str], bool] = self._compile_and_match
        self._among: re.Pattern[str] | None = None

    def places(self, joined: str) -> list[int]:
        """Which subjects of a text that holds each once, with NUL between them, pass: their places, ascending.

        One search through the whole text, where the patterns are short enough: most texts hold many subjects.
        """
        if self.everything:
            return list(range(joined.count("\0") + 1))
        if sum(map(len, self.patterns)) > _LONGEST_EXPRESSION:
            return [place for place, subject in enumerate(joined.split("\0")) if self.matches(subject)]
        if self._among is None:
            one_of = "|".join(map(_expression_among, self.patterns))
            # Alone, a pattern stands bare: then the search leaps from one text that begins like it to the next.
            self._among = re.compile(
                f"\0{one_of}(?=\0)" if len(self.patterns) == 1 else f"\0(?:{one_of})(?=\0)"
            )
        text, place, at, found = f"\0{joined}\0", 0, 1, []
        for match in self._among.finditer(text):
            place += text.count("\0", at, match.start() + 1)
            at = match.start() + 1
            found.append(place)
        return found

    def _compile_and_match(self, subject: str) -> bool:
        compiled = self._compiled
        if compiled is None:
            self.matches = self._compiled = compiled = self._compile()
        return compiled(subject)

    def _compile(self) -> Callable[[str], bool]:
        if self.everything:
            return _anything
        literals = frozenset(pattern for pattern in self.patterns if not has_wildcard(pattern))
        wild = [pattern for pattern in self.patterns if pattern not in literals]
        if not wild:
            return literals.__contains__
        if len(wild) == 1 and len(wild[0]) <= _LONGEST_EXPRESSION:
            expression = _expression(wild[0])
            if not literals:
                return lambda subject: expression.fullmatch(subject) is not None
            return lambda subject: subject in literals or expression.fullmatch(subject) is not None
        tree = _tree(wild)
        return lambda subject: subject in literals or _in_tree(tree, subject.split("."))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and set(self.patterns) == set(other.patterns)

    def __hash__(self) -> int:
        return hash(frozenset(self.patterns))

    def __repr__(self) -> str:
        return f"Filter({list(self.patterns)!r})"


def _anything(_subject: str) -> bool:
    return True


def _expression_among(pattern: str) -> str:
    """The pattern as an expression for a text of many subjects, with NUL between them."""
    tokens = pattern.split(".")
    parts = [r"[^.\0]+" if token == "*" else re.escape(token) for token in tokens]
    if tokens[-1] == ">":
        parts[-1] = r"[^\0]+"
    return r"\.".join(parts)


def _expression(pattern: str) -> re.Pattern[str]:
    tokens = pattern.split(".")
    parts = [r"[^.]+" if token == "*" else re.escape(token) for token in tokens]
    if tokens[-1] == ">":
        parts[-1] = r"(?s:.+)"
    return re.compile(r"\.".join(parts))


_Tree = dict[str, "_Tree"]  # token -> what may follow; the key "" marks the end of a pattern


def _tree(patterns: Iterable[str]) -> _Tree:
    root: _Tree = {}
    for pattern in patterns:
        _plant(root, pattern)
    return root


def _plant(root: _Tree, pattern: str) -> None:
    node = root
    for token in pattern.split("."):
        node = node.setdefault(token, {})
    node[""] = {}


def _in_tree(root: _Tree, tokens: list[str]) -> bool:
    nodes = [root]
    for token in tokens:
        following = []
        for node in nodes:
            rest = node.get(">")
            if rest is not None and "" in rest:
                return True
            following += [found for key in (token, "*") if (found := node.get(key)) is not None]
        if not following:
            return False
        nodes = following
    return any("" in node for node in nodes)


class Patterns:
    """Many patterns, and whether others meet them, without a look at each.

    A pattern costs what its tokens and the wildcards that it meets cost. One by one, the few thousand filters of a single
    consumer would keep its shard busy for minutes.
    """

    __slots__ = ("_tree",)

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._tree = _tree(patterns)

    def add(self, pattern: str) -> None:
        _plant(self._tree, pattern)

    def collide(self, pattern: str) -> bool:
        """Whether some literal subject matches both the pattern and one of these (SUB-09)."""
        nodes = [self._tree]
        for token in pattern.split("."):
            if token == ">":
                return any(key for node in nodes for key in node)
            if any(">" in node for node in nodes):
                return True
            if token == "*":
                nodes = [child for node in nodes for key, child in node.items() if key]
            else:
                nodes = [
                    child for node in nodes for key in (token, "*") if (child := node.get(key)) is not None
                ]
            if not nodes:
                return False
        return any("" in node for node in nodes)

    def cover(self, pattern: str) -> bool:
        """Whether everything that the pattern matches is matched by one of these alone (SUB-10)."""
        nodes = [self._tree]
        for token in pattern.split("."):
            if any("" in node.get(">", ()) for node in nodes):
                return True
            keys = (token,) if token in ("*", ">") else (token, "*")
            nodes = [child for node in nodes for key in keys if (child := node.get(key)) is not None]
            if not nodes:
                return False
        return any("" in node for node in nodes)
