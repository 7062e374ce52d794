"""Where a value of a key-value bucket was stored (KV-40): two headers that its owner gives to each message that is published.

What a publisher wrote under their names is replaced. They count as bytes of the message, but not towards its largest size: no
publisher knows how long they are. Copies of messages keep what they have.
"""

from __future__ import annotations

from railgun.model import headers as h
from railgun.model.headers import Headers

_NAMES = frozenset({h.KV_ORIGIN_SERVER, h.KV_ORIGIN_CLUSTER})


def origin_headers(node: str, cluster: str) -> Headers:
    """The headers of all that the node stores; one pair that the messages share."""
    return (
        (h.KV_ORIGIN_SERVER, node.encode("utf-8")),
        (h.KV_ORIGIN_CLUSTER, cluster.encode("utf-8")),
    )


def without_origin(headers: list[Headers]) -> list[Headers]:
    """The headers of messages without what a publisher says of their origin."""
    if _NAMES.isdisjoint(name for given in headers for name, _ in given):
        return headers
    return [[pair for pair in given if pair[0] not in _NAMES] for given in headers]


def with_origin(headers: list[Headers], origin: Headers) -> list[Headers]:
    """The headers of messages as they are stored."""
    return [(*given, *origin) if given else origin for given in headers] if origin else headers
