"""Names and first sequences of streams: which there can be."""

from __future__ import annotations

import re

from railgun.model.refusals import BAD_STREAM_NAME, Refusal, invalid_config

MAX_FIRST_SEQUENCE = 2**62  # above, the sequences of a long life would leave 64 bits
MAX_NAME = 255
_NAME = re.compile(r"[^\x00 \t\r\n\f.*>\\/]+")


def name_refused(name: str) -> Refusal | None:
    """Why no stream can have this name (CFG-01, CFG-02)."""
    if not _NAME.fullmatch(name):
        return BAD_STREAM_NAME
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME:
        return invalid_config(f"stream name is too long, maximum allowed is {MAX_NAME}")
    return None
