"""This checkout: where it is, and how a process of another folder comes to run its code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    """The environment of this process, with the checkout in front of anything that is installed."""
    return {**os.environ, "PYTHONPATH": str(TOP)}
