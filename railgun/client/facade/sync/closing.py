# Generated from ../aio/closing.py by `python -m tests.twins`. Change that file, then run `make twins`.
"""Things of the facade that are closed, and used as context managers."""

from __future__ import annotations

from typing import Self


class Closes:
    """A context manager that closes itself when it is left."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End it. The second call does nothing."""
        raise NotImplementedError
