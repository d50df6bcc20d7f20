from __future__ import annotations

import heapq
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpace.sim.timeline import SERVER, Phase, Timeline

later = st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from(Phase), st.integers(0, 3))
events = st.lists(later)


@given(events)
def test_events_come_in_order_of_time_phase_client_and_scheduling(
    scheduled: list[tuple[float, Phase, int]],
) -> None:
    line = Timeline()
    for serial, (when, phase, client) in enumerate(scheduled):
        line.at(when, phase, client, serial)
    came = [(line.now, phase, client, serial) for phase, client, serial in line.events()]
    assert all(before < after for before, after in pairwise(came))
    assert sorted(event[:3] for event in came) == sorted(scheduled)


@given(st.lists(st.one_of(st.none(), later)))
def test_events_may_be_added_to_the_turn_under_way_and_before_what_is_left_of_it(
    calls: list[tuple[float, Phase, int] | None],
) -> None:
    """None takes the next event; the timeline agrees with a heap, and with what a checkpoint makes of it."""
    line, heap = Timeline(), list[tuple[float, Phase, int, int, int]]()
    events = line.events()
    for serial, call in enumerate(calls, start=1):
        if call is not None:
            delay, phase, client = call
            line.at(line.now + delay, phase, client, serial)
            heapq.heappush(heap, (line.now + delay, phase, client, line.serial, serial))
        elif heap:
            phase, client, what = next(events)
            when, *expected, _, given = heapq.heappop(heap)
            assert (line.now, phase, client, what) == (when, *expected, given)
        assert line.all() == sorted(heap) and len(line) == len(heap) and bool(line) == bool(heap)
        if serial % 5 == 0:
            line = Timeline(line.now, line.serial, line.heap)
            events = line.events()


def test_nothing_is_taken_from_an_empty_timeline() -> None:
    assert list(Timeline().events()) == []


def test_the_server_comes_after_every_client_of_its_phase() -> None:
    line = Timeline()
    line.at(1.0, Phase.DISPATCH)
    line.at(1.0, Phase.DISPATCH, 10**9)
    assert [client for _, client, _ in line.events()] == [10**9, SERVER]


def test_the_clock_moves_to_each_event_and_never_back() -> None:
    line = Timeline()
    line.at(2.0, Phase.START, 0, "what")
    assert list(line.events()) == [(Phase.START, 0, "what")] and line.now == 2.0
    line.at(2.0, Phase.CHANGE, 0)
    with pytest.raises(ValueError, match="must not lie in the past: 1.5 < 2.0"):
        line.at(1.5, Phase.START, 0)


def test_whoever_finishes_at_the_instant_of_a_step_gets_the_new_model() -> None:
    """The order of phases that makes it so."""
    assert Phase.COMPUTED < Phase.UPLINK < Phase.WAKE < Phase.DISPATCH < Phase.DOWNLINK < Phase.START
