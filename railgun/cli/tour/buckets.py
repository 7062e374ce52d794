"""The tour's part about key-value buckets: values by key, conditions, a watch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railgun.cli.tour.consumers import patience
from railgun.cli.tour.walk import BUCKET, MARK, TourFailed, Walk
from railgun.errors import KeyWrongLastSequence

if TYPE_CHECKING:
    from railgun.client.facade.sync.buckets.watch import Watch


def values(walk: Walk) -> None:
    """A key that is put, changed by its revision, watched and deleted."""
    walk.title("A bucket: the newest value of each key, and its history")
    name = walk.side(BUCKET)
    walk.say(f"railgun kv add {name} --history 3")
    config = walk.rg.create_bucket(name, history=3, metadata=MARK)
    for number, value in enumerate(("80", "8080"), 1):
        walk.say(f"railgun kv put {name} port {value}")
        walk.expect(config.put("port", value) == number, f"the revision is {number}")
        walk.shown(f"Put {name} > port: revision {number}")
    walk.say(f"railgun kv update {name} port 9090 --revision 1")
    try:
        config.update("port", "9090", 1)
    except KeyWrongLastSequence as refusal:
        walk.shown(f"refused: {refusal}")
    else:
        raise TourFailed("an update on an old revision was stored")
    walk.say(f"railgun kv get {name} port --raw")
    found = config.get("port").text
    walk.expect(found == "8080", f"the value is 8080, and not {found}")
    walk.shown(found)
    walk.say(f"railgun kv history {name} port")
    history = [(entry.revision, entry.text) for entry in config.history("port")]
    walk.expect(history == [(1, "80"), (2, "8080")], "both values are there")
    walk.shown(*(f"revision {revision}: {value}" for revision, value in history))

    walk.say(f"railgun kv watch {name} port")
    with config.watch("port") as entries, patience(entries):
        _next(walk, entries, name, "PUT", 2)
        walk.say(f"railgun kv del {name} port")
        config.delete("port")
        _next(walk, entries, name, "DEL", 3)
    walk.expect(config.get("port", None) is None, "the key has no value any more")


def _next(walk: Walk, entries: Watch, name: str, operation: str, revision: int) -> None:
    entry = next(iter(entries), None)
    seen = None if entry is None else (entry.operation, entry.revision)
    walk.expect(seen == (operation, revision), f"the watch shows {operation} {revision}, and not {seen}")
    walk.shown(f"{operation} {name} > port revision {revision}")
