"""docs/architecture.md names the rooms that there are."""

from __future__ import annotations

import re

from tests.support.checkout import TOP

_ROOM = re.compile(r"^\| \**`(railgun/[a-z_/]+)`\** \| \S", re.MULTILINE)


def test_every_room_is_named_on_the_page() -> None:
    page = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = {str(init.parent.relative_to(TOP)) for init in (TOP / "railgun").rglob("__init__.py")}
    assert sorted(rooms - {"railgun"} - set(_ROOM.findall(page))) == []
