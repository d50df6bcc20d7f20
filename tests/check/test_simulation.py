"""Each invariant can fail, and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fedpace.check import Invariants
from fedpace.check.pace import Pull, run_under_invariants
from fedpace.client import Session, Times
from fedpace.link.protocol import Context
from fedpace.pace import Buffered, Rounds
from fedpace.server import Server, Step, Update
from fedpace.server.invariants import assert_sound
from fedpace.sim import Population
from fedpace.sim.observer import Tally

ZERO = np.zeros(2)
UPDATE = Update(0, 1, 0, 0, 1, 1.0, 1.0, {})


def session(number: int = 1, version: int = 0) -> Session:
    return Session(number, version, version, ZERO, 1, Context(round=0))


def step(version: int = 1, staleness: int = 0, sessions: tuple[int, ...] = (1,)) -> Step:
    count = len(sessions)
    return Step(version, ZERO, (0,) * count, sessions, (staleness,) * count)


def begun() -> Invariants:
    watching = Invariants()
    watching.began(0, session(), 1.0)
    return watching


BROKEN: dict[str, Callable[[], None]] = {
    "time runs back from 1.0 to 0.5": lambda: begun().uploading(0, UPDATE, 0.5, 2.0),
    "an upload ends before it begins": lambda: begun().uploading(0, UPDATE, 2.0, 1.0),
    "client 0 has two running sessions": lambda: begun().began(0, session(2), 1.0),
    "a session ended twice": lambda: Invariants().trained(0, session(), Times(0.0, 0.0, 1.0), 1.0),
    "are out of order": lambda: begun().trained(0, session(), Times(0.0, 2.0, 1.0), 1.0),
    "client 0 claims version 3": lambda: begun().sent_up(0, Update(0, 1, 3, 0, 1, 1.0, 1.0, {})),
    "version 0 is followed by 2": lambda: begun().stepped(step(2), 2.0, Tally()),
    "step 1 has no members": lambda: begun().stepped(step(sessions=()), 2.0, Tally()),
    "staleness 1, started from 0": lambda: begun().stepped(step(staleness=1), 2.0, Tally()),
}


@pytest.mark.parametrize("message", BROKEN)
def test_what_is_wrong_is_said(message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        BROKEN[message]()


def test_an_update_is_used_or_lost_once() -> None:
    watching = begun()
    watching.stepped(step(), 2.0, Tally())
    with pytest.raises(AssertionError, match="client 0, session 1: step 1, then dropped"):
        watching.ended(0, 1, "dropped")


def finished(pace: Rounds | Buffered) -> Server:
    return run_under_invariants(pace, Population.from_times(1.0), clients=4, steps=3).server


def test_a_version_that_nobody_needs_is_noticed() -> None:
    server = finished(Rounds())
    assert_sound(server)
    server.state.versions.hold(3)
    with pytest.raises(AssertionError, match=r"versions held \{3: 1\}, counted \{\}"):
        assert_sound(server)
    server.state.versions.release(3)
    server.state.versions.models[1] = ZERO
    with pytest.raises(AssertionError, match=r"models stored: \[1, 3\]"):
        assert_sound(server)


def test_a_model_that_a_client_needs_is_missed() -> None:
    server = finished(Rounds())
    assert_sound(server, [(0, 3)])
    with pytest.raises(AssertionError, match="client 0 uses version 2, which is gone"):
        assert_sound(server, [(0, 2)])


def test_a_client_with_too_many_models_is_noticed() -> None:
    server = finished(Rounds())
    server.state.holds.taken[0] = [3] * 65
    server.state.versions.holders[3] = 65
    with pytest.raises(AssertionError, match="a client holds too many"):
        assert_sound(server)


def test_a_place_that_stays_free_is_noticed() -> None:
    server = finished(Buffered(2, 3))
    server.dispatch(3.0)
    assert_sound(server)
    server.state.pace.active.pop()
    with pytest.raises(AssertionError, match="2 active clients and 0 free places make 3"):
        assert_sound(server)
    server.state.pace.short = 1
    with pytest.raises(AssertionError, match="1 places were left free and 2 clients are idle"):
        assert_sound(server)


def test_a_state_that_is_not_finite_is_noticed() -> None:
    server = finished(Rounds())
    server.state.x = np.array([np.nan, 0.0])
    with pytest.raises(AssertionError, match="a model or a state is not finite"):
        assert_sound(server)


def test_a_cache_whose_mean_has_drifted_is_noticed() -> None:
    server = finished(Rounds())  # under Cached aggregation
    server.state.aggregate = replace(server.state.aggregate, mean=server.state.aggregate.mean + 0.01)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_sound(server)


def test_the_smallest_task() -> None:
    assert Pull(3).evaluate(np.array([3.0, 4.0])) == {"loss": 25.0}
