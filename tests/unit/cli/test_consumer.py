"""``railgun consumer …`` on a cluster in memory: the flags, the walk-through, the reports, what is refused."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from railgun.cli.options.consumer_flags import ConsumerFlags, Start, start
from railgun.client.facade.railgun import connect
from railgun.errors import ConfigError
from railgun.model.durations import parse_rfc3339
from tests.support.commands import Run, complete, done, said

NANOS = 10**9


def info(run: Run, name: str, stream: str = "ORDERS") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done(run("consumer", "info", stream, name, "--json")))
    return found


def state(run: Run, name: str) -> list[str]:
    """The state block of the printed report, a line each."""
    report = done(run("consumer", "info", "ORDERS", name))
    return report.partition("\nState:\n\n")[2].splitlines()


# ---------------------------------------------------------------- the walk-through


@pytest.mark.rule("SEQ-02", "SEQ-03", "SEQ-04", "SEQ-05", "SEQ-07")
def test_the_walk_through_number_by_number(orders: Run, server: str) -> None:
    done(orders("consumer", "add", "ORDERS", "DISPATCH", "--wait", "200ms"))
    assert state(orders, "DISPATCH")[:5] == [
        "  Last Delivered Message: Consumer sequence: 0 Stream sequence: 0",
        "            Next Message: Consumer sequence: 1 Stream sequence: 1",
        "    Acknowledgment floor: Consumer sequence: 0 Stream sequence: 0",
        "        Pending Messages: 0",
        "    Redelivered Messages: 0",
    ]
    done(orders("pub", "ORDERS.processed", "order 4"))
    assert " Bytes: 53 B\n" in done(orders("stream", "info", "ORDERS"))
    assert done(orders("consumer", "next", "ORDERS", "DISPATCH")) == (
        "--- received on ORDERS.processed: stream sequence 1, consumer sequence 1, delivery 1, 0 to come\n"
        "order 4\n\nAcknowledged message\n"
    )
    assert state(orders, "DISPATCH")[1:4] == [
        "            Next Message: Consumer sequence: 2 Stream sequence: 2",
        "    Acknowledgment floor: Consumer sequence: 1 Stream sequence: 1",
        "        Pending Messages: 0",
    ]
    done(orders("pub", "ORDERS.processed", "order 5"))
    for delivery in (1, 2):
        taken = done(orders("consumer", "next", "ORDERS", "DISPATCH", "--no-ack"))
        assert taken.endswith(f"delivery {delivery}, 0 to come\norder 5\n")
        assert state(orders, "DISPATCH")[:5] == [
            f"  Last Delivered Message: Consumer sequence: {1 + delivery} Stream sequence: 2",
            f"            Next Message: Consumer sequence: {2 + delivery} Stream sequence: 3",
            "    Acknowledgment floor: Consumer sequence: 1 Stream sequence: 1",
            "        Pending Messages: 1",
            f"    Redelivered Messages: {delivery - 1}",
        ]
    assert done(orders("consumer", "next", "ORDERS", "DISPATCH")).endswith("\nAcknowledged message\n")
    assert state(orders, "DISPATCH")[:5] == [
        "  Last Delivered Message: Consumer sequence: 4 Stream sequence: 2",
        "            Next Message: Consumer sequence: 5 Stream sequence: 3",
        "    Acknowledgment floor: Consumer sequence: 4 Stream sequence: 2",
        "        Pending Messages: 0",
        "    Redelivered Messages: 0",
    ]


@pytest.mark.rule("STA-01", "STA-02", "STA-04")
def test_where_consumers_begin(orders: Run) -> None:
    done(orders("pub", "ORDERS.processed", "order {{Count}}", "--count", "100"))
    for name, deliver, first in (("ALL", "all", 1), ("LAST", "last", 100), ("TEN", "10", 10)):
        flags = [
            "--pull",
            "--filter",
            "ORDERS.processed",
            "--ack",
            "none",
            "--replay",
            "instant",
            "--deliver",
        ]
        done(orders("consumer", "add", "ORDERS", name, *flags, deliver))
        assert f"\norder {first}\n" in done(orders("consumer", "next", "ORDERS", name))
    done(orders("consumer", "add", "ORDERS", "AGO", "--ack", "none", "--deliver", "2m"))
    assert "\norder 1\n" in done(orders("consumer", "next", "ORDERS", "AGO"))
    assert "Deliver Policy: from sequence 10\n" in done(orders("consumer", "info", "ORDERS", "TEN"))


# ---------------------------------------------------------------- flags


@pytest.mark.parametrize(
    "text, expected",
    [
        ("all", Start("all")),
        ("NEW", Start("new")),
        ("last-per-subject", Start("last_per_subject")),
        ("10", Start("by_start_sequence", sequence=10)),
        ("2m", Start("by_start_time", ago=timedelta(minutes=2))),
        ("2026-01-31T12:00:00Z", Start("by_start_time", time=parse_rfc3339("2026-01-31T12:00:00Z"))),
    ],
)
def test_starts_are_read(text: str, expected: Start) -> None:
    assert start(text) == expected


@pytest.mark.parametrize("text", ["soon", "0", "-1", "2026-13-01", ""])
def test_what_is_no_start(text: str) -> None:
    with pytest.raises(ValueError):
        start(text)


def test_every_flag_reaches_the_configuration(orders: Run) -> None:
    given = (
        "consumer add ORDERS FULL --pull --filter ORDERS.a,ORDERS.b --filter ORDERS.c --deliver 7 --ack explicit "
        "--backoff 1s,5s --max-deliver 3 --max-pending 10 --max-pending-per-subject 1 --sample 80 --headers-only "
        "--max-waiting 5 --max-pull-batch 50 --max-pull-expires 10s --max-pull-bytes 1MB --inactive-threshold 1h "
        "--description all --metadata team=shop --json"
    )
    config = json.loads(done(orders(*given.split())))["config"]
    wanted = {
        "durable_name": "FULL",
        "filter_subjects": ["ORDERS.a", "ORDERS.b", "ORDERS.c"],
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": 7,
        "ack_policy": "explicit",
        "backoff": [1 * NANOS, 5 * NANOS],
        "ack_wait": 1 * NANOS,
        "max_deliver": 3,
        "max_ack_pending": 10,
        "max_ack_pending_per_subject": 1,
        "sample_freq": "80",
        "headers_only": True,
        "max_waiting": 5,
        "max_batch": 50,
        "max_expires": 10 * NANOS,
        "max_bytes": 1024 * 1024,
        "inactive_threshold": 3600 * NANOS,
        "description": "all",
    }
    assert {name: config.get(name) for name in wanted} == wanted
    assert config["metadata"]["team"] == "shop"
    push = (
        "consumer add ORDERS PUSH --target out.push --deliver-group g --replay original --heartbeat 5s --flow-control "
        "--rate-limit 1000000 --wait 1m --json"
    )
    config = json.loads(done(orders(*push.split())))["config"]
    wanted = {
        "deliver_subject": "out.push",
        "deliver_group": "g",
        "replay_policy": "original",
        "idle_heartbeat": 5 * NANOS,
        "flow_control": True,
        "rate_limit_bps": 1_000_000,
        "ack_wait": 60 * NANOS,
        "ack_policy": "explicit",
    }
    assert {name: config.get(name) for name in wanted} == wanted


def test_flags_that_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="give --pull or --target, not both"):
        ConsumerFlags(pull=True, target="out").given()
    with pytest.raises(ConfigError, match="--backoff: 'soon' is not a valid duration"):
        ConsumerFlags(backoff=["1s,soon"]).given()


def test_an_empty_filter_is_none(orders: Run) -> None:
    done(orders("consumer", "add", "ORDERS", "D", "--filter", "ORDERS.a"))
    assert info(orders, "D")["config"]["filter_subject"] == "ORDERS.a"
    done(orders("consumer", "edit", "ORDERS", "D", "--filter", ""))
    assert "filter_subject" not in info(orders, "D")["config"]


def test_without_a_name_it_is_ephemeral(orders: Run) -> None:
    made = json.loads(done(orders("consumer", "add", "ORDERS", "--deliver", "new", "--json")))
    assert made["name"]
    assert "durable_name" not in made["config"]
    named = done(orders("consumer", "add", "ORDERS", "WATCH", "--ephemeral", "--inactive-threshold", "1m"))
    assert "Name: WATCH (ephemeral)\n" in named
    monitor = "consumer add ORDERS --filter  --ack none --target my.monitor --deliver last --replay instant --ephemeral"
    shown = done(orders(*monitor.split(" ")))
    assert "Delivery Subject: my.monitor\n" in shown
    assert "Filter Subject" not in shown


# ---------------------------------------------------------------- looking and changing


def test_the_report_of_a_consumer(orders: Run) -> None:
    done(orders("pub", "ORDERS.a", "x", "--count", "3"))
    shown = done(
        orders("con", "add", "ORDERS", "NEW", "--filter", "ORDERS.*", "--sample", "100", "--max-deliver", "4")
    )
    assert shown.startswith(
        "Consumer ORDERS > NEW was created\n\nInformation for Consumer ORDERS > NEW created 20"
    )
    for line in (
        "            Durable Name: NEW",
        "               Pull Mode: true",
        "          Filter Subject: ORDERS.*",
        "          Deliver Policy: all",
        "              Ack Policy: explicit",
        "                Ack Wait: 30s",
        "         Maximum Pending: 1,000",
        "           Replay Policy: instant",
        "      Maximum Deliveries: 4",
        "           Sampling Rate: 100",
        "    Unprocessed Messages: 3",
        "           Waiting Pulls: 0",
    ):
        assert f"\n{line}\n" in shown


def test_edit_changes_only_what_is_given(orders: Run) -> None:
    done(orders("consumer", "add", "ORDERS", "D", "--max-pending", "7"))
    before = info(orders, "D")["config"]
    changed = done(orders("consumer", "edit", "ORDERS", "D", "--wait", "1m"))
    assert "Consumer ORDERS > D was changed\n\n  ack_wait: 30s -> 1m0s\n" in changed
    assert info(orders, "D")["config"] == {**before, "ack_wait": 60 * NANOS}
    assert "has this configuration already" in done(orders("consumer", "edit", "ORDERS", "D", "--wait", "1m"))
    assert orders("consumer", "edit", "ORDERS", "D").stderr == (
        "error: nothing to change: give at least one flag, such as --wait 1m\n"
    )
    refused = orders("consumer", "edit", "ORDERS", "D", "--deliver", "new")
    assert refused.exit_code == 1
    assert said(refused) == "error: deliver policy can not be updated (10012/500)\n"


def test_consumers_are_listed_and_removed(orders: Run) -> None:
    nobody = orders("consumer", "ls", "ORDERS")
    assert (nobody.exit_code, nobody.stdout, nobody.stderr) == (0, "", "Stream ORDERS has no consumers.\n")
    done(orders("consumer", "add", "ORDERS", "A"))
    done(orders("consumer", "add", "ORDERS", "B", "--target", "out.b", "--ack", "none"))
    done(orders("pub", "ORDERS.a", "x", "--count", "2"))
    done(orders("consumer", "next", "ORDERS", "A", "--no-ack"))
    table = done(orders("consumer", "report", "ORDERS")).splitlines()
    assert table[0].split("  ")[0] == "Consumer"
    assert table[1].split() == ["A", "pull", "explicit", "30s", "1", "0", "1", "1/1", "0/0"]
    assert table[2].split() == ["B", "push", "none", "0", "0", "2", "0/0", "0/0"]
    progress = json.loads(done(orders("consumer", "report", "ORDERS", "--json")))
    assert [(one["consumer"], one["mode"], one["num_pending"]) for one in progress] == [
        ("A", "pull", 1),
        ("B", "push", 2),
    ]
    listed = done(orders("consumer", "ls", "ORDERS")).splitlines()
    assert listed[1].split()[:6] == ["A", "pull", "all", "explicit", "1", "1"]
    assert done(orders("c", "ls", "ORDERS", "--names")) == "A\nB\n"
    assert done(orders("consumer", "rm", "ORDERS", "B", "-f")) == "Removed consumer ORDERS > B\n"
    assert json.loads(done(orders("consumer", "ls", "ORDERS", "--names", "--json"))) == ["A"]
    assert "Active Consumers: 1\n" in done(orders("stream", "info", "ORDERS"))
    again = orders("consumer", "rm", "ORDERS", "B", "--json", "--force")
    assert again.exit_code == 1
    assert json.loads(again.stdout)["error"]["err_code"] == 10014


def test_a_consumer_is_copied_by_its_configuration_file(orders: Run, tmp_path: Path) -> None:
    done(orders("consumer", "add", "ORDERS", "A", "--wait", "7s"))
    file = tmp_path / "consumer.json"
    file.write_text(done(orders("consumer", "info", "ORDERS", "A", "--json")))
    copied = json.loads(done(orders("consumer", "add", "ORDERS", "B", "--config", str(file), "--json")))
    assert (copied["name"], copied["config"]["durable_name"], copied["config"]["ack_wait"]) == (
        "B",
        "B",
        7 * NANOS,
    )
    same = json.loads(done(orders("consumer", "add", "ORDERS", "--config", str(file), "--json")))
    assert same["name"] == "A"
    file.write_text('{"max_delivver": 4}')
    assert (
        "max_delivver: Extra inputs are not permitted"
        in orders("consumer", "add", "ORDERS", "C", "--config", str(file)).stderr
    )


# ---------------------------------------------------------------- taking messages


def test_headers_and_numbers_of_a_message(orders: Run) -> None:
    done(orders("consumer", "add", "ORDERS", "D"))
    done(orders("pub", "ORDERS.a", "hello", "-H", "Trace:7"))
    shown = done(orders("consumer", "next", "ORDERS", "D", "--nak")).splitlines()
    assert shown[1:] == ["Headers:", "  Trace: 7", "", "hello", "", "Gave the message back"]
    taken = json.loads(done(orders("consumer", "next", "ORDERS", "D", "--json")))
    assert taken["headers"] == {"Trace": ["7"]}
    assert (taken["stream"], taken["consumer"], taken["subject"], taken["text"]) == (
        "ORDERS",
        "D",
        "ORDERS.a",
        "hello",
    )
    assert (taken["stream_seq"], taken["consumer_seq"], taken["deliveries"]) == (1, 2, 2)
    assert taken["outcome"] == "ack"


def test_several_messages_at_once(orders: Run) -> None:
    done(orders("consumer", "add", "ORDERS", "D"))
    done(orders("pub", "ORDERS.a", "{{Count}};", "--count", "3"))
    assert (
        done(orders("consumer", "next", "ORDERS", "D", "--count", "5", "--wait", "100ms", "--raw"))
        == "1;2;3;"
    )
    assert info(orders, "D")["num_ack_pending"] == 0


def test_a_message_that_is_given_up(orders: Run) -> None:
    done(orders("consumer", "add", "ORDERS", "D"))
    done(orders("pub", "ORDERS.a", "bad"))
    assert done(orders("consumer", "next", "ORDERS", "D", "--term")).endswith("\nGave the message up\n")
    after = info(orders, "D")
    assert (after["num_ack_pending"], after["ack_floor"]["stream_seq"]) == (0, 1)


def test_no_message_is_exit_code_1(orders: Run) -> None:
    done(orders("consumer", "add", "ORDERS", "D"))
    empty = orders("consumer", "next", "ORDERS", "D", "--wait", "50ms")
    assert (empty.exit_code, empty.stdout, said(empty)) == (1, "", "no message within 50ms\n")


def test_a_push_consumer_is_listened_to(orders: Run) -> None:
    done(orders("consumer", "add", "ORDERS", "P", "--target", "out.p"))
    assert said(orders("consumer", "next", "ORDERS", "P")) == (
        "error: consumer ORDERS > P pushes to out.p: listen with `railgun sub out.p`\n"
    )


def test_a_raw_pull_shows_where_to_acknowledge(orders: Run) -> None:
    done(orders("consumer", "add", "ORDERS", "D"))
    done(orders("pub", "ORDERS.a", "hello", "-H", "Trace:7"))
    (reply,) = json.loads(done(orders("req", "CONSUMER.MSG.NEXT.ORDERS.D", "--json")))
    assert (reply["body"], reply["subject"], reply["headers"]) == ("hello", "ORDERS.a", [["Trace", "7"]])
    assert reply["reply"].startswith("$JS.ACK.ORDERS.D.1.1.1.")
    empty = orders("req", "CONSUMER.MSG.NEXT.ORDERS.D", '{"no_wait": true}')
    assert (empty.exit_code, empty.stdout) == (1, "status 404 No Messages\n")
    assert done(orders("req", reply["reply"], "--stdin", text="-NAK")) == "\n"
    again = done(orders("req", "CONSUMER.MSG.NEXT.ORDERS.D")).splitlines()
    assert again[0].startswith("--- received on ORDERS.a, reply to $JS.ACK.ORDERS.D.2.1.2.")
    assert again[1:] == ["hello"]


@pytest.mark.rule("RET-01", "RET-05")
def test_a_work_queue(run: Run) -> None:
    done(run("stream", "add", "JOBS", "--subjects", "jobs.*", "--retention", "workqueue"))
    done(run("consumer", "add", "JOBS", "WORKER"))
    second = run("consumer", "add", "JOBS", "SECOND")
    assert (
        said(second) == "error: multiple non-filtered consumers not allowed on workqueue stream (10099/400)\n"
    )
    done(run("pub", "jobs.a", "job {{Count}}", "--count", "2"))
    done(run("consumer", "next", "JOBS", "WORKER"))
    assert json.loads(done(run("stream", "info", "JOBS", "--json")))["state"]["messages"] == 1


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["consumer", "info", "ORDERS", "NOPE"], "consumer not found (10014/404)"),
        (["consumer", "next", "ORDERS", "NOPE"], "consumer not found (10014/404)"),
        (["consumer", "add", "NOPE", "D"], "stream not found (10059/404)"),
        (["consumer", "add", "ORDERS", "D", "--pull", "--target", "out"], "give --pull or --target, not both"),
        (["consumer", "add", "ORDERS", "D", "--deliver", "subject"], "consumer delivery policy is deliver last per subject, but optional filter subject is not set (10094/400)"),
        (["consumer", "next", "ORDERS", "D", "--nak", "--term"], "give --nak or --term, not both"),
    ],
)  # fmt: skip
def test_an_error_is_one_sentence_and_a_code(orders: Run, arguments: list[str], text: str) -> None:
    result = orders(*arguments)
    assert (result.exit_code, result.stdout, said(result)) == (1, "", f"error: {text}\n")


def test_a_misused_option_is_told_by_its_name(orders: Run) -> None:
    result = orders("consumer", "add", "ORDERS", "D", "--deliver", "soon")
    assert result.exit_code == 2
    assert "'soon' is not a valid start" in " ".join(result.stderr.replace("│", "").split())


def test_shells_complete_consumers(orders: Run, server: str) -> None:
    with connect(server) as rg:
        rg.stream("ORDERS").create_consumer("DISPATCH")
    assert complete(f"railgun consumer info --server {server} ORDERS DIS") == ["DISPATCH"]
    assert complete(f"railgun consumer info --server {server} OR") == ["ORDERS"]
    assert complete(f"railgun consumer info --server {server} NOPE DIS") == []
    assert complete("railgun consumer add X Y --dead") == ["--dead-letter"]
