"""The headers of a record as confluent-kafka brings it, whatever somebody wrote there."""

from __future__ import annotations

from typing import Any

Given = list[tuple[str, bytes | None]]


def headers_of(message: Any) -> Given:
    """The headers of a record; none if a name among them is not UTF-8.

    confluent-kafka (2.16 too) answers those with an exception *and* a list that has null pointers in it: whoever looks at the list
    ends the process. A plain ``message.headers()`` may be called by the interpreter in a way that overlooks the exception; ``map``
    never overlooks it. The headers are then taken out of the message, so that nobody meets them again.
    """
    try:
        (given,) = map(type(message).headers, (message,))
    except SystemError:
        message.set_headers([])
        return []
    return given or []
