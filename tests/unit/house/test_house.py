"""The house: what a clone must hold so that the first two commands work."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from tests.support.checkout import TOP


def test_make_help_explains_every_target() -> None:
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    phony = re.findall(r"^\.PHONY:(.*)$", makefile, re.MULTILINE)
    targets = {name for line in phony for name in line.split()}
    answer = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    explained = set(re.findall(r"^  make (\S+)\s+\S", answer.stdout, re.MULTILINE))
    assert targets == explained
    assert {"run", "test", "lint", "format", "types", "doors", "rules", "chaos", "bench"} <= explained


def test_a_machine_without_a_fitting_python_is_told_so(tmp_path: Path) -> None:
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_bytes((TOP / name).read_bytes())
    answer = subprocess.run(
        ["make", "PYTHON=", "run"], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert answer.returncode != 0
    assert "railgun needs Python 3.11 or newer" in answer.stderr
    assert not (tmp_path / ".venv").exists()


def test_the_lock_names_packages_and_no_place_to_get_them_from() -> None:
    lines = (TOP / "requirements.lock").read_text(encoding="utf-8").splitlines()
    wrong = [line for line in lines if "://" in line or line.startswith("-")]
    assert wrong == []


def test_the_lock_holds_what_the_project_asks_for() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = list(project["dependencies"])
    for extra in ("worker", "embedded", "avro", "spark", "sinks", "test", "dev", "bench"):
        wanted += extras[extra]
    names = {re.split(r"[\[<>=!~ ]", requirement, maxsplit=1)[0].lower() for requirement in wanted} - {
        "railgun"
    }
    locked = set(re.findall(r"^([a-z0-9._-]+)==", (TOP / "requirements.lock").read_text(), re.MULTILINE))
    assert names - locked == set()


def test_ci_runs_what_a_developer_runs() -> None:
    script = TOP / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text()


def test_the_built_package_has_its_types_its_schemas_and_the_topologies() -> None:
    built = {one.distribution_path for one in WheelBuilder(str(TOP)).recurse_included_files()}
    wanted = {f"railgun/_schemas/{one.name}" for one in (TOP / "schemas").glob("*.avsc")}
    wanted |= {f"railgun/_{one.relative_to(TOP)}" for one in (TOP / "topologies").rglob("*.py")}
    assert {"railgun/py.typed", "railgun/__init__.py", *wanted} <= built
    assert not {name for name in built if not name.startswith("railgun/")}
