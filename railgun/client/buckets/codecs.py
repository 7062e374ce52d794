"""Key codecs: what a program calls a key, and what the bucket stores it as (KV-41).

A codec is any object with the methods of :class:`KeyCodec`. Whether a key is valid is judged after encoding (KV-02), so a
codec that escapes characters makes every text a key.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Final, Protocol

WILDCARDS: Final = ("*", ">")
ROOT: Final = "_root_"  # KV-44: a subject cannot begin with a dot, so a leading slash has a name


class KeyCodec(Protocol):
    """The two directions of a key. Both raise ValueError for what they cannot turn; the text says why.

    ``keeps_wildcards``: a pattern (``orders.*``, ``orders.>``) is encoded to the pattern of the encoded keys, so that it can be
    watched. Without it a pattern watch is refused (KV-43).
    """

    @property
    def keeps_wildcards(self) -> bool: ...

    def encode(self, key: str) -> str: ...

    def decode(self, key: str) -> str: ...


class PlainKeys:
    """The codec of a bucket that was given none: a key is stored as it is."""

    keeps_wildcards: Final = True

    def __repr__(self) -> str:
        return "PlainKeys()"

    def encode(self, key: str) -> str:
        return key

    def decode(self, key: str) -> str:
        return key


class Base64Keys:
    """Keys of any characters, as base64 of their UTF-8: ``Acme Inc.`` is stored as ``QWNtZSBJbmMu`` (KV-41).

    It is the URL-safe alphabet without padding, because a key may hold ``-`` and ``_`` but no ``+`` and no ``=`` (KV-02).
    ``tokens``: for dotted keys (KV-03), each part between dots is encoded by itself and wildcards stay, so that patterns can
    be watched. This is the form that NATS clients use (ADR-54).
    """

    def __init__(self, *, tokens: bool = False) -> None:
        self._tokens = tokens

    def __repr__(self) -> str:
        return f"Base64Keys(tokens={self._tokens})"

    @property
    def keeps_wildcards(self) -> bool:
        return self._tokens

    def encode(self, key: str) -> str:
        if not self._tokens:
            return to_base64(key.encode("utf-8"))
        parts = [part if part in WILDCARDS else to_base64(part.encode("utf-8")) for part in key.split(".")]
        return ".".join(parts)

    def decode(self, key: str) -> str:
        if not self._tokens:
            return from_base64(key).decode("utf-8")
        return ".".join(from_base64(part).decode("utf-8") for part in key.split("."))


class PathKeys:
    """Keys written as paths, for buckets with dotted keys: ``/a/b/`` is stored as ``_root_.a.b`` (KV-44).

    A trailing slash is not kept: ``/a/b/`` and ``/a/b`` are one key. A path with a dot in it is refused, since it would come back
    as another path, and so is one that begins with ``_root_``.
    """

    keeps_wildcards: Final = True

    def __repr__(self) -> str:
        return "PathKeys()"

    def encode(self, key: str) -> str:
        if "." in key:
            raise ValueError("a path has slashes and no dots")
        if key == ROOT or key.startswith(f"{ROOT}/"):
            raise ValueError(f"{ROOT} stands for a leading slash: begin the path with / instead")
        if key == "/":
            return ROOT
        rooted = ROOT + key if key.startswith("/") else key
        return rooted.removesuffix("/").replace("/", ".")

    def decode(self, key: str) -> str:
        if "/" in key:
            raise ValueError("an encoded path has dots and no slashes")
        if key == ROOT:
            return "/"
        path = key.replace(".", "/")
        return path.removeprefix(ROOT) if path.startswith(f"{ROOT}/") else path


class KeyChain:
    """Several key codecs as one: the first encodes first and decodes last (KV-43)."""

    def __init__(self, *codecs: KeyCodec) -> None:
        self._codecs = codecs

    def __repr__(self) -> str:
        return f"KeyChain({', '.join(map(repr, self._codecs))})"

    @property
    def keeps_wildcards(self) -> bool:
        """Whether all of them do: one that does not hides the wildcards of the others (KV-43)."""
        return all(codec.keeps_wildcards for codec in self._codecs)

    def encode(self, key: str) -> str:
        for codec in self._codecs:
            key = codec.encode(key)
        return key

    def decode(self, key: str) -> str:
        for codec in reversed(self._codecs):
            key = codec.decode(key)
        return key


def one_key_codec(given: KeyCodec | Sequence[KeyCodec] | None) -> KeyCodec:
    """The codec of a bucket from what the program gave: none, one, or several that are chained."""
    if given is None:
        return PlainKeys()
    return KeyChain(*given) if isinstance(given, Sequence) else given


def to_base64(data: bytes) -> str:
    """The bytes in the URL-safe alphabet, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def from_base64(text: str) -> bytes:
    """The bytes of such a text. Raises ValueError unless it is exactly what :func:`to_base64` makes.

    The decoder of Python skips characters that it does not know, and bits that no encoder sets; two stored keys would
    then be one key of the program.
    """
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(f"not base64: {error}") from error
    if to_base64(data) != text:
        raise ValueError("not base64 in the URL-safe form without padding")
    return data
