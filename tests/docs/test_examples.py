"""Every example of the documentation is run: the Python blocks, and the shell's as far as the commands' options go."""

from __future__ import annotations

import inspect
import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from railgun.client.facade.railgun import Railgun, connect
from railgun.testing.clock import Clock
from tests.support.cell import Cell
from tests.support.checkout import TOP
from tests.support.commands import done, invoke
from tests.support.sink_side import SinkSide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGES = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").rglob("*.md"))]
ADDRESS = "localhost:9092"  # what the examples on Kafka connect to
CONNECT, DATABASE = "http://localhost:8083", "localhost:5432"  # and those with sinks

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")


class Block(NamedTuple):
    """One example."""

    page: Path
    line: int
    language: str
    body: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(TOP)}:{self.line}"


def blocks(language: str) -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in _FENCE.finditer(text):
            if found["language"] == language:
                line = text.count("\n", 0, found.start()) + 1
                yield Block(page, line, language, textwrap.dedent(found["body"]))


def run_block(block: Block, source: str) -> dict[str, Any]:
    """Run the block as a program of its own; a failing assertion shows the page's own line."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("\n" * block.line + source, str(block.page), "exec"), names)
    return names


PYTHON = list(blocks("python"))
WITH_CONNECT = [block for block in PYTHON if CONNECT in block.body]
IN_SPARK = [block for block in PYTHON if "railgun.spark" in block.body]
_ELSEWHERE = [*WITH_CONNECT, *IN_SPARK]
IN_MEMORY = [block for block in PYTHON if ADDRESS not in block.body and block not in _ELSEWHERE]
ON_KAFKA = [block for block in PYTHON if ADDRESS in block.body and block not in _ELSEWHERE]


def test_there_are_examples_of_both_kinds() -> None:
    readme = [block for block in PYTHON if block.page.name == "README.md"]
    assert any("memory://" in block.body for block in readme)
    assert any(ADDRESS in block.body for block in readme)


@pytest.mark.parametrize("block", IN_MEMORY, ids=str)
def test_an_example_in_memory(block: Block) -> None:
    for name, made in run_block(block, block.body).items():
        if name.startswith("test_"):
            _run_test(made)


def _run_test(test: Any) -> None:
    """An example that is itself a test, with the fixtures of the plugin."""
    with connect("memory://") as rg:
        fixtures: dict[str, Railgun | Clock] = {"rg": rg, "clock": Clock(rg)}
        test(**{name: fixtures[name] for name in inspect.signature(test).parameters})


@pytest.mark.kafka
@pytest.mark.parametrize("block", ON_KAFKA, ids=str)
def test_an_example_on_kafka(block: Block, cell: Cell) -> None:
    _run_on(cell, block)


@pytest.mark.kafka
@pytest.mark.parametrize("block", WITH_CONNECT, ids=str)
def test_an_example_with_connect(block: Block, cell: Cell, sink_side: SinkSide) -> None:
    _run_on(cell, block, {CONNECT: sink_side.connect, DATABASE: sink_side.database})


@pytest.mark.kafka
@pytest.mark.timeout(600)  # the first one waits for the JVM
@pytest.mark.parametrize("block", IN_SPARK, ids=str)
def test_an_example_in_spark(block: Block, cell: Cell, spark: SparkSession) -> None:
    """``session()`` in the text gives the session of the tests."""
    _run_on(cell, block)


def _run_on(cell: Cell, block: Block, addresses: Mapping[str, str] = MappingProxyType({})) -> None:
    """Run an example with the addresses and the prefix of the test's own cluster, and leave no stream to the next one."""
    source = re.sub(
        rf'(connect\(|server=)"{ADDRESS}"(, prefix="railgun")?',
        rf'\1"{ADDRESS}", prefix="{cell.prefix}"',
        block.body,
    )
    source = source.replace('prefix="railgun"', f'prefix="{cell.prefix}"').replace(
        '"railgun.', f'"{cell.prefix}.'
    )
    for address, own in {ADDRESS: cell.bootstrap, **addresses}.items():
        source = source.replace(address, own)
    try:
        run_block(block, source)
    finally:
        with cell.connect() as rg:
            for stream in rg.streams():
                rg.delete_stream(stream.config.name)


def _commands() -> list[tuple[str, list[str]]]:
    found = []
    for block in blocks("sh"):
        for number, line in enumerate(block.body.splitlines(), block.line + 1):
            words = shlex.split(line, comments=True)
            if words and words[0] == "railgun":
                if "<" in words:
                    words = words[: words.index("<")]
                found.append((f"{block.page.relative_to(TOP)}:{number}", words[1:]))
    return found


@pytest.mark.parametrize("words", [pytest.param(words, id=place) for place, words in _commands()])
def test_a_command_has_the_options_that_the_text_gives_it(words: list[str]) -> None:
    if words == ["--install-completion"]:
        pytest.skip("would change the shell of whoever runs the tests")
    done(invoke(*words, "--help"))


def test_the_configuration_files_of_the_text_are_what_a_worker_reads(tmp_path: Path) -> None:
    from railgun.worker.settings import ClusterSection, NodeSection, load_settings

    files = list(blocks("toml"))
    for block in files:
        file = tmp_path / "railgun.toml"
        file.write_text(block.body, encoding="utf-8")
        load_settings(file)
    (whole,) = [tomllib.loads(block.body) for block in files if block.page.name == "operations.md"]
    assert whole["cluster"] == ClusterSection().model_dump(), "the text shows every setting with its default"
    assert whole["node"] == NodeSection().model_dump()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        if anchor:
            titles = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in anchors, link
