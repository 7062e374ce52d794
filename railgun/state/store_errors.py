"""What can be wrong with a store on disk, told from RocksDB's words: damaged, out of order, or held by another process.

======================  ==========================================================================
:class:`StoreDamaged`   what is on disk is not what was written: the changelog has it, wipe and restore
:class:`StoreFailed`    the disk takes or gives nothing (full, read-only, failing): wiping does not help
:class:`StoreInUse`     another process lives in the folder: not damaged, and not ours
======================  ==========================================================================
"""

from __future__ import annotations

import gc
import traceback
from pathlib import Path
from typing import Final


class StoreError(Exception):
    """The root of this module's errors; the text names the folder."""


class StoreDamaged(StoreError):
    """Something that was written cannot be read back."""


class StoreFailed(StoreError):
    """The disk, or the way to it, does not work; the text says what to do."""


class StoreInUse(StoreError):
    """RocksDB's own lock is held by another process."""


# RocksDB names its LOCK file where it could not get it. The word alone is not enough: every damaged b-lock has it.
_LOCK: Final = ("lock hold by current process", "while lock file", "/LOCK:")
# The kinds of RocksDB's status that speak of the content: of a file, of which files there are, of how they fit together.
_DAMAGE: Final = ("Corruption:", "Invalid argument:", "IO error: No such file or directory")


def told(error: BaseException, path: Path) -> StoreError:
    """RocksDB's error as one of ours. RocksDB itself has only texts: a kind, a colon, and what happened where."""
    text = str(error)
    if any(sign in text for sign in _LOCK):
        return StoreInUse(f"the store {path} is in use: {text}")
    # A value that is not JSON, or lacks a field, was read well and is not what was written.
    if text.startswith(_DAMAGE) or isinstance(error, ValueError | LookupError | TypeError):
        return StoreDamaged(f"the store {path} is damaged: {text}")
    return StoreFailed(
        f"the store {path} cannot be written or read: {text}. Nothing is lost, the changelog has it all: "
        "make room or replace the disk (or name another data_dir), and start the worker again"
    )


def let_go_of(error: BaseException | None) -> None:
    """Drop what the frames of a caught error still hold: one iterator among it keeps the store's lock."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
    gc.collect()
