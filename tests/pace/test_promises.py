"""Every pacing rule through the same promises: on devices that tie, fail, leave and come back."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedpace.check import check_pace
from fedpace.check.pace import run_under_invariants
from fedpace.pace import (
    Arrivals,
    Buffered,
    Immediate,
    Interrupting,
    Pace,
    Polled,
    Replayed,
    Rounds,
    WithReplacement,
)
from fedpace.pace.buffered import BufferedState
from fedpace.pace.protocol import Decision, UpdateHeader
from fedpace.sim import Population

PACES: list[Pace] = [
    Rounds(),
    Rounds(2),
    Rounds(3, WithReplacement()),
    Rounds(2, patience_s=0.5),
    Buffered(2, 3),
    Buffered(2, 3, "immediate"),
    Buffered(3, 4, max_staleness=1),
    Buffered(3),
    Immediate(3),
    Arrivals(2),
    Arrivals(4),
    Arrivals(3, distinct=True),
    Arrivals(2, reuse_model=True),
    Polled(2),
    Polled(3, reuse_model=True),
    Polled(2, energy_saving=True),
    Interrupting(2, 1.5),
    Interrupting(2, 1.5, averaging=True),
    Replayed(3, 2),
]
CLIENTS = 6


@pytest.mark.parametrize("pace", PACES, ids=str)
def test_the_promises_hold_on_hostile_devices(pace: Pace) -> None:
    check_pace(pace, clients=CLIENTS, runs=4)


seconds = st.sampled_from([0.0, 0.25, 0.5, 1.0])
borders = st.lists(st.integers(0, 24), unique=True, max_size=5).map(sorted)  # comes, goes, comes, ...


def visits(borders_of_each: list[list[int]]) -> tuple[tuple[int, float, float], ...]:
    return tuple(
        (client, float(start), float(end))
        for client, own in enumerate(borders_of_each)
        for start, end in zip_longest(own[::2], own[1::2], fillvalue=math.inf)
    )


windows = st.lists(borders, min_size=CLIENTS, max_size=CLIENTS).map(visits)
devices = st.builds(
    Population,
    solve_s=st.lists(st.sampled_from([0.5, 1.0, 1.0, 2.0, 7.0]), min_size=CLIENTS, max_size=CLIENTS),
    noise_s=st.sampled_from([0.0, 1.0]),
    noise=st.sampled_from(["half_normal", "exponential"]),
    up_s=seconds,
    down_s=seconds,
    up_s_per_byte=st.sampled_from([0.0, 0.01]),
    down_s_per_byte=st.sampled_from([0.0, 0.01]),
    mode=st.sampled_from(["serial", "overlap"]),
    drop=st.sampled_from([0.0, 0.3, 0.8]),
    windows=st.one_of(st.none(), windows),
    delayed_orders=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(pace=st.sampled_from(PACES), population=devices, seed=st.integers(0, 2**32))
def test_the_invariants_hold_for_any_population(pace: Pace, population: Population, seed: int) -> None:
    run_under_invariants(pace, population, clients=CLIENTS, steps=8, seed=seed)


# ---------------------------------------------------------------- a check that cannot fail would prove nothing


@dataclass(frozen=True)
class Forgetful(Buffered):
    """Does not free the place of a client that was lost."""

    def lost(self, client: int, state: BufferedState) -> bool:
        return False


@dataclass(frozen=True)
class Greedy(Buffered):
    """Sends one client more to work than it may."""

    def init(self, clients: int) -> BufferedState:
        return replace(super().init(clients), refills=[4])


@dataclass(frozen=True)
class Absentminded(Buffered):
    """Takes a step with whatever comes first, and forgets to empty the buffer."""

    def arrived(self, update: UpdateHeader, version: int, state: BufferedState) -> Decision:
        state.filled += 1
        return Decision(0, step=False, reason="never")


@pytest.mark.parametrize("pace", [Forgetful(2, 3), Greedy(2, 3), Absentminded(2, 3)], ids=str)
def test_a_rule_that_breaks_its_promises_is_caught(pace: Pace) -> None:
    with pytest.raises(AssertionError):
        check_pace(pace, clients=CLIENTS)
