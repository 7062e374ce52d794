"""What Spark says when it fails, in one sentence: its own errors are pages of Java."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from railgun.errors import RailgunError

_CAUSES: Final = 10  # that are followed, of one exception
_ENDED: Final = "its Java has ended: it was killed, or had too little memory (--conf spark.driver.memory=4g gives it more)"
# Whoever still waits when the memory is used up hears one of these.
_OUT_OF_MEMORY: Final = ("java.lang.OutOfMemoryError", "SparkContext was shut down")


@contextmanager
def in_words() -> Iterator[None]:
    """Raises RailgunError with Spark's own sentence where it fails in the block, or in the function that this decorates."""
    try:
        yield
    except RailgunError:
        raise
    except (Py4JNetworkError, ConnectionError, EOFError) as error:  # of the connection to it
        raise RailgunError(f"Spark could not do it: {_ENDED}") from error
    except (PySparkException, Py4JError) as error:
        if isinstance(error, Py4JJavaError):
            said = _with_cause(error.java_exception)
        else:
            said = _first_line(str(error))
        if any(sign in said for sign in _OUT_OF_MEMORY):
            said = _ENDED
        raise RailgunError(f"Spark could not do it: {said or type(error).__name__}") from error


def _with_cause(exception: Any) -> str:
    """What an exception of Java says, and what caused it: that a task could not write says not that the disk is full."""
    cause = exception
    for _ in range(_CAUSES):
        cause = cause.getCause() or cause
    said, why = (_first_line(str(one.toString())) for one in (exception, cause))
    return said if why in said else f"{said} ({why})"


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    return next((line for line in lines if line), "")
