"""Subject transforms: ``orders.*.*`` to ``shop.$2.{{partition(8,1)}}`` and the like (CFG-24).

A transform is compiled once and applied per message. What cannot be compiled raises :class:`BadSource` or
:class:`BadDestination`, whose texts are those of nats-server; applying never raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from railgun.model import subjects
from railgun.model.stream_config import SubjectTransform

Tokens = Sequence[str]
Part = Callable[[Tokens], str]

_MUSTACHE = re.compile(r"\{\{\s*([A-Za-z]+)\s*\((.*)\)\s*\}\}")
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,10}")
_MOST = 2**31 - 1


class BadSource(ValueError):
    """The source of a transform is not a valid subject."""


class BadDestination(ValueError):
    """The destination does not fit its source, or calls a function that it cannot."""


class Transform:
    """A compiled transform: ``apply`` gives the new subject, or None for one that the source does not match."""

    __slots__ = ("_filter", "_parts", "_rest", "dest", "src")

    def __init__(self, transform: SubjectTransform) -> None:
        self.src = transform.src or ">"
        self.dest = dest = transform.dest
        if not subjects.is_valid(self.src):
            raise BadSource(f"invalid subject {self.src}")
        source = self.src.split(".")
        wildcards = [at for at, token in enumerate(source) if token == "*"]
        # An empty destination renames nothing: every subject stays as it is.
        tokens = _destination_tokens(dest) if dest else []
        if dest and (("*" in tokens) or (tokens[-1] == ">") != (source[-1] == ">")):
            raise BadDestination("invalid subject")
        self._rest = len(source) - 1 if tokens and tokens[-1] == ">" else None
        plain = tokens[:-1] if self._rest is not None else tokens
        self._parts: list[Part] = [_part(token, wildcards) for token in plain]
        self._filter = subjects.Filter(self.src)

    def apply(self, subject: str) -> str | None:
        """The subject after the transform; None if the source does not match it."""
        if not self._filter.matches(subject):
            return None
        if not self.dest:
            return subject
        tokens = subject.split(".")
        made = [part(tokens) for part in self._parts]
        if self._rest is not None:
            made += tokens[self._rest :]
        return ".".join(made)


def destination_pattern(dest: str) -> str:
    """The pattern of all subjects that a destination can become."""
    reached = [_stands_for(token) for token in dest.split(".")] if dest else [">"]
    return ".".join(reached[: reached.index(">") + 1] if ">" in reached else reached)


def _stands_for(token: str) -> str:
    """What a token of a destination can become: itself, any one token, or any number of them."""
    if token.startswith("{{") and re.search("split|slice", token, re.IGNORECASE):
        return ">"
    return "*" if token.startswith(("{{", "$")) else token


def _destination_tokens(dest: str) -> list[str]:
    """The tokens of a destination; a dot inside ``{{…}}`` does not part them but is refused by the functions."""
    tokens = dest.split(".")
    for at, token in enumerate(tokens):
        if not token or (token == ">" and at < len(tokens) - 1):
            raise BadDestination(_told("invalid transform", token))
        if not _looks_like_function(token) and re.search(r"[\x00 \t\r\n\f]", token):
            raise BadDestination("invalid mapping destination: invalid transform")
    return tokens


def _looks_like_function(token: str) -> bool:
    return len(token) > 4 and token.startswith("{{") and token.endswith("}}")


def _told(reason: str, token: str) -> str:
    text = f"invalid mapping destination: {reason}"
    return f"{text} in {token}" if token else text


def _part(token: str, wildcards: list[int]) -> Part:
    """The function that makes this token of the destination."""
    if token.startswith("$") and _WHOLE_NUMBER.fullmatch(token[1:]):
        return _wildcard(_source_token(token[1:], token, wildcards))
    if not _looks_like_function(token):
        return lambda _tokens: token
    call = _MUSTACHE.fullmatch(token)
    name = call[1].lower() if call else ""
    args = [arg.strip(" ") for arg in re.split(r",\s*", call[2])] if call else []
    if name == "partition":
        return _partition(_number(args[0], token), [_source_token(arg, token, wildcards) for arg in args[1:]])
    expected = 1 if name == "wildcard" else 2
    if name != "wildcard" and name not in _RESHAPE and name != "split":
        raise BadDestination(_told("unknown function", token))
    if len(args) < expected or args == [""]:
        raise BadDestination(_told("not enough arguments passed to the function", token))
    if len(args) > expected:
        raise BadDestination(_told("too many arguments passed to the function", token))
    at = _source_token(args[0], token, wildcards)
    if name == "wildcard":
        return _wildcard(at)
    if name == "split":
        if not args[1] or " " in args[1]:
            raise BadDestination(_told("function argument is invalid or in the wrong format", token))
        return _split(at, args[1])
    return _reshaped(_RESHAPE[name], at, _number(args[1], token))


def _number(text: str, token: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text) or not -_MOST <= int(text) <= _MOST:
        raise BadDestination(_told("function argument is invalid or in the wrong format", token))
    return int(text)


def _source_token(text: str, token: str, wildcards: list[int]) -> int:
    """The place in the subject of the wildcard that a destination names by its number (from 1)."""
    number = _number(text, token)
    if not 1 <= number <= len(wildcards):
        raise BadDestination(_told("wildcard index out of range", f"{token}: [{number}]"))
    return wildcards[number - 1]


def _wildcard(at: int) -> Part:
    return lambda tokens: tokens[at]


def _partition(buckets: int, places: list[int]) -> Part:
    """FNV-1a of the named tokens, or of the whole subject where none is named."""

    def part(tokens: Tokens) -> str:
        if buckets <= 0:
            return "0"
        key = "".join(tokens[at] for at in places) if places else ".".join(tokens)
        return str(_fnv1a(key.encode("utf-8", "surrogatepass")) % buckets)

    return part


def _fnv1a(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def _split(at: int, separator: str) -> Part:
    def part(tokens: Tokens) -> str:
        return ".".join(piece for piece in tokens[at].split(separator) if piece) or tokens[at]

    return part


def _reshaped(reshape: Callable[[str, int], str], at: int, size: int) -> Part:
    """A token too short for the size, and any token with a size below one, stays as it is."""

    def part(tokens: Tokens) -> str:
        token = tokens[at]
        return reshape(token, size) if 0 < size < len(token) else token

    return part


def _slices(token: str, first: int, size: int) -> Iterator[str]:
    if first:
        yield token[:first]
    for start in range(first, len(token), size):
        yield token[start : start + size]


_RESHAPE: dict[str, Callable[[str, int], str]] = {
    "splitfromleft": lambda token, size: f"{token[:size]}.{token[size:]}",
    "splitfromright": lambda token, size: f"{token[:-size]}.{token[-size:]}",
    "slicefromleft": lambda token, size: ".".join(_slices(token, 0, size)),
    "slicefromright": lambda token, size: ".".join(_slices(token, len(token) % size, size)),
    "left": lambda token, size: token[:size],
    "right": lambda token, size: token[-size:],
}
