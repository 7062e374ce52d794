"""The compose files, as far as they can be checked without an engine: their schema, their images, their addresses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from railgun.cli.commands.up import CONNECT_PORT, USUAL_PORT
from railgun.cli.options.context import FALLBACK_CONNECT, FALLBACK_SERVER
from railgun.kafka.embedded import connect
from railgun.kafka.embedded.connect_jars import PLUGINS
from railgun.kafka.embedded.pinned import KAFKA_VERSION
from railgun.kafka.embedded.server_properties import read_properties
from railgun.sinks.connect import DEFAULT_URL
from railgun.worker.settings import load_settings
from tests.support.checkout import TOP

FOLDER = TOP / "compose"
FILE = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
DOCKERFILES = sorted(FOLDER.glob("*Dockerfile"))
_PINNED = re.compile(
    r"[a-z0-9./-]+:\d+\.\d+(\.\d+)?(-[a-z0-9.]+)*"
)  # a name and a full version; never "latest"

each_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


def test_the_file_keeps_the_specification() -> None:
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(schema).validate(FILE)
    assert list(jsonschema.Draft7Validator(schema).iter_errors({"services": {"a": {"imagee": "x"}}}))


def test_everything_that_the_stack_promises_is_in_it() -> None:
    assert set(SERVICES) == {"kafka", "worker", "registry", "connect", "postgres", "spark"}
    assert SERVICES["worker"]["deploy"]["replicas"] == 2
    assert [name for name, one in SERVICES.items() if "profiles" not in one] == ["kafka", "worker"]


@each_service
def test_images_are_pinned(service: dict[str, Any]) -> None:
    assert ("image" in service) != ("build" in service)
    if "image" in service:
        assert _PINNED.fullmatch(service["image"])
    else:
        assert (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_images_are_built_on_pinned_ones_from_files_that_exist(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert bases
    assert all(_PINNED.fullmatch(base) for base in bases)
    copied = [
        word
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE)
        for word in line.split()[:-1]
    ]
    assert copied
    assert all((TOP / word).exists() for word in copied)
    assert "://" not in text, "downloads are those of the lock and of the pinned jars"


@each_service
def test_every_service_has_a_health_check_that_ends(service: dict[str, Any]) -> None:
    check = service["healthcheck"]
    assert check["test"][0] == "CMD"
    assert {"interval", "timeout", "retries"} <= check.keys()


@each_service
def test_services_wait_for_those_that_they_need(service: dict[str, Any]) -> None:
    for name, need in service.get("depends_on", {}).items():
        assert need == {"condition": "service_healthy"}
        needed = SERVICES[name].get("profiles")
        assert needed is None or set(service["profiles"]) <= set(needed), "it would never start"


def published(service: str) -> set[int]:
    """The ports of this machine, and only of its loopback interface."""
    found = [re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in SERVICES[service].get("ports", ())]
    assert all(found)
    return {int(one[1]) for one in found if one}


def test_addresses_are_the_defaults_and_those_of_the_docs() -> None:
    assert published("kafka") == {USUAL_PORT} == {int(FALLBACK_SERVER.rpartition(":")[2])}
    assert published("connect") == {CONNECT_PORT} == {int(FALLBACK_CONNECT.rpartition(":")[2])}
    assert FALLBACK_CONNECT == DEFAULT_URL
    page = (TOP / "docs" / "sinks.md").read_text(encoding="utf-8")
    (port,) = published("postgres")
    account = SERVICES["postgres"]["environment"]
    assert f"postgresql://{account['POSTGRES_USER']}@localhost:{port}/{account['POSTGRES_DB']}" in page
    assert published("registry") == {8080}
    assert SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].startswith(
        f"HOST://{FALLBACK_SERVER}"
    )


def test_all_containers_use_the_kafka_of_the_stack() -> None:
    inside = load_settings(FOLDER / "railgun.toml").node.bootstrap
    assert f"INSIDE://{inside}" in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert SERVICES["registry"]["environment"]["APICURIO_KAFKASQL_BOOTSTRAP_SERVERS"] == inside
    assert inside in SERVICES["spark"]["command"]
    assert inside in SERVICES["worker"]["healthcheck"]["test"]
    assert read_properties(FOLDER / "connect.properties")["bootstrap.servers"] == inside


def test_kafka_is_of_the_version_of_the_local_one() -> None:
    wanted = f"apache/kafka:{KAFKA_VERSION}"
    assert SERVICES["kafka"]["image"] == wanted
    assert f"FROM {wanted}\n" in (FOLDER / "connect.Dockerfile").read_text(encoding="utf-8")


def test_connect_is_set_up_as_the_local_one() -> None:
    given = read_properties(FOLDER / "connect.properties")
    local = connect.EmbeddedConnect("kafka:29092", port=CONNECT_PORT)
    wanted = local._settings(Path("/opt/connect/plugins"))
    local.stop()
    # What differs: it listens to other containers, and a worker of a cluster is not on this machine.
    own = {"listeners", "rest.advertised.host.name"} | {name for name in wanted if "timeout" in name}
    own |= {name for name in wanted if "interval" in name or name == "scheduled.rebalance.max.delay.ms"}
    assert {name: given.get(name) for name in wanted if name not in own} == {
        name: value for name, value in wanted.items() if name not in own
    }
    assert given["listeners"].endswith(f":{CONNECT_PORT}")


def test_passwords_come_from_the_environment_that_connect_shows_to_sinks() -> None:
    given = read_properties(FOLDER / "connect.properties")
    for name in SERVICES["connect"]["environment"]:
        shown = re.fullmatch(given["config.providers.env.param.allowlist.pattern"], name)
        assert (shown is not None) == (name == "PG_PASSWORD")
    assert (
        SERVICES["postgres"]["environment"]["POSTGRES_PASSWORD"]
        == SERVICES["connect"]["environment"]["PG_PASSWORD"]
    )


@pytest.mark.kafka  # fetches the plugins if the cache does not hold them
def test_the_image_of_connect_gets_a_folder_for_each_plugin(tmp_path: Path) -> None:
    done = [sys.executable, str(FOLDER / "copy_plugins.py"), str(tmp_path / "plugins")]
    subprocess.run(done, cwd=TOP, env={**os.environ, "PYTHONPATH": str(TOP)}, check=True, timeout=120)
    folders = {folder.name: len(list(folder.glob("*.jar"))) for folder in (tmp_path / "plugins").iterdir()}
    assert folders.keys() == {plugin.name for plugin in PLUGINS}
    assert all(folders.values())
