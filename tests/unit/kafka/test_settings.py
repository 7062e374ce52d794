"""Settings of librdkafka that cannot be used are said in words, before anything is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import railgun
from railgun.errors import ConfigError
from railgun.kafka.settings import KafkaSettings
from railgun.worker.settings import load_settings

FAULTS = [
    ({"nonsense": 1}, "'nonsense' is not known to librdkafka"),
    ({"linger.ms": "soon"}, "cannot be used: Invalid value"),
    ({"linger.ms": -3}, "outside allowed range"),
    ({"security.protocol": "nonsense"}, 'cannot be used: Invalid value "nonsense" .*security.protocol'),
    ({"security.protocol": "ssl", "ssl.ca.location": "/no/such/file"}, "'ssl.ca.location' names a file"),
    (
        {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"},
        "sasl.username and sasl.password must be set",
    ),
    ({"error_cb": 3}, "cannot be used: expected error_cb property as a callable"),
    ({1: 2}, "1 is not known"),
    ({"acks": 1}, "'acks' is railgun's own"),
]


@pytest.mark.parametrize("options, said", FAULTS)
def test_a_facade_refuses_what_librdkafka_would(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        railgun.connect("localhost:1", kafka=options)


async def test_so_does_an_asynchronous_one() -> None:
    with pytest.raises(ConfigError, match="'nonsense' is not known to librdkafka"):
        await railgun.connect_async("localhost:1", kafka={"nonsense": 1})


@pytest.mark.parametrize(
    "line, said",
    [
        ("nonsense = 1", "'nonsense' is not known to librdkafka"),
        ("linger.ms = 'soon'", "cannot be used: Invalid value"),
        ("sasl.nonsense = 'x'", "'sasl.nonsense' is not known"),
    ],
)
def test_the_file_of_a_worker_is_named_with_its_fault(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "railgun.toml"
    file.write_text(f"[node.kafka]\n{line}\n")
    with pytest.raises(ConfigError, match=f"the configuration file {file}: .*{said}"):
        load_settings(file)


def test_what_can_be_used_is_used_and_said_nothing_about(capfd: pytest.CaptureFixture[str]) -> None:
    options = {"client.id": "me", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    options |= {"sasl.username": "u", "sasl.password": "very secret"}
    settings = KafkaSettings("localhost:1", options)
    assert settings.producer()["client.id"] == "me"
    assert capfd.readouterr().err == ""


def test_a_secret_is_not_in_what_is_said() -> None:
    options = {"security.protocol": "ssl", "ssl.key.pem": "PEM"}  # a word that librdkafka says by itself
    with pytest.raises(ConfigError) as fault:
        KafkaSettings("localhost:1", options)
    assert "***" in str(fault.value)
    assert fault.value.__cause__ is None
