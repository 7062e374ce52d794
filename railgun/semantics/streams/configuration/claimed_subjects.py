"""The subjects that streams claim, as a tree of tokens: who claims what a pattern stands for, without a look at each.

A question costs what its tokens and the wildcards that it meets cost, however many streams and subjects there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class _Node:
    """What may follow a row of tokens, and the streams that claim the pattern which ends here."""

    __slots__ = ("following", "streams")

    def __init__(self) -> None:
        self.following: dict[str, _Node] = {}
        self.streams: set[str] = set()

    def all_streams(self) -> Iterator[str]:
        """Those that end here or further on."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield from node.streams
            waiting += node.following.values()


class ClaimedSubjects:
    """Patterns by the name of the stream that claims them."""

    def __init__(self) -> None:
        self._root = _Node()
        self._patterns: dict[str, frozenset[str]] = {}

    def claim(self, stream: str, patterns: Iterable[str]) -> None:
        """The stream claims these, and no longer what it claimed before."""
        wanted, before = frozenset(patterns), self._patterns.pop(stream, frozenset())
        for pattern in before - wanted:
            self._remove(stream, pattern)
        for pattern in wanted - before:
            self._add(stream, pattern)
        if wanted:
            self._patterns[stream] = wanted

    def who_meets(self, pattern: str) -> set[str]:
        """The streams of which some literal subject matches both the pattern and one of theirs (SUB-09)."""
        found: set[str] = set()
        nodes = [self._root]
        for token in pattern.split("."):
            if token == ">":
                return found.union(
                    *(child.all_streams() for node in nodes for child in node.following.values())
                )
            for node in nodes:
                rest = node.following.get(">")
                if rest is not None:
                    found |= rest.streams
            if token == "*":
                nodes = [child for node in nodes for child in node.following.values()]
            else:
                nodes = [
                    child
                    for node in nodes
                    for key in (token, "*")
                    if (child := node.following.get(key)) is not None
                ]
            if not nodes:
                return found
        return found.union(*(node.streams for node in nodes))

    def _add(self, stream: str, pattern: str) -> None:
        node = self._root
        for token in pattern.split("."):
            following = node.following.get(token)
            if following is None:
                following = node.following[token] = _Node()
            node = following
        node.streams.add(stream)

    def _remove(self, stream: str, pattern: str) -> None:
        path = [self._root]
        tokens = pattern.split(".")
        for token in tokens:
            path.append(path[-1].following[token])
        path[-1].streams.discard(stream)
        for token, parent, node in zip(reversed(tokens), reversed(path[:-1]), reversed(path), strict=False):
            if node.streams or node.following:
                return
            del parent.following[token]
