"""From an async module to its sync twin, token by token.

``async`` and ``await`` go, names lose their ``Async``, the special methods of asynchronous protocols become the plain ones.
Texts follow the same names; a paragraph of a docstring that begins with ``Async:`` is for async users only. Code that differs
in any other way is not translated: it is written by hand, outside the two rooms.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

NAMES = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "StopAsyncIteration": "StopIteration",
    "run_async": "run",
    "connect_async": "connect",
    "aio": "sync",
}
KEYWORDS = ("async", "await")
# Words of async code that have no sync twin of the same form: a module that needs them is written by hand.
LEFT_OVER = re.compile(
    r"\b(async|await|awaited|asyncio|anyio|coroutine|event loop|a(closing|next|iter|close|throw|send)|\w*awaitable"
    r"|asynccontextmanager|asyncgenerator|\w+_async_\w+|__await__|cancellederror)\b",
    re.IGNORECASE,
)

_CLASS = re.compile(r"\bAsync(?=[A-Z])")
_IN_TEXTS = (
    (re.compile(r"\basync (?=for\b|with\b)"), ""),
    (re.compile(r"\b([Aa])n async (?=context manager\b)"), r"\1 "),
    (re.compile(r"\bawait "), ""),
    *((re.compile(rf"\b{name}\b"), twin) for name, twin in NAMES.items()),
    (_CLASS, ""),
)
_ASYNC_PARAGRAPH = re.compile(r"\n[ \t]*\n[ \t]*Async:.*?(?=\n[ \t]*\n|\n?[ \t]*\"\"\"\Z)", re.DOTALL)
_ONE_LINE = re.compile(r'\A("""[^\n]*?)\s*"""\Z')

Edit = tuple[int, int, str]  # from, to, what stands there instead


class Untranslatable(Exception):
    """The twin would still speak of async code; the text says where."""


def translate(source: str) -> str:
    """The sync twin of an async module, not formatted. Raises :class:`Untranslatable`."""
    twin = source
    for start, end, text in sorted(_edits(source), reverse=True):
        twin = twin[:start] + text + twin[end:]
    for number, line in enumerate(twin.splitlines(), 1):
        found = LEFT_OVER.search(line)
        if found is not None:
            raise Untranslatable(f"line {number} of the twin says {found[0]!r}: {line.strip()}")
    return twin


def _edits(source: str) -> Iterator[Edit]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        start = starts[token.start[0] - 1] + token.start[1]
        end = starts[token.end[0] - 1] + token.end[1]
        if token.type == tokenize.NAME and token.string in KEYWORDS:
            while source[end] in " \t":
                end += 1
            yield start, end, ""
        elif token.type == tokenize.NAME:
            yield start, end, _CLASS.sub("", NAMES.get(token.string, token.string))
        elif token.type == tokenize.COMMENT or tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE"):
            yield start, end, _text(source[start:end])


def _text(text: str) -> str:
    if text.startswith('"""'):
        text = _ONE_LINE.sub(r'\1"""', _ASYNC_PARAGRAPH.sub("", text))
    for pattern, twin in _IN_TEXTS:
        text = pattern.sub(twin, text)
    return text
