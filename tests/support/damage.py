"""Damage to files on disk, as a failing medium does it."""

from __future__ import annotations

from pathlib import Path


def damage_data(folder: Path) -> int:
    """Flip a byte in every 512 of the data of each table file, and leave how it is found (index, footer) alone; how many files."""
    return sum(_flip(path, 0.0, 0.6) for path in folder.glob("*.sst"))


def damage_ends(folder: Path) -> int:
    """Flip bytes where each table file says what is in it; how many files."""
    return sum(_flip(path, 0.6, 1.0) for path in folder.glob("*.sst"))


def _flip(path: Path, begin: float, end: float) -> bool:
    data = bytearray(path.read_bytes())
    for place in range(int(len(data) * begin), int(len(data) * end), 512):
        data[place] ^= 0xFF
    with path.open("r+b") as file:  # in place: a store that is open has the file, not its name
        file.write(data)
    return True
