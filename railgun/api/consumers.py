"""Calls about consumers: what a create asks for, and the answers.

Like :mod:`railgun.api.streams` it never raises for what a caller sent. Whether the rules allow a configuration is decided
in :mod:`railgun.semantics.consumers`; what is only in the owner's memory (pulls that wait, clients that listen) is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, get_args

from pydantic import ValidationError

from railgun.api.bodies import UNSIGNED, config_refusal, parse_object, parse_page, unreadable
from railgun.api.names import ApiName, Operation
from railgun.api.responses import error_response, success_response
from railgun.model.cluster_limits import LIST_PAGE, NAMES_PAGE
from railgun.model.consumer_config import AckPolicy, ConsumerConfig, DeliverPolicy
from railgun.model.durations import rfc3339
from railgun.model.refusals import (
    CONSUMER_NAME_HAS_PATH,
    CONSUMER_NAMES_DIFFER,
    STREAM_MISMATCH,
    Refusal,
    invalid_json,
)
from railgun.model.stream_config import ConfigModel
from railgun.protocol.replies import Frame
from railgun.semantics.consumers.consumer_state import ConsumerState

DURABLE_MISMATCH = Refusal(400, 10017, "consumer name in subject does not match durable name in request")
DURABLE_MISSING = Refusal(400, 10018, "consumer expected to be durable but a durable name was not set")
NOT_EPHEMERAL = Refusal(400, 10020, "consumer expected to be ephemeral but a durable name was set in request")
FILTER_MISMATCH = Refusal(
    400, 10131, "Consumer create request did not match filtered subject from create subject"
)
_POLICIES: dict[str, tuple[str, ...]] = {
    "deliver_policy": get_args(DeliverPolicy),
    "ack_policy": get_args(AckPolicy),
    "replay_policy": ("instant", "original"),
}


_NUMBERS = {"opt_start_seq": UNSIGNED, "rate_limit_bps": UNSIGNED}
_ALIASES = {"undefined": "all"}  # how NATS reads a deliver policy that was left open


class Activity(NamedTuple):
    """What only the owner's memory knows of a consumer."""

    waiting: int  # pulls
    bound: bool  # a client listens where it pushes to


class _Creation(ConfigModel):
    """The body of a create."""

    stream_name: str | None = None
    config: ConsumerConfig = ConsumerConfig()
    action: Literal["", "create", "update"] = ""
    pedantic: bool = False


class ConsumerRequest(NamedTuple):
    """What a create asks for; ``action`` is ``create``, ``update`` or empty for either."""

    config: ConsumerConfig
    action: str


def parse_consumer(body: bytes, name: ApiName) -> ConsumerRequest | Refusal:
    """The configuration of a create, with the names of its address filled in; the rules have not seen it yet."""
    fields = parse_object(body)
    if isinstance(fields, Refusal):
        return fields
    try:
        asked = _Creation.from_api(fields)
    except ValidationError as error:
        return config_refusal(error)
    if asked.stream_name not in (None, name.stream):
        return STREAM_MISMATCH
    config = asked.config
    policy = _ALIASES.get(config.deliver_policy, config.deliver_policy)
    config = config.model_copy(update={"deliver_policy": policy})
    for field, known in _POLICIES.items():
        if getattr(config, field) not in known:
            return invalid_json(f'field "{field}": can not unmarshal "{getattr(config, field)}"')
    wrong = unreadable(config, _NUMBERS)
    if wrong is not None:
        return wrong
    named = (
        name.consumer or config.name or config.durable_name or None
    )  # the address counts, whatever the body says
    config = config.model_copy(update={"name": named, "durable_name": config.durable_name or None})
    return _check_names(config, name) or ConsumerRequest(config, asked.action)


def _check_names(config: ConsumerConfig, name: ApiName) -> Refusal | None:
    """What the address says against what the configuration says."""
    if "/" in (config.name or "") or "\\" in (config.name or ""):
        return CONSUMER_NAME_HAS_PATH
    if name.operation is Operation.CONSUMER_DURABLE_CREATE and not config.durable_name:
        return DURABLE_MISSING
    if config.durable_name and config.durable_name != config.name:
        return DURABLE_MISMATCH if name.consumer else CONSUMER_NAMES_DIFFER
    if not name.consumer:
        return NOT_EPHEMERAL if config.durable_name else None
    if name.filter and config.filters != [name.filter]:
        return FILTER_MISMATCH
    return None


def info_object(stream: str, consumer: ConsumerState, activity: Activity) -> dict[str, Any]:
    """A consumer's configuration and state (CON-27)."""
    return {
        "stream_name": stream,
        "name": consumer.name,
        "created": rfc3339(consumer.created),
        "config": consumer.config.to_api(),  # with the sampling rate (ADV-10)
        "delivered": _pair(*consumer.delivered),
        "ack_floor": _pair(*consumer.floor),
        "num_ack_pending": consumer.num_ack_pending,
        "num_redelivered": consumer.num_redelivered,
        "num_waiting": activity.waiting,
        "num_pending": consumer.num_pending,
        "push_bound": activity.bound,
    }


def _pair(consumer_sequence: int, stream_sequence: int) -> dict[str, int]:
    return {"consumer_seq": consumer_sequence, "stream_seq": stream_sequence}


def names_response(body: bytes, consumers: Iterable[ConsumerState]) -> Frame:
    """Names of a stream's consumers: sorted, a page from the offset asked for."""
    return _page(Operation.CONSUMER_NAMES, body, consumers, NAMES_PAGE, lambda consumer: consumer.name)


def list_response(
    body: bytes, consumers: Iterable[ConsumerState], describe: Callable[[ConsumerState], dict[str, Any]]
) -> Frame:
    """Infos of a stream's consumers: sorted by name, a page from the offset asked for."""
    return _page(Operation.CONSUMER_LIST, body, consumers, LIST_PAGE, describe)


def _page(
    operation: Operation,
    body: bytes,
    consumers: Iterable[ConsumerState],
    limit: int,
    describe: Callable[[ConsumerState], Any],
) -> Frame:
    asked = parse_page(body)
    if isinstance(asked, Refusal):
        return error_response(operation, asked)
    offset, _ = asked
    own = sorted(consumers, key=lambda consumer: consumer.name)
    offset = min(offset, len(own))
    page = [describe(consumer) for consumer in own[offset : offset + limit]]
    return success_response(
        operation, {"total": len(own), "offset": offset, "limit": limit, "consumers": page}
    )
