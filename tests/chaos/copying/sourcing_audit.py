"""What the logs of streams that copy say against those of the streams that they copy. Pure."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from railgun.model import headers as h
from railgun.model.counters import parse_body, parse_number
from tests.chaos.copying.logs import Record

Log = Sequence[Record]


def source_differences(upstream: str, original: Log, copies: Log) -> list[str]:
    """What is wrong with a stream whose only messages are copies of ``upstream`` (SRC-01, SRC-02, SRC-07)."""
    wrong = _unnumbered(copies)
    wrong += _miscopied([one.payload for one in original], [one.payload for one in copies], "payloads")
    return wrong + _misread({upstream: original}, copies)


def mirror_differences(original: Log, copies: Log) -> list[str]:
    """What is wrong with a mirror: it is as its upstream, with its sequences (MIR-01)."""
    return _miscopied(
        [(one.sequence, one.subject, one.payload) for one in original],
        [(one.sequence, one.subject, one.payload) for one in copies],
        "sequences, subjects and payloads",
    )


def output_differences(inputs: Log, outputs: Log) -> list[str]:
    """What is wrong with the outputs of a pipeline, which has put each input there, in any order (EXO-05)."""
    wanted, found = Counter(one.payload for one in inputs), Counter(one.payload for one in outputs)
    lost, more = list(wanted - found), list(found - wanted)
    wrong = [f"{len(lost)} inputs are not there: {lost[:5]}"] if lost else []
    return wrong + ([f"{len(more)} outputs are there too often: {more[:5]}"] if more else [])


# -- counters


def counter_differences(log: Log) -> list[str]:
    """What is wrong with a stream that counts: every body is the sum of all increments up to it (CTR-02)."""
    totals: dict[str, int] = defaultdict(int)
    found = []
    for one in log:
        totals[one.subject] += _increment(one)
        if parse_body(one.payload) != totals[one.subject]:
            found.append((one.sequence, one.payload, totals[one.subject]))
    wrong = [f"totals that are not the sum (sequence, body, sum): {found[:5]}"] if found else []
    return wrong + _unnumbered(log)


def sum_differences(target: Log, upstreams: Mapping[str, Log]) -> list[str]:
    """What is wrong with a counter stream that adds up others, whose subjects end as those do (CTR-23, CTR-26, CTR-28)."""
    expected: dict[str, int] = defaultdict(int)
    ledgers: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for one in target:
        if h.STREAM_SOURCE not in one.headers:
            expected[_last_token(one.subject)] += _increment(one)
    for name, log in upstreams.items():
        for subject, total in totals(log).items():
            expected[_last_token(subject)] += total
            ledgers[_last_token(subject)].setdefault(name, {})[subject] = str(total)
    said = {_last_token(subject): total for subject, total in totals(target).items()}
    newest = {_last_token(one.subject): one for one in target}
    wrong = _misread(upstreams, [one for one in target if h.STREAM_SOURCE in one.headers])
    if said != expected:
        wrong.append(
            f"totals are {said}, those of the upstreams and its own increments make {dict(expected)}"
        )
    for token, one in newest.items():
        ledger = json.loads(one.header(h.COUNTER_SOURCES) or "{}")
        if ledger != ledgers[token]:
            wrong.append(f"the ledger of {one.subject} says {ledger}, the upstreams {ledgers[token]}")
    return wrong


def totals(log: Log) -> dict[str, int]:
    """By subject, the total in the newest body."""
    return {one.subject: parse_body(one.payload) or 0 for one in log}


def _increment(one: Record) -> int:
    return parse_number(one.headers.get(h.INCREMENT, b"")) or 0


def _last_token(subject: str) -> str:
    return subject.rpartition(".")[2]


# -- what was acknowledged


def id_differences(log: Log, acked: Mapping[str, int]) -> list[str]:
    """Messages that were published to this stream: each acked id is there once, under the sequence of its ack (DUP-10)."""
    own = [one for one in log if h.STREAM_SOURCE not in one.headers and h.MSG_ID in one.headers]
    found = Counter(one.header(h.MSG_ID) for one in own)
    twice = [one for one, count in found.items() if count > 1]
    wrong = [f"ids that were stored twice: {twice[:5]}"] if twice else []
    if lost := [one for one in acked if one not in found]:
        wrong.append(f"{len(lost)} acked messages are not there: {lost[:5]}")
    moved = [
        (one.header(h.MSG_ID), acked[one.header(h.MSG_ID)], one.sequence)
        for one in own
        if acked.get(one.header(h.MSG_ID), one.sequence) != one.sequence
    ]
    if moved:
        wrong.append(f"acked with another sequence (id, acked, stored): {moved[:5]}")
    if strangers := [one for one in found if one not in acked]:
        wrong.append(f"{len(strangers)} messages that nobody has an ack for: {strangers[:5]}")
    return wrong


def batch_differences(
    log: Log, sizes: Mapping[str, int], acked: Iterable[str], refused: Iterable[str]
) -> list[str]:
    """Batches are there as a whole or not at all (BAT-12). ``sizes``: of all that were begun, by id."""
    found = Counter(one.header(h.BATCH_ID) for one in log if h.BATCH_ID in one.headers)
    torn = [(batch, count, sizes.get(batch)) for batch, count in found.items() if count != sizes.get(batch)]
    wrong = [f"batches that are not whole (id, messages, size): {torn[:5]}"] if torn else []
    if lost := [one for one in acked if one not in found]:
        wrong.append(f"{len(lost)} acked batches are not there: {lost[:5]}")
    if kept := [one for one in refused if one in found]:
        wrong.append(f"{len(kept)} refused batches are there: {kept[:5]}")
    return wrong


# -- copies


def _unnumbered(log: Log) -> list[str]:
    found = [(at, one.sequence) for at, one in enumerate(log, 1) if one.sequence != at]
    return [f"sequences that do not count from 1 (place, sequence): {found[:5]}"] if found else []


def _miscopied(wanted: Sequence[object], found: Sequence[object], what: str) -> list[str]:
    if list(wanted) == list(found):
        return []
    apart = next(
        (at for at, pair in enumerate(zip(wanted, found, strict=False)) if pair[0] != pair[1]),
        min(len(wanted), len(found)),
    )
    return [
        f"{what} differ from place {apart} on ({len(wanted)} there, {len(found)} here): "
        f"{list(wanted[apart : apart + 3])} is {list(found[apart : apart + 3])}"
    ]


def _misread(upstreams: Mapping[str, Log], copies: Log) -> list[str]:
    """By what the copies say of themselves (SRC-03): every message of every upstream once, in its order."""
    read: dict[str, list[int]] = {name: [] for name in upstreams}
    for one in copies:
        name, sequence = one.header(h.STREAM_SOURCE).split(" ")[:2]
        read.setdefault(name, []).append(int(sequence))
    wrong = []
    for name, sequences in read.items():
        wanted = [one.sequence for one in upstreams.get(name, ())]
        wrong += [f"of {name}: {one}" for one in _miscopied(wanted, sequences, "sequences")]
    return wrong
