"""Sinks as configurations of connectors: what is given, what cannot be, and that no secret is ever in one."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from railgun.errors import ConfigError
from railgun.protocol.topics import Names
from railgun.sinks import FileSink, JdbcSink, Sink
from railgun.sinks.stream_sink import StreamSink

NAMES = Names("shop")
SECRET = "hunter2-very-secret"
JDBC: dict[str, Any] = {
    "name": "orders",
    "stream": "ORDERS",
    "url": "jdbc:postgresql://db/shop",
    "user": "shop",
    "password": "${env:PG_PASSWORD}",
    "table": "orders",
}
APICURIO = "http://registry:8080/apis/ccompat/v7"
PLAIN: dict[str, Any] = {"name": "orders", "stream": "ORDERS", "connector_class": "a.B"}


def jdbc(**others: Any) -> JdbcSink:
    return JdbcSink.model_validate({**JDBC, **others})


@pytest.mark.parametrize(
    "sink",
    [jdbc(), FileSink(name="orders", stream="ORDERS", file="/tmp/x"), Sink.model_validate(PLAIN)],
    ids=lambda sink: type(sink).__name__,
)
def test_every_sink_reads_committed_messages_of_one_incarnation_and_writes_to_no_log(
    sink: StreamSink,
) -> None:
    config = sink.rendered(NAMES, 7)
    assert config["topics"] == "shop.log.ORDERS"
    assert config["consumer.override.isolation.level"] == "read_committed"
    assert config["consumer.override.auto.offset.reset"] == "earliest"
    assert config["consumer.override.group.id"] == "shop-sink-orders-7"
    assert config["errors.deadletterqueue.topic.name"] == "shop.sink.orders.connect-dlq"
    assert config["errors.tolerance"] == "all"
    assert config["errors.log.include.messages"] == "false"
    guard = config["transforms"].split(",")[0]
    assert config[f"transforms.{guard}.type"].endswith(".Filter")
    assert config[f"predicates.{config[f'transforms.{guard}.predicate']}.name"] == "Railgun-Sequence"
    assert config[f"transforms.{guard}.negate"] == "true"


def test_a_row_is_put_by_incarnation_and_sequence() -> None:
    config = jdbc().rendered(NAMES, 7)
    assert config["insert.mode"] == "upsert"
    assert config["primary.key.fields"] == "incarnation,sequence"
    assert config["connection.password"] == "${env:PG_PASSWORD}"
    assert config["collection.name.format"] == "orders"


@pytest.mark.parametrize("api", ["ccompat/v7", "ccompat/v6/", "registry/v2"])
def test_a_registry_is_asked_by_its_own_api_and_its_events_are_columns(api: str) -> None:
    sink = jdbc(payload="fields", registry=f"https://registry/apis/{api}", settings={"batch.size": "5"})
    config = sink.rendered(NAMES, 7)
    assert config["value.converter"] == "io.apicurio.registry.utils.converter.AvroConverter"
    assert config["value.converter.apicurio.registry.url"] == "https://registry/apis/registry/v2"
    steps = config["transforms"].split(",")
    assert steps.index("railgunFlat") < steps.index("railgunNames") < steps.index("railgunColumns")
    assert "sequence:event_sequence" in config["transforms.railgunNames.renames"].split(",")
    assert "railgunFlat" not in jdbc().rendered(NAMES, 7)["transforms"]


def test_a_stream_with_odd_characters_is_read_from_its_own_log() -> None:
    assert jdbc(stream="a b").rendered(NAMES, 1)["topics"] == NAMES.log("a b")


@pytest.mark.parametrize(
    "given, told",
    [
        ({"unknown": 1}, "Extra inputs"),
        ({"name": "a/b"}, "not a valid name of a sink"),
        ({"name": ""}, "not a valid name of a sink"),
        ({"stream": ""}, "at least 1 character"),
        ({"table": "orders; drop table x"}, "not a valid name of a table"),
        ({"table": "${topic}"}, "not a valid name of a table"),
        ({"url": "postgresql://db/shop"}, "begins with jdbc:"),
        ({"payload": "fields"}, "needs a registry, or a value.converter"),
        ({"registry": APICURIO}, "needs payload='fields'"),
        ({"registry": APICURIO, "payload": "fields", "settings": {"value.converter": "a.B"}}, "exclude each"),
        ({"registry": "http://registry:8081", "payload": "fields"}, "give its value.converter in settings"),
        ({"registry": f"{APICURIO}/subjects", "payload": "fields"}, "not a valid registry of a sink"),
        ({"payload": "xml"}, "'bytes', 'text' or 'fields'"),
        ({"settings": {"topics": "other"}}, "topics is railgun's own"),
        ({"settings": {"insert.mode": "insert"}}, "insert.mode is railgun's own"),
        ({"settings": {"transforms.x.type": "y"}}, "railgun's own"),
        ({"settings": {"consumer.override.isolation.level": "read_uncommitted"}}, "railgun's own"),
        ({"transforms": {"x": {}}}, "a type"),
        ({"transforms": {"railgunColumns": {"type": "y"}}}, "does not begin with railgun"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        jdbc(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"password": SECRET},
        {"password": f"${{env:X}}{SECRET}"},
        {"url": f"jdbc:postgresql://db/shop?user=a&password={SECRET}"},
        {"url": f"jdbc:postgresql://shop:{SECRET}@db/shop"},
        {"payload": "fields", "registry": f"http://shop:{SECRET}@registry:8080/apis/ccompat/v7"},
        {"settings": {"s3.secret.access.key": SECRET}},
        {"settings": {"value.converter.basic.auth.user.info": f"me:{SECRET}"}},
        {"settings": {"value.converter.schema.registry.url": f"http://me:{SECRET}@registry:8081"}},
        {"url": f"jdbc:oracle:thin:scott/{SECRET}@//db:1521/shop"},
        {"settings": {"value.converter.basic.auth.credentials": SECRET}},
        {"transforms": {"x": {"type": "y", "api.token": SECRET}}},
        {"url": f"jdbc:postgresql://shop:a/{SECRET}@db/shop"},
        {"payload": "fields", "registry": f"http://shop:a/{SECRET}@registry:8080/apis/ccompat/v7"},
        {"url": f"jdbc:oracle:oci:scott/{SECRET}@db"},
        {"url": f"jdbc:sqlserver://db;user=a;trustStorePassword={SECRET}"},
        {"url": f"jdbc:sqlserver://db;accessToken={SECRET}"},
        {"url": f"jdbc:mysql://address=(host=db)(user=a)(password={SECRET})/shop"},
        {"url": f"jdbc:mysql://(host=db,user=a,password={SECRET})/shop"},
        {"url": f"jdbc:mysql://db/shop?user=a&trustCertificateKeyStorePassword = {SECRET}"},
        {"settings": {"consumer.override.ssl.keystore.key": SECRET}},
        {"url": f"jdbc:db2://db:50000/shop:password={SECRET};user=a;"},
        {"url": f'jdbc:oracle:thin:scott/"a {SECRET}"@db:1521/shop'},
        {"settings": {"hive.pwd": SECRET}},
        {"settings": {"snowflake.private_key": SECRET}},
        {"settings": {"http.headers.authorization": f"Bearer {SECRET}"}},
        {"settings": {"token.url": f"https://shop:{SECRET}@login"}},
        {"settings": {"search.apikey": SECRET}},
    ],
)
def test_a_secret_that_is_written_out_is_refused_and_never_shown(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        jdbc(**given)
    assert "${env:PG_PASSWORD}" in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "reference", ["", "${env:X}", "${file:/etc/connect/pg.properties:password}", "${dir:/run/secrets:pg}"]
)
def test_a_reference_to_a_secret_is_taken(reference: str) -> None:
    config = jdbc(password=reference, settings={"some.token": reference}).rendered(NAMES, 1)
    assert config.get("connection.password", "") == reference


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://db:5432/shop?user=me@example&sslmode=verify-full",
        "jdbc:postgresql://db:5432,db2:5432/my@shop",
        "jdbc:mysql://db/shop?user=a&passwordCharacterEncoding=utf8&password=${env:X}",
        "jdbc:sqlserver://db:1433;databaseName=shop;password=",
    ],
)
def test_an_address_without_a_secret_is_taken(url: str) -> None:
    assert jdbc(url=url).url == url


@pytest.mark.parametrize(
    "setting, value",
    [
        ("value.converter.basic.auth.credentials.source", "USER_INFO"),
        ("consumer.override.sasl.oauthbearer.token.endpoint.url", "https://login/token"),
        ("http.authorization.type", "static"),
        ("gcs.credentials.path", "/etc/connect/gcs.json"),
    ],
)
def test_a_setting_that_only_speaks_of_a_secret_is_taken(setting: str, value: str) -> None:
    assert jdbc(settings={setting: value}).rendered(NAMES, 1)[setting] == value


@pytest.mark.parametrize("topic", ["shop.log.OTHER", "shop.commands", "shop.rejected", "a b", "x" * 250])
def test_dead_letters_never_go_to_a_topic_of_railguns(topic: str) -> None:
    with pytest.raises(ConfigError, match="not a valid topic for dead letters"):
        jdbc(dead_letters=topic).rendered(NAMES, 1)


def test_a_sink_of_any_name_has_dead_letters_beside_the_logs() -> None:
    for name in ("log", "commands", "connect-dlq"):
        assert not jdbc(name=name).dead_letter_topic(NAMES).startswith("shop.log.")


def test_settings_and_transforms_of_ones_own_are_added() -> None:
    given = {
        "settings": {"batch.size": "10", "errors.tolerance": "none"},
        "transforms": {"mine": {"type": "t"}},
    }
    config = jdbc(**given).rendered(NAMES, 1)
    assert (config["batch.size"], config["errors.tolerance"]) == ("10", "none")
    order = config["transforms"].split(",")
    assert order.index("mine") == 1
    assert config["transforms.mine.type"] == "t"
