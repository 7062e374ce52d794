"""docs/architecture.md names the rooms that there are."""

from __future__ import annotations

import re

from tests.support.checkout import TOP

_ROOM = re.compile(r"^\| \**`(railgun/[a-z_/]+)`\** \| \S", re.MULTILINE)


def test_the_page_names_every_room_once_and_no_other() -> None:
    page = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = {str(init.parent.relative_to(TOP)) for init in (TOP / "railgun").rglob("__init__.py")}
    assert sorted(_ROOM.findall(page)) == sorted(rooms - {"railgun"})
