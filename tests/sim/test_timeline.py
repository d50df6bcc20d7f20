from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpace.sim.timeline import SERVER, Phase, Timeline

events = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from(Phase), st.integers(0, 3)))


@given(events)
def test_events_come_in_order_of_time_phase_client_and_scheduling(
    scheduled: list[tuple[float, Phase, int]],
) -> None:
    line = Timeline()
    for when, phase, client in scheduled:
        line.at(when, phase, client)
    popped = [line.pop() for _ in scheduled]
    assert all(before[:4] < after[:4] for before, after in pairwise(popped))
    assert sorted(event[:3] for event in popped) == sorted(scheduled)


def test_the_server_comes_after_every_client_of_its_phase() -> None:
    line = Timeline()
    line.at(1.0, Phase.DISPATCH)
    line.at(1.0, Phase.DISPATCH, 10**9)
    assert [line.pop()[2] for _ in range(2)] == [10**9, SERVER]


def test_the_clock_moves_to_each_event_and_never_back() -> None:
    line = Timeline()
    line.at(2.0, Phase.START, 0, "what")
    assert line.pop() == (2.0, Phase.START, 0, 1, "what") and line.now == 2.0
    line.at(2.0, Phase.CHANGE, 0)
    with pytest.raises(ValueError, match="must not lie in the past: 1.5 < 2.0"):
        line.at(1.5, Phase.START, 0)


def test_whoever_finishes_at_the_instant_of_a_step_gets_the_new_model() -> None:
    """The order of phases that makes it so."""
    assert Phase.COMPUTED < Phase.UPLINK < Phase.WAKE < Phase.DISPATCH < Phase.DOWNLINK < Phase.START
