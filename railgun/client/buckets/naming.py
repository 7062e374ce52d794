"""Names of buckets, and keys as they are stored: what they may be (KV-01 … KV-04)."""

from __future__ import annotations

import re

from railgun.errors import InvalidBucketName, InvalidKey

_BUCKET = re.compile(r"[a-zA-Z0-9_-]+")
_KEY = re.compile(r"[-/_a-zA-Z0-9]+")
_DOTTED = re.compile(r"[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*")
_RESERVED = "_kv"


def check_bucket(name: object) -> None:
    """Raises InvalidBucketName (KV-01)."""
    if not isinstance(name, str) or not _BUCKET.fullmatch(name):
        raise InvalidBucketName(name)


def check_key(encoded: str, key: str, *, dotted: bool) -> str:
    """The encoded key, which is judged, not the key (KV-02, KV-03). Raises InvalidKey."""
    if not (_DOTTED if dotted else _KEY).fullmatch(encoded):
        raise InvalidKey(key, _why(encoded, dotted=dotted))
    return encoded


def check_reserved(encoded: str, key: str) -> None:
    """Raises InvalidKey for a key that programs cannot write (KV-04)."""
    if encoded.startswith(_RESERVED):
        raise InvalidKey(key, f"keys that begin with {_RESERVED} are reserved")


def is_pattern(key: str) -> bool:
    """Whether the key, not yet encoded, stands for several: a token of it, or a part of a path, is a wildcard."""
    return any(token in ("*", ">") for token in re.split(r"[./]", key))


def check_pattern(encoded: str, key: str, *, dotted: bool) -> str:
    """The encoded pattern: a key in which tokens may be ``*``, and the last one ``>``. Raises InvalidKey."""
    tokens = encoded.split(".") if dotted else [encoded]
    for place, token in enumerate(tokens, 1):
        if token != "*" and not (token == ">" and place == len(tokens)):
            check_key(token, key, dotted=dotted)
    return encoded


def _why(encoded: str, *, dotted: bool) -> str:
    if not encoded:
        return "it is empty"
    if dotted:
        return "use letters, digits, - _ / = and single dots between them"
    return "use letters, digits, - _ and /, or a bucket with dotted_keys for . and ="
