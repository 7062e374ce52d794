"""Readiness of a cluster: every shard has an owner that answers a ping."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from railgun.client.facade.railgun import Railgun, connect
from railgun.client.operations.shards import ping
from railgun.errors import ConnectionLost, NotAuthorized, NoWorker, RequestTimeout

logger = logging.getLogger(__name__)

_AT_ONCE = 16  # shards
_PATIENCE = 2.0  # for one ping: a shard that is being restored answers later pings


def wait_for_workers(
    bootstrap: str, prefix: str = "railgun", timeout: float = 60.0, kafka: Mapping[str, Any] | None = None
) -> None:
    """Return once every shard answered. Raises the last reason (NoWorker, RequestTimeout, …) when the time is over.

    Wrong credentials and missing permissions are raised at once: waiting does not mend them.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            with connect(bootstrap, prefix=prefix, timeout=_PATIENCE, kafka=kafka) as railgun:
                _ping_all(railgun, deadline)
            return
        except NotAuthorized:
            raise
        except (NoWorker, RequestTimeout, ConnectionLost) as error:
            if time.monotonic() >= deadline:
                raise
            logger.debug("not ready yet: %s", error)
            time.sleep(0.1)  # between two pings


def _ping_all(railgun: Railgun, deadline: float) -> None:
    _ping(railgun, 0, deadline)  # alone: it waits for the workers, and the others then find them there
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="railgun-ping") as pool:
        others = range(1, railgun.connection.partitions)
        for answered in [pool.submit(_ping, railgun, shard, deadline) for shard in others]:
            answered.result()


def _ping(railgun: Railgun, shard: int, deadline: float) -> None:
    while True:
        try:
            railgun.call(ping(shard))
            return
        except (NoWorker, RequestTimeout):  # anything else is mended by connecting anew, if at all
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)
