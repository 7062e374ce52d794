"""Settings that bind the whole cluster: what the rules read of the ``cluster`` section."""

from __future__ import annotations

from typing import NamedTuple

API_LEVEL = 3  # what this server understands
NAMES_PAGE = 1_024  # names on one page of a list
LIST_PAGE = 256  # and infos
TRANSPORT_LIMIT = 1_048_576  # bytes of a message in a stream without a limit of its own
LARGEST_RECORD = 8 * 1024 * 1024  # of every topic
LARGEST_BODY = LARGEST_RECORD - 128 * 1024  # what fits into a record with its key, headers and framing
LARGEST_MESSAGE = (
    LARGEST_BODY - 128 * 1024
)  # what fits with all that railgun adds to it, where it is copied, too
HANDED_OVER_AT_ONCE = 1_000  # messages that are published together with one acknowledgement
LARGE_MESSAGE = 1024 * 1024  # one that is not sent inside an answer: the answer tells its place in the log


class ClusterLimits(NamedTuple):
    """Ceilings of the platform; 0 means none."""

    max_store_bytes: int = 0  # bytes of all streams of a shard together
    max_in_flight: int = 0  # messages that one drain takes; more are told to slow down
    require_max_bytes: bool = False  # a stream must set max_bytes
    max_stream_bytes: int = 0  # the highest max_bytes; also the ceiling of a stream that sets no max_bytes
    replicas: int = 1  # how many copies the brokers can hold
    max_batches: int = 1_000  # batches that wait for their commit, of a worker
    max_stream_batches: int = 50  # of them, of one stream
    max_batch_messages: int = 1_000
    batch_timeout: int = 10_000_000_000  # ns without a message after which a batch is abandoned
    own_topics: str = (
        ""  # how the names of railgun's own topics begin; empty: there are no topics, as in memory
    )
