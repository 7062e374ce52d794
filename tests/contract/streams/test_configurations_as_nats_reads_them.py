"""Raw configurations as nats-server reads them (C-41); each case was seen there with `make differ`."""

from __future__ import annotations

from typing import Any

import pytest

from railgun.client.facade.railgun import Railgun
from tests.support.consumers import SECOND, add, creation
from tests.support.naming import unique
from tests.support.raw import ask, create_refused, refused


@pytest.mark.parametrize(
    "field, value",
    [
        ("nonsense", None),
        ("retention", None),
        ("compression", None),
        ("first_seq", -1),
        ("max_msg_size", 2**31),
    ],
)
def test_a_stream_that_cannot_be_read_is_refused(rg: Railgun, field: str, value: Any) -> None:
    number, code, text = create_refused(rg, unique("ODD"), **{field: value})
    assert (number, code) == (10025, 400)
    assert text.startswith("invalid JSON: ")
    assert field in text


@pytest.mark.parametrize(
    "field, value",
    [
        ("ack_policy", None),
        ("priority_policy", None),
        ("opt_start_seq", -1),
        ("rate_limit_bps", -1),
        ("opt_start_time", "yesterday"),
        ("opt_start_time", ""),
        ("pause_until", "x"),
    ],
)
def test_a_consumer_that_cannot_be_read_is_refused(rg: Railgun, field: str, value: Any) -> None:
    stream = rg.create_stream(unique("ODD")).name
    number, code, text = refused(rg, f"CONSUMER.CREATE.{stream}.C", creation(stream, {field: value}))
    assert (number, code) == (10025, 400)
    assert field in text


@pytest.mark.rule("CFG-25")
def test_a_choice_in_capitals_and_a_source_that_was_left_out(rg: Railgun) -> None:
    name = unique("ODD")
    asked = {"name": name, "discard": "NEW", "republish": {"dest": "out.>"}}
    made = ask(rg, f"STREAM.CREATE.{name}", asked)["config"]
    assert made["discard"] == "new"
    assert made["republish"] == {"src": ">", "dest": "out.>", "headers_only": False}


@pytest.mark.rule("TTL-07")
def test_delete_markers_permit_purges(rg: Railgun) -> None:
    name = unique("MARKED")
    asked = {"name": name, "subject_delete_marker_ttl": SECOND, "deny_purge": True}
    assert ask(rg, f"STREAM.CREATE.{name}", asked)["config"]["deny_purge"] is False


@pytest.mark.rule("CON-09", "CON-13", "CON-22")
def test_defaults_do_not_ask_for_the_ack_policy(rg: Railgun) -> None:
    name = unique("LIMITED")
    ask(rg, f"STREAM.CREATE.{name}", {"name": name, "consumer_limits": {"max_ack_pending": 2}})
    made = add(rg, name, "C", ack_policy="none", backoff=[SECOND])["config"]
    assert (made["max_ack_pending"], made["ack_wait"]) == (2, SECOND)
    pushed = creation(name, {"durable_name": "P", "ack_policy": "none", "deliver_subject": "to.me"})
    above = creation(name, {"durable_name": "A", "ack_policy": "none", "max_ack_pending": 5})
    assert refused(rg, f"CONSUMER.CREATE.{name}.A", above)[0] == 10121
    needs_acks = (10082, 400, "consumer requires ack policy for max ack pending")
    assert refused(rg, f"CONSUMER.CREATE.{name}.P", pushed) == needs_acks


@pytest.mark.rule("CON-09")
def test_negative_bounds_of_a_consumer_are_none(rg: Railgun) -> None:
    name = rg.create_stream(unique("BOUNDS")).name
    negative = dict.fromkeys(("max_waiting", "max_batch", "max_bytes", "max_expires", "idle_heartbeat"), -1)
    made = add(rg, name, "C", **negative)["config"]
    assert made["max_waiting"] == 512
    assert not made.keys() & {"max_batch", "max_bytes", "max_expires", "idle_heartbeat"}
    assert add(rg, name, "C", action="update", max_batch=0)["config"] == made


@pytest.mark.rule("CON-07")
def test_the_address_names_a_consumer(rg: Railgun) -> None:
    name = rg.create_stream(unique("NAMED")).name
    made = ask(rg, f"CONSUMER.CREATE.{name}.C", creation(name, {"name": "a/b"}))
    assert made["name"] == made["config"]["name"] == "C"
    other = creation(name, {"durable_name": "a/b"})
    assert refused(rg, f"CONSUMER.CREATE.{name}.C", other)[0] == 10017


@pytest.mark.rule("CON-10", "CON-11", "RET-03", "RET-04", "RET-05")
def test_which_of_two_faults_of_a_work_queue_s_consumer_is_named(rg: Railgun) -> None:
    name = rg.create_stream(unique("QUEUE"), retention="workqueue").name
    add(rg, name, "C")

    def number(consumer: str, action: str = "", **config: str) -> int:
        body = creation(name, {"ack_policy": "explicit", **config}, action)
        return refused(rg, f"CONSUMER.CREATE.{name}.{consumer}", body)[0]

    assert number("C", ack_policy="all") == 10012
    full = rg.create_stream(unique("FULL"), retention="workqueue", max_consumers=1).name
    add(rg, full, "C")
    body = creation(full, {"ack_policy": "explicit"})
    assert refused(rg, f"CONSUMER.CREATE.{full}.D", body)[0] == 10026
    assert number("C", deliver_policy="last") == 10012
    assert number("D", "update", ack_policy="none") == 10084
    assert number("D", "update", ack_policy="all") == 10149
    assert number("D", ack_policy="all", deliver_policy="last") == 10098
    assert number("D", deliver_policy="last") == 10101
    assert number("D") == 10099
    assert number("D", ack_policy="none", opt_start_time="2020-01-01T00:00:00Z") == 10084


@pytest.mark.rule("CFG-31")
def test_a_page_behind_the_end_begins_at_the_end(rg: Railgun) -> None:
    name = rg.create_stream(unique("PAGED")).name
    assert ask(rg, f"CONSUMER.NAMES.{name}", {"offset": 5})["offset"] == 0
    assert ask(rg, "STREAM.LIST", {"offset": -1})["offset"] == 0
    total = ask(rg, "STREAM.NAMES")["total"]
    assert ask(rg, "STREAM.NAMES", {"offset": total + 7})["offset"] == total
    assert ask(rg, "STREAM.LIST", {"offset": total + 7})["offset"] == total


@pytest.mark.rule("UPD-07", "UPD-08")
def test_an_update_of_a_sealed_stream_cannot_leave_out_what_sealing_denied(rg: Railgun) -> None:
    name = rg.create_stream(unique("SEALED")).name
    sealed = {"name": name, "sealed": True}
    assert ask(rg, f"STREAM.UPDATE.{name}", sealed)["config"]["deny_delete"] is True
    cancels = "stream configuration update can not cancel deny message deletes"
    assert refused(rg, f"STREAM.UPDATE.{name}", sealed) == (10052, 500, cancels)
    denied = rg.create_stream(unique("DENIED"), deny_purge=True).name
    cancels_purge = "stream configuration update can not cancel deny purge"
    wanted = {"name": denied, "sealed": True}
    assert refused(rg, f"STREAM.UPDATE.{denied}", wanted) == (10052, 500, cancels_purge)
    again = sealed | {"deny_delete": True, "deny_purge": True}
    assert ask(rg, f"STREAM.UPDATE.{name}", again)["config"]["discard"] == "new"


@pytest.mark.rule("UPD-05", "CFG-33")
def test_an_empty_stream_that_comes_to_interest_has_not_begun(rg: Railgun) -> None:
    name = rg.create_stream(unique("EMPTY")).name
    assert rg.update_stream(name, retention="interest").info().state.first_seq == 0


@pytest.mark.rule("GET-05", "DEL-10")
def test_a_bad_request_is_bad_whichever_stream_it_asks(rg: Railgun) -> None:
    assert refused(rg, "STREAM.PURGE.NOWHERE", {"seq": 1, "keep": 1}) == (10003, 400, "bad request")
    assert refused(rg, "STREAM.MSG.GET.NOWHERE", {"seq": 1, "last_by_subj": "a"}) == (
        10003,
        400,
        "bad request",
    )
