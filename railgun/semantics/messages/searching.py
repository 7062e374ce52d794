"""Finding messages of a stream by subject: the newest, the next, how many, the newest of each.

The index by subject answers what it can. Where only looking at messages helps, both are asked in turn, a few steps each, so
that a search costs what the cheaper one of the two does: few subjects match, or many messages do.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from railgun.model.subjects import Filter
from railgun.semantics.consumers.delivery.selection import runs_in
from railgun.semantics.messages.blocks import Block, Entry
from railgun.semantics.messages.subject_search import BEGINNING, Place
from railgun.semantics.steps import Steps

if TYPE_CHECKING:
    from railgun.semantics.messages.stored import StoredMessages

SUBJECTS = 64  # steps among subjects that take about as long as looking at one block
MOST_BLOCKS = 16  # looked at in one step
_FIRST_BLOCKS = 4  # before subjects are sorted for the first time: often the newest message is near


def newest(stored: StoredMessages, wanted: Filter) -> Steps[int]:
    """The newest existing sequence over all matching subjects, 0 if there is none."""
    if wanted.literal is not None:
        return stored.last_of(wanted.literal)
    top = at = stored.last_seq  # nothing matches between the two, and above the upper one nobody has looked
    place, best, cost = BEGINNING, 0, 0
    if not stored.subjects_sorted and stored.looked_at < stored.num_subjects:
        found, at, cost = _down(stored, at, stored.first_seq, wanted, _FIRST_BLOCKS)
        stored.looked_at += cost + 1
        if found or at < stored.first_seq:
            return found
    while True:
        subjects, further = stored.search_subjects(wanted, place, SUBJECTS)
        best = max([best, *(one.last for one in subjects)])
        if further is None and (not best or stored.exists(best)):
            return best
        place = further or BEGINNING
        if further is None:
            best = 0  # it was removed while the search was under way: once more
        found, at, looked_at = _down(stored, at, stored.first_seq, wanted, 1)
        if found or at < stored.first_seq:
            return found
        yield cost + looked_at + SUBJECTS
        cost = 0
        found, _, _ = _down(stored, stored.last_seq, top + 1, wanted, stored.last_seq)
        if found:
            return found
        top = max(top, stored.last_seq)


def following(stored: StoredMessages, start: int, wanted: Filter) -> Steps[Entry | None]:
    """The first existing message from the sequence on that matches."""
    at, blocks, undecided = max(start, stored.first_seq), 1, False
    nearest, top = 0, stored.last_seq
    place: Place | None = BEGINNING
    if wanted.everything:
        place = None
    elif wanted.literal is not None:
        place = None
        known = stored.next_of(wanted.literal, at)
        if known is not None:
            return stored.entry(known)
    while True:
        found, at, cost = _up(stored, at, wanted, blocks)
        if found is not None or at > stored.last_seq:
            return found
        if place is not None:
            subjects, place = stored.search_subjects(wanted, place, SUBJECTS * blocks)
            cost += SUBJECTS * blocks
            for one in subjects:
                known = stored.next_of(one.subject, at)
                undecided |= known is None
                nearest = min(nearest or known, known) if known else nearest
            if place is None and not undecided:
                entry = stored.entry(nearest)
                if entry is not None:
                    return entry
                if not nearest:
                    at = max(at, top + 1)  # nothing of what was there when it began
        yield cost
        blocks = min(2 * blocks, MOST_BLOCKS)


def all_from(
    stored: StoredMessages, start: int, wanted: Filter, take: Callable[[Entry], bool]
) -> Steps[None]:
    """Give all existing messages that match from the sequence on to ``take``, until it says that it has enough."""
    enough = False

    def asked(entry: Entry) -> bool:
        nonlocal enough
        enough = not take(entry)
        return not enough

    while not enough and start <= stored.last_seq:
        start, cost = some_from(stored, start, wanted, asked)
        yield cost


def some_from(
    stored: StoredMessages, start: int, wanted: Filter, take: Callable[[Entry], bool]
) -> tuple[int, int]:
    """One step of :func:`all_from`: where to go on, and what it cost."""
    index, at, left, cost = stored.index, max(start, stored.first_seq), MOST_BLOCKS, 0
    if not stored.messages:
        return stored.last_seq + 1, 0
    for block in index.blocks(at) if at < index.tail_base else ():
        if not left:
            return at, cost
        left, cost = left - 1, cost + _cost(block)
        for run, count in runs_in(block, max(0, at - block.base), wanted):
            for number in range(run, run + count):
                if not take(block.entry(number)):
                    return block.base + number + 1, cost
        at = block.end
    for entry in index.ascending(max(at, index.tail_base), wanted):
        cost += 1
        if not take(entry):
            return entry.sequence + 1, cost
    return stored.last_seq + 1, cost


def stretch(
    stored: StoredMessages, start: int, end: int, wanted: Filter, blocks: int
) -> tuple[list[tuple[Block, int, int]], int, int]:
    """Runs of existing messages of [start, end) that match, within some blocks; where to go on, and the cost.

    A run is its block, its first sequence and the one behind its last.
    """
    runs: list[tuple[Block, int, int]] = []
    cost = 0
    for block in stored.blocks(start, end):
        if block.base >= end:
            break
        if not blocks:
            return runs, block.base, cost
        blocks, cost = blocks - 1, cost + _cost(block)
        for index, count in runs_in(block, max(0, start - block.base, stored.first_seq - block.base), wanted):
            first, last = block.base + index, min(block.base + index + count, end)
            if first < last:
                runs.append((block, first, last))
    return runs, end, cost


def stretch_down(
    stored: StoredMessages, start: int, lowest: int, wanted: Filter, blocks: int
) -> tuple[list[tuple[Block, int, int]], int, int]:
    """As :func:`stretch`, from ``start`` down to ``lowest``: the highest runs first."""
    runs: list[tuple[Block, int, int]] = []
    cost, at = 0, start
    for _ in range(blocks):
        block = stored.block_up_to(at) if at >= lowest else None
        if block is None or block.end <= lowest:
            return runs, lowest - 1, cost
        cost += _cost(block)
        for index, count in reversed(runs_in(block, max(0, lowest - block.base), wanted)):
            first, last = block.base + index, min(block.base + index + count, at + 1)
            if first < last:
                runs.append((block, first, last))
        at = block.base - 1
    return runs, at, cost


def count_from(stored: StoredMessages, start: int, wanted: Filter) -> Steps[int]:
    """How many existing messages match from the sequence on; counts on the shorter side of it."""
    if not stored.messages or start > stored.last_seq:
        return 0
    if wanted.everything and not stored.num_deleted:
        return stored.last_seq + 1 - max(start, stored.first_seq)
    if start - stored.first_seq > stored.last_seq - start:
        return (yield from _count(stored, start, stored.last_seq + 1, wanted))
    below = yield from _count(stored, stored.first_seq, start, wanted)
    if wanted.everything:
        return max(0, stored.messages - below)
    total, place = -below, BEGINNING
    while True:
        subjects, further = stored.search_subjects(wanted, place, SUBJECTS * MOST_BLOCKS)
        total += sum(one.messages for one in subjects if not one.again)
        if further is None:
            return max(0, total)
        yield SUBJECTS * MOST_BLOCKS
        place = further


def counts(stored: StoredMessages, wanted: Filter) -> Steps[dict[str, int]]:
    """Each matching subject with the number of its messages."""
    found: dict[str, int] = {}
    place: Place | None = BEGINNING
    while place is not None:
        subjects, place = stored.search_subjects(wanted, place, SUBJECTS * MOST_BLOCKS)
        found |= {one.subject: one.messages for one in subjects}
        yield SUBJECTS * MOST_BLOCKS
    return found


def deleted(stored: StoredMessages, at_most: int) -> Steps[list[int]]:
    """The lowest sequences between first and last that no longer exist."""
    missing: list[int] = []
    index, at = stored.index, stored.first_seq
    expected = at  # the next one, if nothing is missing
    while at < index.tail_base and len(missing) < at_most:
        runs, at, cost = stretch(stored, at, index.tail_base, Filter(), MOST_BLOCKS)
        for _, first, end in runs:
            missing += islice(range(expected, first), at_most - len(missing))
            expected = end
        yield cost
    if not stored.messages:
        return []
    for entry in index.ascending(max(expected, index.tail_base)):
        missing += islice(range(expected, entry.sequence), at_most - len(missing))
        expected = entry.sequence + 1
    return missing + list(islice(range(expected, stored.last_seq + 1), at_most - len(missing)))


def newest_of_each(stored: StoredMessages, wanted: Filter, up_to: int, at_most: int) -> Steps[list[int]]:
    """The newest sequence not above ``up_to`` of each matching subject; ends beyond ``at_most``."""
    found: dict[str, int] = {}
    older: set[str] = set()  # subjects whose newest message came later: look further back for them
    place: Place | None = BEGINNING
    while place is not None:
        subjects, place = stored.search_subjects(wanted, place, SUBJECTS * MOST_BLOCKS)
        for one in subjects:
            if one.last <= up_to:
                found[one.subject] = one.last
            else:
                older.add(one.subject)
        if len(found) > at_most:
            return list(found.values())
        yield SUBJECTS * MOST_BLOCKS
    at = min(up_to, stored.last_seq)
    while older and at >= stored.first_seq and len(found) <= at_most:
        low = max(stored.first_seq, at - MOST_BLOCKS * 512 + 1)
        for entry in stored.index.descending(at, low, wanted):
            if entry.subject in older:
                older.discard(entry.subject)
                found[entry.subject] = entry.sequence
        yield at + 1 - low
        at = low - 1
    return [one for subject, one in found.items() if stored.last_of(subject) == one or stored.exists(one)]


def _down(stored: StoredMessages, at: int, lowest: int, wanted: Filter, blocks: int) -> tuple[int, int, int]:
    """Look at some blocks from the sequence down: what was found (0: nothing), where to go on, and the cost."""
    index = stored.index
    cost = 0
    if at >= index.tail_base:
        for entry in index.descending(at, max(index.tail_base, lowest), wanted):
            return entry.sequence, at, at - entry.sequence
        cost, at = at + 1 - index.tail_base, index.tail_base - 1
    for _ in range(blocks):
        block = index.block_up_to(at) if at >= lowest else None
        if block is None or block.end <= lowest:
            return 0, lowest - 1, cost
        runs = runs_in(block, max(0, lowest - block.base), wanted)
        last = next((run for run in reversed(runs) if block.base + run[0] <= at), None)
        cost += _cost(block)
        if last is not None:
            return min(at, block.base + sum(last) - 1), at, cost
        at = block.base - 1
    return 0, at, cost


def _up(stored: StoredMessages, at: int, wanted: Filter, blocks: int) -> tuple[Entry | None, int, int]:
    """Look at some blocks from the sequence on: what was found, where to go on, and the cost."""
    index, cost = stored.index, 0
    if not stored.messages:
        return None, stored.last_seq + 1, cost
    if at < index.tail_base:
        for block in index.blocks(at):
            if not blocks:
                return None, at, cost
            runs = runs_in(block, max(0, at - block.base), wanted)
            if runs:
                return block.entry(runs[0][0]), at, cost
            at, blocks, cost = block.end, blocks - 1, cost + _cost(block)
    for entry in index.ascending(max(at, index.tail_base), wanted):
        return entry, at, cost
    return None, stored.last_seq + 1, cost


def _count(stored: StoredMessages, start: int, end: int, wanted: Filter) -> Steps[int]:
    """How many existing messages of [start, end) match."""
    index, at, total = stored.index, max(start, stored.first_seq), 0
    while at < min(end, index.tail_base):
        runs, at, cost = stretch(stored, at, min(end, index.tail_base), wanted, MOST_BLOCKS)
        total += sum(behind - first for _, first, behind in runs)
        yield cost
    for entry in index.ascending(max(at, index.tail_base), wanted):
        if entry.sequence >= end:
            break
        total += 1
    return total


def _cost(block: Block) -> int:
    return max(block.count, 25)  # a small block costs as much as one of 25 messages
