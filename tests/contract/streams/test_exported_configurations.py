"""Configurations that NATS exported, and how strictly a request is read (C-41, C-42).

The objects are what nats-server 2.15.1 answers to STREAM.INFO and CONSUMER.INFO of a stream and of consumers that were made
with their names alone, or nearly so.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from railgun import ConsumerConfig, Railgun, StreamConfig
from railgun.errors import InvalidConsumerConfig
from tests.support.consumers import add, creation, exists
from tests.support.naming import unique
from tests.support.raw import ask, refused

SERVER = {"_nats.level": "5", "_nats.req.level": "0", "_nats.ver": "2.15.1"}
STREAM: dict[str, Any] = {
    "retention": "limits",
    "max_consumers": -1,
    "max_msgs": -1,
    "max_bytes": -1,
    "max_age": 0,
    "max_msgs_per_subject": -1,
    "max_msg_size": -1,
    "discard": "old",
    "storage": "file",
    "num_replicas": 1,
    "duplicate_window": 120000000000,
    "compression": "none",
    "allow_direct": False,
    "mirror_direct": False,
    "sealed": False,
    "deny_delete": False,
    "deny_purge": False,
    "allow_rollup_hdrs": False,
    "consumer_limits": {},
    "allow_msg_ttl": False,
    "metadata": SERVER,
}
PULL: dict[str, Any] = {
    "deliver_policy": "all",
    "ack_policy": "explicit",
    "ack_wait": 30000000000,
    "max_deliver": -1,
    "replay_policy": "instant",
    "max_waiting": 512,
    "max_ack_pending": 1000,
    "num_replicas": 0,
    "metadata": SERVER,
}
PUSH: dict[str, Any] = {
    "deliver_policy": "all",
    "ack_policy": "none",
    "max_deliver": -1,
    "replay_policy": "instant",
    "deliver_subject": "x",
    "num_replicas": 0,
    "metadata": SERVER,
}
UNUSED_BY_STREAMS = {
    "placement": {"cluster": "", "tags": []},
    "allow_batched": False,
    "persist_mode": "",
    "allow_atomic": False,
    "republish": None,
    "mirror": None,
    "sources": None,
}
UNUSED_BY_CONSUMERS = {
    "direct": False,
    "priority_policy": "none",
    "priority_groups": [],
    "priority_timeout": 0,
    "pause_until": "0001-01-01T00:00:00Z",
}


def shown(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration without what each server says of itself, or only NATS says."""
    left_out = ("metadata", "compression")
    return {name: value for name, value in config.items() if name not in left_out and value != {}}


@pytest.mark.rule("CFG-06")
def test_a_stream_of_nats_can_be_made_here(rg: Railgun) -> None:
    name = unique("EXPORTED")
    exported = {"name": name, "subjects": [f"{name}.>"], **STREAM}
    created = ask(rg, f"STREAM.CREATE.{name}", exported)
    assert "error" not in created, created
    assert shown(exported).items() <= created["config"].items()
    for same in (exported, exported | UNUSED_BY_STREAMS, {"name": name, "subjects": [f"{name}.>"]}):
        again = ask(rg, f"STREAM.CREATE.{name}", same)
        assert again["config"] == created["config"], again
    for call in ("UPDATE", "CREATE"):  # and what this server shows can be sent back
        assert ask(rg, f"STREAM.{call}.{name}", created["config"])["config"] == created["config"]


@pytest.mark.rule("CON-10")
@pytest.mark.parametrize("exported", [PULL, PUSH], ids=["pull", "push"])
def test_a_consumer_of_nats_can_be_made_here(rg: Railgun, exported: dict[str, Any]) -> None:
    stream = rg.create_stream(unique("EXPORTED")).name
    config = {"durable_name": "C", "name": "C", **exported}
    created = ask(rg, f"CONSUMER.CREATE.{stream}.C", creation(stream, config))
    assert "error" not in created, created
    assert shown(config).items() <= created["config"].items()
    for same in (config, config | UNUSED_BY_CONSUMERS, created["config"]):
        again = ask(rg, f"CONSUMER.CREATE.{stream}.C", creation(stream, same, "create"))
        assert again["config"] == created["config"], again


@pytest.mark.parametrize(
    "field, value",
    [
        ("compression", "s2"),
        ("placement", {"cluster": "EAST"}),
        ("placement", {"tags": ["ssd"]}),
        ("allow_batched", True),
    ],
)
def test_what_a_stream_cannot_have_is_refused_by_name(rg: Railgun, field: str, value: Any) -> None:
    name = unique("BEYOND")
    found = refused(rg, f"STREAM.CREATE.{name}", {"name": name, field: value})
    assert found == (10052, 500, f"{field} is not supported yet")


@pytest.mark.parametrize(
    "field, value",
    [
        ("direct", True),
        ("priority_policy", "overflow"),
        ("priority_groups", ["a"]),
        ("priority_timeout", 1),
        ("pause_until", "2099-01-01T00:00:00Z"),
    ],
)
def test_what_a_consumer_cannot_have_is_refused_by_name(rg: Railgun, field: str, value: Any) -> None:
    stream = rg.create_stream(unique("BEYOND")).name
    found = refused(rg, f"CONSUMER.CREATE.{stream}.C", creation(stream, {"durable_name": "C", field: value}))
    assert found == (10052, 500, f"{field} is not supported yet")
    assert not exists(rg, stream)


def test_names_of_fields_are_read_in_any_case(rg: Railgun) -> None:
    name = unique("CASE")
    made = ask(
        rg, f"STREAM.CREATE.{name}", {"Name": name, "MAX_MSGS": 5, "Consumer_Limits": {"Max_Ack_Pending": 7}}
    )
    assert (made["config"]["max_msgs"], made["config"]["consumer_limits"]["max_ack_pending"]) == (5, 7)
    rg.publish(name, b"1")
    body = {"Stream_Name": name, "CONFIG": {"Durable_Name": "C", "Ack_Policy": "all"}, "Action": "create"}
    assert ask(rg, f"CONSUMER.CREATE.{name}.C", body)["config"]["ack_policy"] == "all"
    assert ask(rg, f"STREAM.MSG.GET.{name}", {"SEQ": 1})["message"]["seq"] == 1
    assert ask(rg, f"STREAM.INFO.{name}", {"Subjects_Filter": ">"})["state"]["subjects"] == {name: 1}
    assert ask(rg, f"STREAM.PURGE.{name}", {"Keep": 1})["purged"] == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"max_msgs": "1"},
        {"max_msgs": 1.5},
        {"max_msgs": True},
        {"sealed": 1},
        {"sealed": "false"},
        {"subjects": "a"},
        {"subjects": [1]},
        {"max_age": "1h"},
        {"metadata": {"a": 1}},
        {"retention": "forever"},
        {"retention": "Limits"},
        {"compression": "zip"},
        {"pedantic": "yes"},
        {"republish": {"dest": 1}},
    ],
    ids=str,
)
def test_a_stream_with_a_field_of_a_wrong_type_is_no_json_that_fits(
    rg: Railgun, fields: dict[str, Any]
) -> None:
    name = unique("TYPES")
    err_code, code, text = refused(rg, f"STREAM.CREATE.{name}", {"name": name, **fields})
    assert (err_code, code, text[:14]) == (10025, 400, "invalid JSON: ")


@pytest.mark.parametrize(
    "fields",
    [
        {"config": {"ack_policy": "some"}},
        {"config": {"replay_policy": "slow"}},
        {"config": {"deliver_policy": "first"}},
        {"config": {"priority_policy": "mine"}},
        {"config": {"max_waiting": "1"}},
        {"config": {"headers_only": 1}},
        {"config": {"backoff": ["1s"]}},
        {"config": []},
        {"config": {}, "action": "destroy"},
        {"config": {}, "colour": 1},
    ],
    ids=str,
)
def test_a_consumer_with_a_field_of_a_wrong_type_is_no_json_that_fits(
    rg: Railgun, fields: dict[str, Any]
) -> None:
    stream = rg.create_stream(unique("TYPES")).name
    for name in (stream, unique("NOWHERE")):  # it is read before anybody looks for the stream
        err_code, code, text = refused(rg, f"CONSUMER.CREATE.{name}.C", {"stream_name": name, **fields})
        assert (err_code, code, text[:14]) == (10025, 400, "invalid JSON: ")


@pytest.mark.parametrize(
    "call",
    ["STREAM.INFO", "STREAM.PURGE", "STREAM.MSG.GET", "STREAM.MSG.DELETE", "CONSUMER.NAMES", "CONSUMER.LIST"],
)
def test_an_unknown_field_is_named_by_every_call(rg: Railgun, call: str) -> None:
    stream = rg.create_stream(unique("TYPO")).name
    unknown = (10025, 400, 'invalid JSON: json: unknown field "colour"')
    assert refused(rg, f"{call}.{stream}", {"colour": 1}) == unknown


@pytest.mark.parametrize("body", [b"x", b" ", b"[]", b'{"a": 1}'])
def test_a_call_that_takes_no_body_refuses_one(rg: Railgun, body: bytes) -> None:
    stream = rg.create_stream(unique("EMPTY")).name
    add(rg, stream)
    not_empty = (10038, 400, "expected an empty request payload")
    for call in (f"CONSUMER.INFO.{stream}.C", f"CONSUMER.DELETE.{stream}.C", f"STREAM.DELETE.{stream}"):
        assert refused(rg, call, body) == not_empty, call
    assert exists(rg, stream)
    assert ask(rg, f"CONSUMER.INFO.{stream}.C", b"{ }")["name"] == "C"
    assert ask(rg, f"STREAM.DELETE.{stream}", b"{}")["success"]


def test_the_models_of_the_facade_still_refuse_typos(rg: Railgun) -> None:
    with pytest.raises(ValidationError, match="Max_Msgs"):
        StreamConfig(name="S", Max_Msgs=1)  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="ackpolicy"):
        ConsumerConfig(name="C", ackpolicy="all")  # type: ignore[call-arg]
    stream = rg.create_stream(unique("POLICY"))
    with pytest.raises(InvalidConsumerConfig, match="ack_policy"):
        stream.create_consumer("C", ack_policy="some")  # type: ignore[arg-type]


def test_fields_that_only_nats_needs_are_not_written(rg: Railgun) -> None:
    """A version that does not know a field can read what another version wrote without it."""
    stream = rg.create_stream(unique("PLAIN"), compression="none")
    assert "compression" not in stream.info().raw["config"]
    assert stream.info().config == rg.create_stream(stream.name).info().config


def test_what_a_caller_exports_is_what_it_may_send(rg: Railgun) -> None:
    stream = rg.create_stream(unique("ROUND"), max_msgs=5, compression="none")
    text = json.dumps(stream.info().config.to_api())
    assert StreamConfig.from_api(json.loads(text)) == stream.info().config
