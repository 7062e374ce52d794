"""How fast a consumer pushes, and to whom."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.model.consumer_config import ConsumerConfig
from railgun.semantics.consumers.consumer_state import Run
from railgun.semantics.consumers.delivery import pace as push
from railgun.semantics.consumers.delivery.pace import FIRST_WINDOW, Pace

SECOND = 1_000_000_000
FLOW = ConsumerConfig(deliver_subject="d", flow_control=True, idle_heartbeat=timedelta(seconds=5))


def messages(runs: list[Run]) -> list[tuple[int, int]]:
    return [(run.sequence + at, run.consumer_sequence + at) for run in runs for at in range(run.length)]


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 20)), min_size=1, max_size=6),
    st.integers(1, 7),
    st.integers(0, 30),
)
def test_a_group_shares_everything_evenly_and_in_pieces(
    lengths: list[tuple[int, int]], members: int, turn: int
) -> None:
    runs, sequence, number = [], 1, 1
    for gap, length in lengths:
        runs.append(Run(sequence + gap, length, number, 1))
        sequence, number = sequence + gap + length, number + length
    count = number - 1
    dealt = push.shares(runs, count, members, turn)
    assert [one for _, own in dealt for one in messages(own)] == messages(runs)
    assert [member for member, _ in dealt] == [(turn + at) % members for at in range(min(count, members))]
    sizes = [len(messages(own)) for _, own in dealt]
    assert max(sizes) - min(sizes) <= 1


def test_flow_control_halts_until_it_is_answered() -> None:
    pace = push.started(FLOW, 0, 0)
    pace = push.sent(pace, FLOW, FIRST_WINDOW // 2 + 1, 3, 7)
    assert (pace.asked, pace.halted, pace.beats) == (1, False, 7 + 5 * SECOND)
    pace = push.sent(pace, FLOW, FIRST_WINDOW, 3, 8)
    assert (pace.asked, pace.halted) == (1, True)
    assert push.answered(pace, 2) == pace, "an answer to something else"
    _, status = push.heartbeat(pace, FLOW, (6, 6), "reply", 9)
    assert (h.CONSUMER_STALLED, b"reply") in status.headers
    still = pace._replace(out=FIRST_WINDOW - 1)  # the next message may be larger than what is left
    assert (h.CONSUMER_STALLED, b"reply") in push.heartbeat(still, FLOW, (6, 6), "reply", 9)[1].headers
    idle = pace._replace(asked=0, asked_bytes=0)
    assert not any(
        name == h.CONSUMER_STALLED for name, _ in push.heartbeat(idle, FLOW, (6, 6), "reply", 9)[1].headers
    )
    pace = push.answered(pace, 1)
    assert (pace.halted, pace.asked, pace.out, pace.window) == (False, 0, FIRST_WINDOW, 2 * FIRST_WINDOW)
    assert push.unanswerable(pace).out == 0


def test_a_rate_spaces_and_a_replay_keeps_its_gaps() -> None:
    slow = ConsumerConfig(deliver_subject="d", rate_limit_bps=8_000)
    assert push.allowed_bytes(Pace(), slow) == 100
    pace = push.sent(Pace(), slow, 500, 1, 10 * SECOND)
    assert pace.not_before == 10 * SECOND + SECOND // 2
    assert push.replay_due(Pace(), 50) == 0, "the first is sent at once"
    assert push.replay_due(Pace(replayed=40, replayed_at=1_000), 50) == 1_010
    assert push.replay_due(Pace(replayed=40, replayed_at=1_000), 30) == 1_000
