"""The tour's part about streams that copy others: a counter that adds up what another stream counts."""

from __future__ import annotations

import json

from railgun.cli.tour.walk import MARK, Walk
from railgun.model.stream_config import StreamSource, SubjectTransform

OWN = 5  # what is added to the sum itself


def sums(walk: Walk) -> None:
    """Behind the step that makes a counter: its total goes on into another stream."""
    walk.title("A counter that adds up: one stream is the source of another")
    origin, name = walk.side("COUNTER"), walk.side("SUM")
    renamed = SubjectTransform(src=f"{origin}.*", dest=f"{name}.$1")
    source = StreamSource(name=origin, subject_transforms=[renamed])
    walk.say(
        f"railgun stream add {name} --subjects '{name}.*' --allow-counter --source '{json.dumps(source.to_api())}'"
    )
    collected = walk.rg.create_stream(
        name, subjects=[f"{name}.*"], sources=[source], allow_msg_counter=True, metadata=MARK
    )
    mine = walk.rg.counter(f"{name}.hits")
    theirs = walk.rg.counter(f"{origin}.hits")
    walk.say(f"railgun counter add {name}.hits {OWN}")
    mine.add(OWN)
    walk.say(f"railgun counter add {origin}.hits")
    wanted = theirs.add() + OWN
    walk.until(lambda: mine.value() == wanted, f"the sum is {wanted}")
    walk.say(f"railgun counter get {name}.hits")
    walk.shown(str(wanted))
    last = collected.get_last(f"{name}.hits")
    (told,) = collected.info().sources
    walk.expect(told.error is None, f"nothing is wrong with the source: {told.error}")
    walk.say(f"railgun stream get {name} --last-for {name}.hits")
    walk.shown(last.text, f"Nats-Stream-Source: {last.header('Nats-Stream-Source')}")
    walk.shown(f"Nats-Counter-Sources: {last.header('Nats-Counter-Sources')}")
