"""Schemas in a folder: versions as files, ids that stay, and versions that break with others."""

from __future__ import annotations

import errno
import json
import os
import threading
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import AliasChoices, BaseModel, Field, create_model

from railgun.avro import (
    Events,
    IncompatibleSchema,
    RegistryUnavailable,
    SchemaFolder,
    UnknownSchema,
    schema_of,
    writers,
)
from railgun.errors import ConfigError


class Placed(BaseModel):
    __avro_name__ = "shop.Placed"
    id: str
    amount: int


class PlacedLater(BaseModel):
    """With a note."""

    __avro_name__ = "shop.Placed"
    id: str
    amount: int
    note: str | None = None


class Renumbered(BaseModel):
    __avro_name__ = "shop.Placed"
    id: int
    amount: datetime
    why: str


def test_versions_are_files_and_ids_stay(tmp_path: Path) -> None:
    Events(SchemaFolder(tmp_path)).use(Placed, PlacedLater, Placed)
    folder = tmp_path / "shop.Placed"
    assert sorted(file.name for file in folder.iterdir()) == ["1.avsc", "2.avsc"]
    elsewhere = SchemaFolder(tmp_path / "other")
    ids = [elsewhere.use("shop.Placed", json.loads(schema_of(one))) for one in (PlacedLater, Placed)]
    assert list(writers(SchemaFolder(tmp_path), Placed)) == ids[::-1], "the order of versions changes no id"
    second = folder / "2.avsc"
    second.write_text(second.read_text().replace("With a note.", "With another text."))
    assert SchemaFolder(tmp_path).schema(ids[0])["name"] == "shop.Placed", "a doc is for people"


def test_a_version_that_breaks_with_another_is_refused_in_words(tmp_path: Path) -> None:
    Events(SchemaFolder(tmp_path)).use(Placed)
    with pytest.raises(IncompatibleSchema) as refused:
        Events(SchemaFolder(tmp_path)).use(Renumbered)
    text = str(refused.value)
    assert refused.value.record == "shop.Placed"
    assert "it cannot read version 1" in text
    assert "version 1 cannot read it" in text
    assert "string became long" in text
    assert "the field why has no default" in text
    assert "amount was plain and became timestamp-micros" in text
    assert [file.name for file in (tmp_path / "shop.Placed").iterdir()] == ["1.avsc"]


def versions(**fields: Any) -> type[BaseModel]:
    return create_model("Version", **fields)


Counted = create_model("Counted", at=(int, 0))
Timed = create_model("Counted", at=(datetime, datetime(2020, 1, 1, tzinfo=UTC)))
_RENAMED: Any = Field(default=datetime(2020, 1, 1, tzinfo=UTC), validation_alias=AliasChoices("new", "old"))


@pytest.mark.parametrize(
    "old, new, reason",
    [
        (versions(a=(Counted, ...), b=(Counted, ...)), versions(b=(Timed, ...), a=(Timed, ...)), r"b\.at was plain and became timestamp"),
        (versions(a=(list[Counted], ...), b=(Counted, ...)), versions(b=(Timed, ...), a=(list[Timed], ...)), r"b\.at was plain"),
        (versions(a=(date, ...)), versions(a=(float | str, ...)), "a was date and is no longer"),
        (versions(a=(list[UUID], ...)), versions(a=(list[bytes | None], ...)), "a was uuid and is no longer"),
        (versions(old=(int, 0)), versions(new=(datetime, _RENAMED)), "new was plain and became timestamp"),
        (versions(a=(bytes, b"")), versions(a=(str, "")), "a was bytes and became string"),
        (versions(a=(bytes | None, None)), versions(a=(str | None, None)), "a was bytes and became string"),
    ],
)  # fmt: skip
def test_a_change_that_avro_would_read_without_an_error_is_refused_wherever_it_is(
    tmp_path: Path, old: type[BaseModel], new: type[BaseModel], reason: str
) -> None:
    """In a record that has its name alone there, behind an alias, in a union."""
    Events(SchemaFolder(tmp_path)).use(old)
    with pytest.raises(IncompatibleSchema, match=reason):
        Events(SchemaFolder(tmp_path, compatibility="BACKWARD")).use(new)
    if "string" in reason:
        Events(SchemaFolder(tmp_path / "other")).use(new)
        Events(SchemaFolder(tmp_path / "other", compatibility="BACKWARD")).use(old)


@pytest.mark.parametrize(
    "level, fits", [("NONE", True), ("BACKWARD", False), ("FORWARD", True), ("FULL", False)]
)
def test_the_level_says_which_way_must_be_readable(tmp_path: Path, level: str, fits: bool) -> None:
    class Needs(Placed):
        __avro_name__ = "shop.Placed"
        why: str

    Events(SchemaFolder(tmp_path)).use(Placed)
    folder = SchemaFolder(tmp_path, compatibility=level)  # type: ignore[arg-type]
    if fits:
        Events(folder).use(Needs)
    else:
        with pytest.raises(IncompatibleSchema):
            Events(folder).use(Needs)


def test_a_level_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'full' is not a valid compatibility"):
        SchemaFolder(tmp_path, compatibility="full")  # type: ignore[arg-type]


def test_a_folder_that_may_not_grow(tmp_path: Path) -> None:
    Events(SchemaFolder(tmp_path)).use(Placed)
    fixed = Events(SchemaFolder(tmp_path, register=False))
    fixed.use(Placed)
    with pytest.raises(UnknownSchema, match=r"does not have this schema of shop\.Placed"):
        fixed.use(PlacedLater)


def test_a_file_that_was_changed_is_refused_by_name(tmp_path: Path) -> None:
    Events(SchemaFolder(tmp_path)).use(Placed)
    file = tmp_path / "shop.Placed" / "1.avsc"
    kept = file.read_text()
    for text, reason in (
        (kept.replace('"long"', '"string"'), "it was changed after its first use"),
        ("{", "it is not a valid Avro schema"),
        ("[" * 200_000, "it is not a valid Avro schema"),
        (kept.replace("shop.Placed", "shop.Paid"), "it is not a schema of shop.Placed"),
    ):
        file.write_text(text)
        with pytest.raises(RegistryUnavailable, match=reason) as refused:
            SchemaFolder(tmp_path).schema(1)
        assert str(file) in str(refused.value)


def test_a_file_by_hand_needs_no_id(tmp_path: Path) -> None:
    (tmp_path / "shop.Placed").mkdir()
    (tmp_path / "shop.Placed" / "1.avsc").write_text(schema_of(Placed))
    folder = SchemaFolder(tmp_path, register=False)
    assert folder.schema(folder.use("shop.Placed", json.loads(schema_of(Placed)))) is not None


def test_a_file_whose_name_is_no_number_is_no_version(tmp_path: Path) -> None:
    Events(SchemaFolder(tmp_path)).use(Placed)
    for name in ("\N{SUPERSCRIPT TWO}.avsc", "9" * 200 + ".avsc", "two.avsc"):
        (tmp_path / "shop.Placed" / name).write_text("{")
    folder = SchemaFolder(tmp_path, register=False)
    assert list(folder.versions("shop.Placed")) == [folder.use("shop.Placed", json.loads(schema_of(Placed)))]


def test_a_version_that_cannot_be_compared_is_said(tmp_path: Path) -> None:
    """Avro's package for Python does not know all schemas that fastavro takes."""
    (tmp_path / "shop.Placed").mkdir()
    (tmp_path / "shop.Placed" / "1.avsc").write_text('{"type": "error", "name": "shop.Placed", "fields": []}')
    with pytest.raises(IncompatibleSchema, match="they cannot be compared"):
        Events(SchemaFolder(tmp_path)).use(Placed)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "schemas"
    file.write_text("")
    with pytest.raises(RegistryUnavailable, match="schemas"):
        Events(SchemaFolder(file)).use(Placed)


def test_threads_that_add_at_once_agree(tmp_path: Path) -> None:
    ids: list[int] = []
    gate = threading.Barrier(8)

    def add() -> None:
        gate.wait(10)
        ids.append(SchemaFolder(tmp_path).use("shop.Placed", json.loads(schema_of(Placed))))

    threads = [threading.Thread(target=add) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    assert len(ids) == 8
    assert len(set(ids)) == 1
    assert [file.name for file in (tmp_path / "shop.Placed").iterdir()] == ["1.avsc"]


def test_a_damaged_file_is_no_harm_to_other_records(tmp_path: Path) -> None:
    events = Events(SchemaFolder(tmp_path))
    payload = events.payload(Placed(id="1", amount=1))
    (tmp_path / "Other").mkdir()
    (tmp_path / "Other" / "1.avsc").write_text("{")
    fresh = Events(SchemaFolder(tmp_path))
    assert fresh.decode(payload, Placed) == Placed(id="1", amount=1)
    with pytest.raises(RegistryUnavailable, match=r"Other/1\.avsc cannot be used"):
        fresh.decode(b"\0\0\0\0\1\2", Placed)  # it may be the schema of that file: a later try may succeed


def test_a_full_disk_is_said_with_the_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system names no file when a write fails, as it does when one cannot be opened."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    events = Events(SchemaFolder(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(json, "dump", full)
        with pytest.raises(RegistryUnavailable, match=r"shop\.Placed/1\.avsc: No space left on device"):
            events.use(Placed)
    assert list((tmp_path / "shop.Placed").iterdir()) == []
    events.use(Placed)
    assert [file.name for file in (tmp_path / "shop.Placed").iterdir()] == ["1.avsc"]


def test_files_that_did_not_change_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, reads = SchemaFolder(tmp_path), []
    folder.use("shop.Placed", json.loads(schema_of(Placed)))
    honest = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path, **how: reads.append(path) or honest(path, **how))
    for unknown in range(1, 6):
        assert folder.schema(unknown) is None
    first = tmp_path / "shop.Placed" / "1.avsc"
    assert reads == [first]
    later = SchemaFolder(tmp_path).use("shop.Placed", json.loads(schema_of(PlacedLater)))
    reads.clear()
    assert folder.schema(later)["name"] == "shop.Placed", "another process added a version"
    assert [file.name for file in reads] == ["2.avsc"]
    first.write_text("{")
    with pytest.raises(RegistryUnavailable, match=r"1\.avsc cannot be used"):
        folder.schema(7)
