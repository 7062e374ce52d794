"""Things of the facade that are closed, and used as context managers."""

from __future__ import annotations

from typing import Self


class AsyncCloses:
    """An async context manager that closes itself when it is left."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End it. The second call does nothing."""
        raise NotImplementedError
