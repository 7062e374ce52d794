"""Keys of a shard's table. A stream's keys begin with its incarnation, so nothing of a deleted stream matches its successor.

=====  ==========================  =======================================
first  then                        value
=====  ==========================  =======================================
``c``                              ShardCursor
``k``                              shift of the test clock, 8 bytes
``r``  name                        Reservation (the registrar's shard only)
``n``                              the next incarnation (registrar)
``e``                              streams that capture what shards send out, JSON
``u``                              never kept: brings the end of a transaction into the changelog
``s``  incarnation                 StreamRecord
``b``  incarnation, sequence       MessageBlock that begins at the sequence
``x``  incarnation, sequence       bitmap of what was removed from that block
``o``  incarnation, sequence       exact log offset of that block, 8 bytes
``i``  incarnation, sequence       IdBlock of that block
``p``  incarnation, sequence       body of one message, where bodies are kept
``v``  incarnation, subject        the same of a subject's only message: its sequence, 8 bytes, its body and its time
``m``  incarnation                 how many consumers were ever made, 8 bytes
``q``  incarnation, number         ConsumerRecord
``w``  incarnation, number, block  PendingBlock of that consumer
``g``  incarnation, number, block  bitmap of what that consumer gave up
``t``  incarnation, subject        CounterTotal
``f``  incarnation, number         FeedRecord of a consumer that reads for another stream
``l``  incarnation, source         OriginRecord of a stream that this one copies
``j``  incarnation, number, topic  AdoptedPartition: how far the stream has copied that partition of a Kafka topic
``y``  incarnation                 totals of messages below this sequence are strays: 8 bytes, and the subject that was reached
=====  ==========================  =======================================
"""

from __future__ import annotations

import struct

CURSOR = b"c"
CLOCK_SHIFT = b"k"
RESERVATION = b"r"
NEXT_INCARNATION = b"n"
CAPTURES = b"e"
UNFINISHED = b"u"
STREAM = b"s"
BLOCK = b"b"
REMOVED = b"x"
OFFSET = b"o"
IDS = b"i"
BODY = b"p"
VALUE = b"v"
CONSUMERS_MADE = b"m"
CONSUMER = b"q"
PENDING = b"w"
GIVEN_UP = b"g"
TOTAL = b"t"
STRAY_TOTALS = b"y"
FEED = b"f"
ORIGIN = b"l"
ADOPTED = b"j"
OF_A_STREAM = (
    *(BLOCK, REMOVED, OFFSET, IDS, BODY, VALUE, CONSUMERS_MADE, CONSUMER, PENDING, GIVEN_UP),
    *(TOTAL, STRAY_TOTALS, FEED, ORIGIN, ADOPTED),
)

_NUMBER = struct.Struct(">Q")
NUMBER_BYTES = _NUMBER.size
_LENGTHS = {
    **dict.fromkeys((CURSOR, CLOCK_SHIFT, NEXT_INCARNATION, CAPTURES, UNFINISHED), 1),
    **dict.fromkeys((STREAM, CONSUMERS_MADE, STRAY_TOTALS), 1 + _NUMBER.size),
    **dict.fromkeys((BLOCK, REMOVED, OFFSET, IDS, BODY, CONSUMER, FEED), 1 + 2 * _NUMBER.size),
    **dict.fromkeys((PENDING, GIVEN_UP), 1 + 3 * _NUMBER.size),
}


def number(value: int) -> bytes:
    """Eight bytes that sort as the number does."""
    return _NUMBER.pack(value)


def number_in(value: bytes) -> int:
    """The number that the bytes begin with."""
    found: int = _NUMBER.unpack_from(value)[0]
    return found


def stream(incarnation: int) -> bytes:
    return STREAM + _NUMBER.pack(incarnation)


def stray_totals(incarnation: int) -> bytes:
    return STRAY_TOTALS + _NUMBER.pack(incarnation)


def of(kind: bytes, incarnation: int, sequence: int) -> bytes:
    """The key of something of a stream at a sequence."""
    return kind + _NUMBER.pack(incarnation) + _NUMBER.pack(sequence)


def pending(incarnation: int, consumer: int, block: int) -> bytes:
    """The key of what is pending at a consumer within a block."""
    return PENDING + _NUMBER.pack(incarnation) + _NUMBER.pack(consumer) + _NUMBER.pack(block)


def all_pending(incarnation: int, consumer: int) -> bytes:
    """The prefix of everything that is pending at a consumer."""
    return PENDING + _NUMBER.pack(incarnation) + _NUMBER.pack(consumer)


def given_up(incarnation: int, consumer: int, stretch: int) -> bytes:
    """The key of what a consumer gave up within a stretch of sequences."""
    return all_given_up(incarnation, consumer) + _NUMBER.pack(stretch)


def all_given_up(incarnation: int, consumer: int) -> bytes:
    """The prefix of everything that a consumer gave up."""
    return GIVEN_UP + _NUMBER.pack(incarnation) + _NUMBER.pack(consumer)


def all_of(kind: bytes, incarnation: int) -> bytes:
    """The prefix of everything of that kind of a stream."""
    return kind + _NUMBER.pack(incarnation)


def is_whole(key: bytes) -> bool:
    """Whether the key is as long as keys of its kind are; those of kinds that are not known are."""
    if key[:1] in (TOTAL, ORIGIN, VALUE):
        return len(key) > 1 + _NUMBER.size  # a subject or a source follows
    if key[:1] == ADOPTED:
        return len(key) > 1 + 2 * _NUMBER.size
    return len(key) == _LENGTHS.get(key[:1], len(key)) and bool(key)


def incarnation_in(key: bytes) -> int | None:
    """The incarnation of the stream that the key belongs to, None if it belongs to none."""
    if key[:1] not in (STREAM, *OF_A_STREAM) or len(key) < 1 + _NUMBER.size:
        return None
    value: int = _NUMBER.unpack_from(key, 1)[0]
    return value


def sequence_in(key: bytes) -> int:
    """The sequence at the end of a key made by :func:`of`."""
    value: int = _NUMBER.unpack_from(key, len(key) - 8)[0]
    return value


def reservation(name: str) -> bytes:
    return RESERVATION + name.encode("utf-8")
