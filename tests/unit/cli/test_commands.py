"""The commands on a cluster in memory: what they print, what they refuse, and how they end."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from railgun.cli.main import app
from railgun.cli.options import units
from tests.support.commands import Run, complete, done, invoke, said

# ---------------------------------------------------------------- the walk-through of de-duplication


def test_four_publishes_with_one_id_leave_one_message_of_67_bytes(orders: Run) -> None:
    answers = [done(orders("pub", "-H", "Nats-Msg-Id:1", "ORDERS.new", f"hello{n}")) for n in range(1, 5)]
    assert answers[0] == "Published 6 bytes to ORDERS.new: stored as ORDERS#1\n"
    assert set(answers[1:]) == {"Published 6 bytes to ORDERS.new: a duplicate of ORDERS#1\n"}
    report = done(orders("stream", "info", "ORDERS"))
    assert " Messages: 1\n" in report
    assert " Bytes: 67 B\n" in report
    assert " FirstSeq: 1 @ " in report
    assert " LastSeq: 1 @ " in report
    assert " Active Consumers: 0\n" in report


def test_the_id_flag_is_the_header(orders: Run) -> None:
    done(orders("pub", "ORDERS.new", "hello1", "--id", "1"))
    assert (
        json.loads(done(orders("pub", "ORDERS.new", "x", "-H", "Nats-Msg-Id: 1", "--json")))["duplicate"]
        is True
    )


def test_the_dupe_window_is_shown_and_changed(run: Run) -> None:
    assert "Duplicate Window: 2m0s" in done(run("stream", "add", "A", "--subjects", "a.>"))
    assert "Duplicate Window: 30s" in done(
        run("stream", "add", "B", "--subjects", "b.>", "--dupe-window", "30s")
    )
    changed = done(run("stream", "edit", "B", "--dupe-window", "1h30m"))
    assert "duplicate_window: 30s -> 1h30m0s" in changed


# ---------------------------------------------------------------- streams


def test_every_flag_reaches_the_configuration(run: Run) -> None:
    given = (
        "stream add FULL --subjects a.*,b.* --subjects c.> --description all --dupe-window 10s --max-msgs 100 "
        "--max-bytes 1MB --max-age 1h --max-msgs-per-subject 5 --max-msg-size 64KB --discard new --discard-per-subject "
        "--retention limits --storage file --replicas 1 --no-ack --allow-direct --allow-rollup --allow-msg-ttl "
        "--deny-delete --first-seq 7 --metadata team=shop --json"
    )
    config = json.loads(done(run(*given.split())))["config"]
    wanted = {
        "subjects": ["a.*", "b.*", "c.>"],
        "description": "all",
        "duplicate_window": 10 * 10**9,
        "max_msgs": 100,
        "max_bytes": 1024 * 1024,
        "max_age": 3600 * 10**9,
        "max_msgs_per_subject": 5,
        "max_msg_size": 64 * 1024,
        "discard": "new",
        "discard_new_per_subject": True,
        "retention": "limits",
        "storage": "file",
        "num_replicas": 1,
        "no_ack": True,
        "allow_direct": True,
        "allow_rollup_hdrs": True,
        "allow_msg_ttl": True,
        "deny_delete": True,
        "deny_purge": False,
        "first_seq": 7,
    }
    assert {name: config[name] for name in wanted} == wanted
    assert config["metadata"]["team"] == "shop"


def test_edit_changes_only_what_is_given(orders: Run) -> None:
    before = json.loads(done(orders("stream", "info", "ORDERS", "--json")))["config"]
    after = json.loads(done(orders("stream", "edit", "ORDERS", "--max-msgs", "5", "--json")))["config"]
    assert after == {**before, "max_msgs": 5}
    assert "has this configuration already" in done(orders("stream", "edit", "ORDERS", "--max-msgs", "5"))
    refused = orders("stream", "edit", "ORDERS")
    assert (refused.exit_code, refused.stderr) == (
        1,
        "error: nothing to change: give at least one flag, such as --max-age 7d\n",
    )


def test_a_stream_is_copied_by_its_configuration_file(orders: Run, tmp_path: Path) -> None:
    file = tmp_path / "orders.json"
    file.write_text(done(orders("stream", "info", "ORDERS", "--json")))
    copied = orders("stream", "add", "COPY", "--config", str(file), "--subjects", "COPY.*", "--json")
    config = json.loads(done(copied))["config"]
    assert (config["name"], config["subjects"], config["duplicate_window"]) == (
        "COPY",
        ["COPY.*"],
        120 * 10**9,
    )
    file.write_text('{"max_mesages": 4}')
    wrong = orders("stream", "add", "C2", "--config", str(file))
    assert wrong.exit_code == 1
    assert "max_mesages: Extra inputs are not permitted" in wrong.stderr


def test_streams_are_listed(orders: Run) -> None:
    done(orders("stream", "add", "AUDIT", "--subjects", "audit.>", "--description", "who did what"))
    table = done(orders("stream", "ls")).splitlines()
    assert table[0].split() == ["Name", "Subjects", "Messages", "Size", "Last", "Message", "Description"]
    assert table[1].split() == ["AUDIT", "audit.>", "0", "0", "B", "never", "who", "did", "what"]
    assert done(orders("stream", "ls", "--names")) == "AUDIT\nORDERS\n"
    assert json.loads(done(orders("stream", "ls", "--names", "--json", "--subject", "audit.x"))) == ["AUDIT"]
    whole = json.loads(done(orders("stream", "ls", "--json")))
    assert [one["config"]["name"] for one in whole] == ["AUDIT", "ORDERS"]


def test_what_somebody_wrote_in_brackets_is_shown_as_it_is(orders: Run) -> None:
    odd = "a [bold]b[/bold] [x.y] [/z] c"
    done(orders("stream", "add", "ODD", "--subjects", "odd", "--description", odd))
    assert odd in done(orders("stream", "ls"))
    done(orders("consumer", "add", "ODD", "C", "--description", odd))
    assert odd in done(orders("consumer", "ls", "ODD"))


def test_no_streams_is_no_output(run: Run) -> None:
    result = run("stream", "ls")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No streams.\n")
    assert json.loads(done(run("stream", "ls", "--json"))) == []


def test_messages_are_read(orders: Run) -> None:
    done(orders("pub", "ORDERS.new", "first", "-H", "Trace: 7", "-H", "Trace:8"))
    done(orders("pub", "ORDERS.paid", "second"))
    done(orders("pub", "ORDERS.new", "third"))
    lines = done(orders("stream", "get", "ORDERS", "1")).splitlines()
    assert lines[0].startswith("Item: ORDERS#1 received 20")
    assert lines[0].endswith(" +0000 UTC on Subject ORDERS.new")
    assert lines[1:] == ["", "Headers:", "  Trace: 7", "  Trace: 8", "", "first"]
    message = json.loads(done(orders("s", "get", "ORDERS", "--last-for", "ORDERS.new", "--json")))
    assert (message["seq"], message["text"], message["data"]) == (3, "third", "dGhpcmQ=")
    first = json.loads(done(orders("stream", "get", "ORDERS", "1", "--json")))
    assert first["headers"] == {"Trace": ["7", "8"]}
    after = json.loads(done(orders("stream", "get", "ORDERS", "2", "--next-for", "ORDERS.new", "--json")))
    assert after["seq"] == 3
    assert orders("stream", "get", "ORDERS", "2", "--raw").stdout_bytes == b"second"


def test_messages_and_streams_are_removed(orders: Run) -> None:
    done(orders("pub", "ORDERS.new", "order {{Count}}", "--count", "4"))
    assert done(orders("stream", "rmm", "ORDERS", "2", "-f")) == "Removed message 2 of stream ORDERS\n"
    gone = orders("stream", "get", "ORDERS", "2")
    assert (gone.exit_code, said(gone)) == (1, "error: no message found (10037/404)\n")
    purged = json.loads(done(orders("stream", "purge", "ORDERS", "--keep", "1", "--json", "-f")))
    assert purged == {"stream": "ORDERS", "purged": 2, "messages": 1}
    assert done(orders("stream", "get", "ORDERS", "4", "--raw")) == "order 4"
    assert done(orders("stream", "rm", "ORDERS", "-f")) == "Removed stream ORDERS\n"
    again = orders("stream", "rm", "ORDERS", "--json", "--force")
    assert again.exit_code == 1
    assert json.loads(again.stdout)["error"]["err_code"] == 10059
    assert said(again) == "error: stream not found (10059/404)\n"


@pytest.mark.parametrize("json_wanted", [[], ["--json"]])
@pytest.mark.parametrize(
    "line, deed",
    [
        ("stream rm ORDERS", "remove stream ORDERS and all its messages"),
        ("stream purge ORDERS", "purge stream ORDERS"),
        ("stream rmm ORDERS 1", "remove message 1 of stream ORDERS"),
        ("consumer rm ORDERS C", "remove consumer ORDERS > C"),
    ],
)
def test_nothing_is_removed_where_nobody_can_be_asked(
    orders: Run, line: str, deed: str, json_wanted: list[str]
) -> None:
    done(orders("pub", "ORDERS.new", "x"))
    done(orders("consumer", "add", "ORDERS", "C"))
    refused = orders(*line.split(), *json_wanted)
    told = f"error: there is no terminal to ask on: give --force to {deed}\n"
    assert (refused.exit_code, refused.stderr) == (1, told)
    state = json.loads(done(orders("stream", "info", "ORDERS", "--json")))["state"]
    assert (state["messages"], state["consumer_count"]) == (1, 1)


def test_subjects_are_counted(orders: Run) -> None:
    for subject in ("ORDERS.new", "ORDERS.new", "ORDERS.paid"):
        done(orders("pub", subject, "x"))
    report = done(orders("stream", "info", "ORDERS", "--subjects", ">"))
    assert "Number of Subjects: 2" in report
    assert "ORDERS.new: 2" in report
    state = json.loads(done(orders("stream", "info", "ORDERS", "--subjects", ">", "--json")))["state"]
    assert state["subjects"] == {"ORDERS.new": 2, "ORDERS.paid": 1}


# ---------------------------------------------------------------- publishing


def test_a_message_from_standard_input(orders: Run) -> None:
    done(orders("pub", "ORDERS.new", "--stdin", text="line one\nline two\n"))
    assert done(orders("stream", "get", "ORDERS", "1", "--raw")) == "line one\nline two\n"
    both = orders("pub", "ORDERS.new", "body", "--stdin", text="x")
    assert (both.exit_code, both.stderr) == (1, "error: give a BODY or --stdin, not both\n")


def test_many_acks_are_a_json_line_each(orders: Run) -> None:
    lines = done(orders("pub", "ORDERS.new", "x", "--count", "3", "--json")).splitlines()
    assert [json.loads(line) for line in lines] == [
        {"stream": "ORDERS", "seq": number, "duplicate": False} for number in (1, 2, 3)
    ]


def test_conditions_are_flags(orders: Run) -> None:
    done(orders("pub", "ORDERS.new", "a", "--expect-last-subject-sequence", "0", "--id", "A"))
    done(orders("pub", "ORDERS.new", "b", "--expect-last-sequence", "1", "--expect-last-msg-id", "A"))
    late = orders("pub", "ORDERS.new", "c", "--expect-last-subject-sequence", "1")
    assert (late.exit_code, late.stdout, said(late)) == (
        1,
        "",
        "error: wrong last sequence: 2 (10071/400)\n",
    )
    elsewhere = orders("pub", "ORDERS.new", "c", "--expect-stream", "AUDIT")
    assert said(elsewhere) == "error: expected stream does not match (10060/400)\n"


def test_a_raw_request_prints_the_answer(orders: Run) -> None:
    assert json.loads(done(orders("req", "ORDERS.new", "hello", "-H", "Nats-Msg-Id:1"))) == {
        "stream": "ORDERS",
        "seq": 1,
    }
    assert json.loads(done(orders("req", "STREAM.INFO.ORDERS")))["state"]["messages"] == 1
    refused = orders("req", "STREAM.INFO.NOPE")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["error"]["err_code"] == 10059
    nobody = orders("req", "NOPE.x", "hello")
    assert (nobody.exit_code, nobody.stdout) == (1, "status 503 No Responders\n")


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["pub", "NOPE.x", "hello"], "no stream captures the subject 'NOPE.x'"),
        (["pub", "ORDERS.*", "hello"], "'ORDERS.*' is not a valid subject to publish to: it is malformed or holds a wildcard"),
        (["pub", "ORDERS.new", "x", "-H", "no colon"], "--header 'no colon' is not NAME:VALUE"),
        (["stream", "info", "NOPE"], "stream not found (10059/404)"),
        (["stream", "get", "ORDERS"], "say which message: a SEQUENCE, --last-for SUBJECT or --next-for SUBJECT"),
        (["stream", "get", "ORDERS", "1", "--last-for", "a"], "give --last-for alone: it excludes SEQUENCE and --next-for"),
        (["stream", "add", "OTHER", "--subjects", "ORDERS.>"], "subjects overlap with an existing stream (10065/400)"),
        (["stream", "ls", "--prefix", "a b"], "the prefix 'a b' cannot begin a Kafka topic name: use letters, digits, '.', '_' and '-'"),
        (["stream", "ls", "--kafka", "nonsense"], "--kafka 'nonsense' is not KEY=VALUE, such as security.protocol=SASL_SSL"),
    ],
)  # fmt: skip
def test_an_error_is_one_sentence_and_a_code(orders: Run, arguments: list[str], text: str) -> None:
    result = orders(*arguments)
    assert (result.exit_code, result.stdout, said(result)) == (1, "", f"error: {text}\n")


def test_a_misused_option_is_told_by_its_name(run: Run) -> None:
    result = run("stream", "add", "X", "--max-age", "soon")
    assert result.exit_code == 2
    assert "--max-age" in result.stderr
    assert "'soon' is not a valid duration" in " ".join(result.stderr.replace("│", "").split())


def test_kafka_settings_come_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    from railgun.cli.options.cluster import Cluster

    file = tmp_path / "client.properties"
    file.write_text(
        "# ours\nbootstrap.servers=broker:9094\n\nsecurity.protocol = SASL_SSL\n"
        "sasl.mechanism=PLAIN\nsasl.username=me\nsasl.password=a=b\n"
    )
    cluster = Cluster(kafka_config=file, kafka=["security.protocol=SASL_PLAINTEXT"])
    assert cluster.address == "broker:9094"
    assert cluster.kafka_options() == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": "a=b",
    }
    assert Cluster(server="other:1", kafka_config=file).address == "other:1"
    assert "a=b" not in repr(cluster.settings())
    file.write_text("no equals sign\n")
    refused = invoke("stream", "ls", "--kafka-config", str(file))
    assert (refused.exit_code, refused.stderr) == (1, f"error: line 1 of {file} is not KEY=VALUE\n")


def test_a_setting_that_kafka_does_not_know() -> None:
    refused = invoke("stream", "ls", "--server", "127.0.0.1:1", "--kafka", "nope=1")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: ")
    assert "nope" in refused.stderr
    assert "Traceback" not in refused.stderr


# ---------------------------------------------------------------- around the cluster


def test_init_prints_the_permissions_of_a_prefix() -> None:
    arguments = [
        "init",
        "--print-acls",
        "--server",
        "k:9092",
        "--prefix",
        "shop",
        "--user",
        "w",
        "--client-user",
        "c",
    ]
    lines = done(invoke(*arguments)).splitlines()
    commands = [line for line in lines if line.startswith("kafka-acls.sh --bootstrap-server k:9092 --add ")]
    workers = [line for line in commands if "User:w " in line]
    clients = [line for line in commands if "User:c " in line]
    assert len(workers) + len(clients) == len(commands)
    assert any("--transactional-id shop- --resource-pattern-type prefixed" in line for line in workers)
    assert any(
        line.endswith("--operation Write --operation Describe --topic shop.commands") for line in clients
    )
    assert not any("Delete" in line or "Create" in line for line in clients)
    grants = json.loads(done(invoke(*arguments, "--json")))
    assert grants["worker"]["user"] == "w"


def test_init_has_nothing_to_make_in_memory(run: Run) -> None:
    assert "it has no Kafka" in run("init").stderr


def test_doctor_in_memory(run: Run) -> None:
    found = json.loads(done(run("doctor", "--json")))
    assert found["healthy"] is True
    assert [one["check"] for one in found["findings"]] == ["java", "broker"]


def _commands() -> list[list[str]]:
    root = get_command(app)
    found: list[list[str]] = [[]]
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        found.append([name])
        found.extend([name, inner] for inner in getattr(command, "commands", {}))
    return found


@pytest.mark.parametrize("path", _commands(), ids=" ".join)
def test_every_command_has_help(path: list[str]) -> None:
    result = invoke(*path, "--help", COLUMNS="120")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout
    assert len(result.stdout.splitlines()) > 5


def test_the_cluster_options_are_everywhere() -> None:
    wanted = {"--server", "--prefix", "--kafka", "--kafka-config", "--json"}
    root = get_command(app)
    nouns = [root.commands[name].commands for name in ("stream", "consumer", "dlq")]  # type: ignore[attr-defined]
    others = ("pub", "sub", "req", "events", "doctor", "init", "tour")
    verbs = [root.commands[name] for name in others]  # type: ignore[attr-defined]
    for command in [*(verb for noun in nouns for verb in noun.values()), *verbs]:
        options = {option for parameter in command.params for option in parameter.opts}
        assert wanted <= options, command.name


def test_shells_complete_commands_options_and_streams(orders: Run, server: str) -> None:
    source = CliRunner().invoke(app, [], prog_name="railgun", env={"_RAILGUN_COMPLETE": "source_bash"})
    assert "complete -o default -F" in source.stdout
    assert "stream" in complete("railgun str")
    assert complete("railgun stream add X --dupe") == ["--dupe-window"]
    assert complete(f"railgun stream info --server {server} ORD") == ["ORDERS"]
    assert complete("railgun stream info --server http://nowhere ORD") == []


# ---------------------------------------------------------------- durations and sizes


@pytest.mark.parametrize(
    "text, expected, shown",
    [
        ("100ms", timedelta(milliseconds=100), "100ms"),
        ("2m", timedelta(minutes=2), "2m0s"),
        ("1h30m", timedelta(hours=1, minutes=30), "1h30m0s"),
        ("1.5s", timedelta(seconds=1.5), "1.5s"),
        ("7d", timedelta(days=7), "168h0m0s"),
        ("1y", timedelta(days=365), "8760h0m0s"),
        ("0", timedelta(0), "none"),
        ("none", timedelta(0), "none"),
    ],
)
def test_durations(text: str, expected: timedelta, shown: str) -> None:
    assert units.duration(text) == expected
    assert units.show_duration(expected) == shown


@pytest.mark.parametrize("text", ["", "2", "2 minutes", "m2", "2x"])
def test_texts_that_are_not_valid_durations(text: str) -> None:
    with pytest.raises(ValueError, match="not a valid duration"):
        units.duration(text)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1024", 1024),
        ("64KB", 65536),
        ("1.5GiB", 3 * 512 * 1024 * 1024),
        ("-1", -1),
        ("none", -1),
        ("2 mb", 2097152),
        ("9007199254740993", 2**53 + 1),
    ],
)
def test_sizes(text: str, expected: int) -> None:
    assert units.size(text) == expected


def test_shown_sizes() -> None:
    assert [units.show_size(n) for n in (0, 67, 1023, 1024, 1536, 1024**2, 3 * 1024**4)] == [
        "0 B", "67 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "3.0 TiB",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="not a valid size"):
        units.size("many")
