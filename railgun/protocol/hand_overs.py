"""Hand-overs that travel together: many of one client to one consumer as one command, and their publishes to one stream as one forward.

The publishes of all of them are in one pack for each stream, with the place of its hand-over for each message. So what a
hand-over costs on its way is a few numbers.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from railgun.protocol.avro import WireError, decode, encode

HAND_OVERS: Final = "hand_overs"  # Railgun-Kind of a HandOverPack
HANDED_PACK: Final = "handed_pack"  # Forward.command_kind of a HandedPack


class PackOfHandOvers(NamedTuple):
    """Publishes to one stream, in the order of their hand-overs."""

    of: list[int]  # of each message, the place of its hand-over
    pack: bytes  # a PublishPack


class HandOverPack(NamedTuple):
    """Acknowledgements as columns, each of which counts together with its publishes or not at all."""

    stream: str
    incarnation: int
    consumer: str
    number: int
    client: str
    requests: list[int]
    sequences: list[int]
    consumer_sequences: list[int]
    deliveries: list[int]
    packs: list[PackOfHandOvers]

    def encode(self) -> bytes:
        return encode("hand_over_pack", self._asdict() | {"packs": [one._asdict() for one in self.packs]})

    @classmethod
    def decode(cls, data: bytes) -> HandOverPack:
        value = decode("hand_over_pack", data)
        columns = (value["requests"], value["sequences"], value["consumer_sequences"], value["deliveries"])
        if len({len(column) for column in columns}) > 1:
            raise WireError("not a hand_over_pack: columns that differ in length")
        packs = [PackOfHandOvers(**one) for one in value["packs"]]
        for one in packs:
            _check_places(one.of, len(value["requests"]), "hand_over_pack")
        return cls(**(value | {"packs": packs}))


class HandedPack(NamedTuple):
    """Publishes that were handed over, on their way to the owner of their stream, with the messages that they come from."""

    stream: str
    consumer: str
    dead_letter: str  # the stream that takes what is refused; empty: none
    sequences: list[int]
    times: list[int]  # when those messages were stored, ns
    deliveries: list[int]
    of: list[int]  # of each publish, the place of its message
    pack: bytes  # a PublishPack

    def encode(self) -> bytes:
        return encode("handed_pack", self._asdict())

    @classmethod
    def decode(cls, data: bytes) -> HandedPack:
        value = decode("handed_pack", data)
        if len({len(value[name]) for name in ("sequences", "times", "deliveries")}) > 1:
            raise WireError("not a handed_pack: columns that differ in length")
        _check_places(value["of"], len(value["sequences"]), "handed_pack")
        return cls(**value)


def _check_places(places: list[int], count: int, what: str) -> None:
    if places != sorted(places) or (places and not 0 <= places[0] <= places[-1] < count):
        raise WireError(f"not a {what}: a publish of a hand-over that is not there")
