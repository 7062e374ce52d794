"""What clients without our code send about consumers: names, pull bodies, acknowledgements, configurations."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun.api.consumers import ConsumerRequest, parse_consumer
from railgun.api.deliveries import (
    Acknowledgement,
    DeliveryNumbers,
    parse_acknowledgement,
    parse_delivery,
    parse_pull,
)
from railgun.api.names import ApiName, Operation, parse
from railgun.model import refusals
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.durations import LONGEST
from railgun.model.refusals import Refusal
from railgun.model.stream_config import StreamConfig
from railgun.protocol.commands import Pull
from railgun.semantics.consumers.configuration.consumer_configuration import normalise_consumer


@pytest.mark.parametrize(
    "text, operation, stream, rest",
    [
        ("CONSUMER.CREATE.S", Operation.CONSUMER_CREATE, "S", ""),
        ("CONSUMER.CREATE.S.C", Operation.CONSUMER_CREATE, "S", "C"),
        ("CONSUMER.CREATE.S.C.a.*.b", Operation.CONSUMER_CREATE, "S", "C.a.*.b"),
        ("$JS.API.CONSUMER.DURABLE.CREATE.S.C", Operation.CONSUMER_DURABLE_CREATE, "S", "C"),
        ("CONSUMER.MSG.NEXT.S.C", Operation.CONSUMER_MSG_NEXT, "S", "C"),
        ("CONSUMER.NAMES.S", Operation.CONSUMER_NAMES, "S", ""),
        ("$JS.ACK.S.C.1.2.3.4.5", Operation.ACK, "S", "C.1.2.3.4.5"),
        ("$JS.FC.S.C.7-1", Operation.FLOW_CONTROL, "S", "C.7-1"),
    ],
)
def test_names_are_taken_apart(text: str, operation: Operation, stream: str, rest: str) -> None:
    found = parse(text)
    assert found == ApiName(operation, stream, rest)
    assert found.text == text.removeprefix("$JS.API.")


@pytest.mark.parametrize(
    "text",
    ["CONSUMER.INFO.S", "CONSUMER.NAMES.S.C", "CONSUMER.DELETE.S.C.D", "$JS.ACK.S", "CONSUMER.CREATE.S."],
)
def test_what_is_no_name(text: str) -> None:
    assert parse(text) is None


@pytest.mark.rule("PUL-01", "PUL-12")
@pytest.mark.parametrize(
    "body, expected",
    [
        (b"", Pull(0, 1)),
        (b" 12 ", Pull(0, 12)),
        (b"0", Pull(0, 1)),
        (b"-3", Pull(0, 1)),
        (b"many", Pull(0, 1)),
        (b"{}", Pull(0, 1)),
        (b'{"batch": 3, "expires": 10, "no_wait": true, "max_bytes": 9, "idle_heartbeat": 5, "x": 1}',
         Pull(0, 3, 9, 10, True, 5)),
        (b'{"batch": 3', "invalid JSON"),
        (b'{"batch": "3"}', "batch is not a whole number"),
        (b'{"no_wait": 1}', "no_wait is not true or false"),
        (b'{"expires": -1}', "expires can not be negative"),
    ],
)  # fmt: skip
def test_bodies_of_pulls(body: bytes, expected: Pull | str) -> None:
    assert parse_pull(body) == expected


@pytest.mark.rule("ACK-05", "ACK-07", "ACK-10", "ACK-11", "ACK-12")
@pytest.mark.parametrize(
    "body, expected",
    [
        (b"", Acknowledgement("ack")),
        (b"+ACK", Acknowledgement("ack")),
        (b"+OK", Acknowledgement("ack")),
        (b"-NAK", Acknowledgement("nak")),
        (b'-NAK {"delay": 5}', Acknowledgement("nak", delay=5)),
        (b"-NAK 2s", Acknowledgement("nak", delay=2_000_000_000)),
        (b"-NAK soon", Acknowledgement("nak")),
        (b'-NAK {"delay": "5"}', Acknowledgement("nak")),
        (b"-NAK [1]", Acknowledgement("nak")),
        (b'-NAK {"delay": -7}', Acknowledgement("nak")),
        (b'-NAK {"delay": %d}' % 10**19, Acknowledgement("nak", delay=LONGEST)),
        (b"+WPI", Acknowledgement("progress")),
        (b"+NXT", Acknowledgement("next")),
        (b"+NXT 10", Acknowledgement("next", pull=b" 10")),
        (b'+NXT{"batch":5}', Acknowledgement("next", pull=b'{"batch":5}')),
        (b"+TERM", Acknowledgement("term")),
        (b"+TERM for good", Acknowledgement("term", reason="for good")),
        (b"+what", Acknowledgement("unknown")),
    ],
)
def test_bodies_of_acknowledgements(body: bytes, expected: Acknowledgement) -> None:
    assert parse_acknowledgement(body) == expected


def test_which_delivery_is_meant() -> None:
    assert parse_delivery("2.7.9.1794816460376432738.0") == DeliveryNumbers(2, 7, 9)
    for text in (
        "",
        "1.1.1.1",
        "1.1.1.1.1.1",
        "1.x.1.1.1",
        "0.1.1.1.1",
        "1.0.1.1.1",
        "1.-1.1.1.1",
        "1.9e9.1.1.1",
    ):
        assert parse_delivery(text) is None
    assert parse_delivery("1.9999999999999999999.1.1.1") is None


def asked(name: str, config: Any, **fields: Any) -> ConsumerRequest | Refusal:
    parsed = parse(name)
    assert parsed is not None
    return parse_consumer(json.dumps({"config": config, **fields}).encode(), parsed)


@pytest.mark.rule("CON-07", "CON-10")
def test_what_a_create_asks_for() -> None:
    made = asked("CONSUMER.CREATE.S.C", {"durable_name": "C", "filter_subject": None}, action="update")
    assert made == ConsumerRequest(ConsumerConfig(name="C", durable_name="C"), "update")
    assert asked("CONSUMER.CREATE.S.C", {}) == ConsumerRequest(ConsumerConfig(name="C"), "")
    assert asked("CONSUMER.CREATE.S.C", {"name": "D"}) == ConsumerRequest(ConsumerConfig(name="C"), "")
    assert asked("CONSUMER.CREATE.S", {}) == ConsumerRequest(ConsumerConfig(), "")
    filtered = asked("CONSUMER.CREATE.S.C.a.b", {"filter_subject": "a.b"})
    assert isinstance(filtered, ConsumerRequest)


@pytest.mark.parametrize(
    "name, config, fields, number",
    [
        ("CONSUMER.CREATE.S.C", {}, {"stream_name": "T"}, 10056),
        ("CONSUMER.CREATE.S.C", {"name": "C", "durable_name": "D"}, {}, 10017),
        ("CONSUMER.CREATE.S", {"name": "C", "durable_name": "D"}, {}, 10132),
        ("CONSUMER.CREATE.S.a/b", {}, {}, 10127),
        ("CONSUMER.CREATE.S", {"durable_name": "D"}, {}, 10020),
        ("CONSUMER.DURABLE.CREATE.S.C", {}, {}, 10018),
        ("CONSUMER.DURABLE.CREATE.S.C", {"durable_name": "D"}, {}, 10017),
        ("CONSUMER.CREATE.S.C.a.b", {"filter_subject": "a.c"}, {}, 10131),
        ("CONSUMER.CREATE.S.C", {"ack_wait": "long"}, {}, 10025),
        ("CONSUMER.CREATE.S.C", {"aack_wait": 1}, {}, 10025),
        ("CONSUMER.CREATE.S.C", [], {}, 10025),
        ("CONSUMER.CREATE.S.C", {}, {"action": "destroy"}, 10025),
    ],
)
def test_what_is_refused_before_the_rules_see_it(
    name: str, config: Any, fields: dict[str, Any], number: int
) -> None:
    refused = asked(name, config, **fields)
    assert isinstance(refused, Refusal)
    assert refused.err_code == number


@pytest.mark.rule("CON-24")
def test_policies_that_do_not_exist_break_a_rule_wherever_they_come_from() -> None:
    stream = StreamConfig(name="S", subjects=["s"])
    for config, refusal in (
        (ConsumerConfig(name="C", ack_policy="some"), refusals.ACK_POLICY_INVALID),
        (ConsumerConfig(name="C", replay_policy="slow"), refusals.REPLAY_POLICY_INVALID),
    ):
        assert normalise_consumer(config, stream, (), consumers=0) == refusal


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.binary(max_size=20)
    | st.builds(lambda value: json.dumps(value).encode(), values)
    | st.dictionaries(st.sampled_from(sorted(ConsumerConfig.model_fields)), values, max_size=4).map(
        lambda config: json.dumps({"config": config}).encode()
    )
)
def test_no_body_raises(body: bytes) -> None:
    for name in ("CONSUMER.CREATE.S", "CONSUMER.CREATE.S.C"):
        parsed = parse(name)
        assert parsed is not None
        assert isinstance(parse_consumer(body, parsed), ConsumerRequest | Refusal)
    assert isinstance(parse_pull(body), Pull | str)
    assert isinstance(parse_acknowledgement(body), Acknowledgement)
