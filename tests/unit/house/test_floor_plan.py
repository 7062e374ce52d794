"""The floor plan: how large a room and a module may be, and that a name means one thing on each side of Kafka.

Each check returns what is wrong with a package. It is shown on the package that this repository builds, and on a made-up
package in which exactly that is wrong.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.checkout import TOP

PACKAGE: Final = TOP / "railgun"
MODULES: Final = 15  # in one folder
LINES: Final = 400  # in one module
SIDES: Final = {
    "owner": ("semantics", "api", "state", "shard", "worker"),
    "client": ("client",),
    "common": ("model", "protocol", "kafka"),
    "cli": ("cli",),
    "spark": ("spark",),
    "sinks": ("sinks",),
    "avro": ("avro",),
}
ORIGINAL, TWIN = "client/facade/aio", "client/facade/sync"  # the second is generated from the first

Check = Callable[[Path], list[str]]


def modules(folder: Path) -> list[Path]:
    """The modules right in this folder; a package's ``__init__`` is none of them."""
    return sorted(file for file in folder.glob("*.py") if file.name != "__init__.py")


def folders(top: Path) -> Iterator[Path]:
    """The folder and all below it that hold Python files."""
    for folder in (top, *sorted(top.rglob("*"))):
        if folder.is_dir() and any(folder.glob("*.py")):
            yield folder


def written_modules(package: Path, rooms: Iterable[str]) -> Iterator[Path]:
    """The modules of these rooms, without the twins that are generated from another module of the same name."""
    for room in rooms:
        for folder in folders(package / room):
            for module in modules(folder):
                if not is_twin(package, module):
                    yield module


def is_twin(package: Path, module: Path) -> bool:
    """Whether the module is generated from one at the same place of the other room."""
    twins = package / TWIN
    return module.is_relative_to(twins) and (package / ORIGINAL / module.relative_to(twins)).exists()


def doubled(package: Path, names_of: Callable[[Path], Iterable[str]]) -> list[str]:
    """The names that stand in two modules of one side, with their places."""
    found: list[str] = []
    for side, rooms in SIDES.items():
        places: dict[str, list[str]] = {}
        for module in written_modules(package, rooms):
            for name in names_of(module):
                places.setdefault(name, []).append(module.relative_to(package).as_posix())
        found += [f"{side}: {name} in {', '.join(at)}" for name, at in places.items() if len(at) > 1]
    return found


def classes(module: Path) -> list[str]:
    """The classes of a module, private and inner ones too."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


# ------------------------------------------------------------ the checks


def crowded_folders(package: Path) -> list[str]:
    counts = {folder: len(modules(folder)) for folder in folders(package)}
    return [
        f"{folder.relative_to(package)}: {count} modules"
        for folder, count in counts.items()
        if count > MODULES
    ]


def doubled_modules(package: Path) -> list[str]:
    return doubled(package, lambda module: [module.name])


def doubled_classes(package: Path) -> list[str]:
    return doubled(package, classes)


def packages_without_docstring(package: Path) -> list[str]:
    found: list[str] = []
    for folder in folders(package):
        init = folder / "__init__.py"
        if not init.exists() or not ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))):
            found.append(str(folder.relative_to(package)))
    return found


def long_modules(package: Path) -> list[str]:
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in package.rglob("*.py")}
    return [
        f"{file.relative_to(package)}: {length} lines" for file, length in lengths.items() if length > LINES
    ]


CHECKS: Final[list[Check]] = [
    crowded_folders,
    doubled_modules,
    doubled_classes,
    packages_without_docstring,
    long_modules,
]


@pytest.mark.parametrize("check", CHECKS)
def test_the_package_keeps_the_floor_plan(check: Check) -> None:
    assert check(PACKAGE) == []


def test_every_room_belongs_to_a_side_or_stands_for_itself() -> None:
    rooms = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists()}
    assert rooms - {room for side in SIDES.values() for room in side} == {"testing"}


# ------------------------------------------------------------ made-up packages


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A package that keeps the floor plan, and uses all that it allows."""
    for number in range(MODULES):
        write(tmp_path, f"shard/streams/part_{number}.py")
    write(tmp_path, "shard/core.py", "class Core:\n    class _Step: ...\n")
    write(tmp_path, "client/core.py", "class Core:\n    class _Step: ...\n")  # another side
    write(tmp_path, f"{ORIGINAL}/stream.py", "class _Made: ...\n")
    write(tmp_path, f"{TWIN}/stream.py", "class _Made: ...\n")
    write(tmp_path, f"{ORIGINAL}/inner/watch.py", "class _Seen: ...\n")
    write(tmp_path, f"{TWIN}/inner/watch.py", "class _Seen: ...\n")
    write(tmp_path, "model/long.py", "1\n" * LINES)
    return tmp_path


def write(package: Path, path: str, text: str = "") -> None:
    """A module; the folders on the way become packages with a docstring."""
    file = package / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    for folder in file.relative_to(package).parents:
        (package / folder / "__init__.py").write_text('"""A room."""\n', encoding="utf-8")


@pytest.mark.parametrize("check", CHECKS)
def test_a_package_may_use_all_that_the_plan_allows(house: Path, check: Check) -> None:
    assert check(house) == []


def test_a_sixteenth_module_is_too_many(house: Path) -> None:
    write(house, "shard/streams/one_more.py")
    assert crowded_folders(house) == ["shard/streams: 16 modules"]


def test_a_module_name_is_used_once_on_each_side(house: Path) -> None:
    write(house, "worker/group/core.py")
    assert doubled_modules(house) == ["owner: core.py in shard/core.py, worker/group/core.py"]


def test_a_twin_without_an_original_counts(house: Path) -> None:
    write(house, f"{TWIN}/core.py", "class Core: ...\n")
    assert doubled_modules(house) == [f"client: core.py in client/core.py, {TWIN}/core.py"]
    assert doubled_classes(house) == [f"client: Core in client/core.py, {TWIN}/core.py"]


@pytest.mark.parametrize("name", ["Core", "_Step"])
def test_a_class_name_is_used_once_on_each_side(house: Path, name: str) -> None:
    write(house, "semantics/rules.py", f"class {name}: ...\n")
    assert doubled_classes(house) == [f"owner: {name} in semantics/rules.py, shard/core.py"]


@pytest.mark.parametrize("text", [None, "", "# not a docstring\n"])
def test_a_package_says_what_it_is(house: Path, text: str | None) -> None:
    init = house / "shard" / "streams" / "__init__.py"
    if text is None:
        init.unlink()
    else:
        init.write_text(text, encoding="utf-8")
    assert packages_without_docstring(house) == ["shard/streams"]


@pytest.mark.parametrize("path", ["model/long.py", "model/__init__.py"])
def test_a_line_too_many_is_told(house: Path, path: str) -> None:
    (house / path).write_text('"""A room."""\n' + "1\n" * LINES, encoding="utf-8")
    assert long_modules(house) == [f"{path}: {LINES + 1} lines"]
