"""Numbers as Avro writes them: seven bits a byte, the lowest first; all bytes but the last say that another follows."""

from __future__ import annotations

from typing import Final

# Two bytes at a time cost half as much as one by one (seen). The bytes of each number of 14 bits:
LAST: Final = [bytes((low,) if low < 0x80 else (low & 0x7F | 0x80, low >> 7)) for low in range(0x4000)]
"""… where it ends,"""
FOLLOWED: Final = [bytes((low & 0x7F | 0x80, low >> 7 | 0x80)) for low in range(0x4000)]
"""… and where more follow."""


def varint(value: int) -> bytes:
    """A number that is not negative. Raises OverflowError for one of more than 64 bits."""
    if value < 0x4000:
        return LAST[value]
    if value < 0x10000000:
        return FOLLOWED[value & 0x3FFF] + LAST[value >> 14]
    if value >= 1 << 64:
        raise OverflowError(f"{value} has more than 64 bits")
    return FOLLOWED[value & 0x3FFF] + varint(value >> 14)
