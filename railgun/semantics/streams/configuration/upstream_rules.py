"""What a mirror or a stream with sources must agree on with the streams that it copies, where they exist (MIR-05, MIR-11, SRC-12)."""

from __future__ import annotations

from collections.abc import Callable

from railgun.model import refusals
from railgun.model.refusals import Refusal
from railgun.model.stream_config import StreamConfig

Find = Callable[
    [str], StreamConfig | None
]  # the configuration of a stream by its name, None if there is none


def agreed(config: StreamConfig, find: Find, *, pedantic: bool = False) -> StreamConfig | Refusal:
    """The configuration beside its upstreams: a mirror has direct gets for its upstream if the upstream allows them."""
    upstream = find(config.mirror.name) if config.mirror is not None else None
    if upstream is not None:
        if _takes_less(config, upstream):  # MIR-05
            return refusals.MIRROR_TOO_SMALL
        if pedantic and config.mirror_direct != upstream.allow_direct:
            return refusals.pedantic("origin stream has direct get set, mirror has it disabled")
        config = config.model_copy(update={"mirror_direct": upstream.allow_direct})  # MIR-11
    found = (find(source.name) for source in config.sources or ())
    if any(one is not None and _takes_less(config, one) for one in found):  # SRC-12
        return refusals.SOURCE_TOO_LARGE
    return config


def _takes_less(config: StreamConfig, upstream: StreamConfig) -> bool:
    """Whether some message of the upstream is too large; without limits on both sides nobody can say."""
    return 0 < config.max_msg_size < upstream.max_msg_size
