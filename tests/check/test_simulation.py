"""Each invariant can fail, and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from fedpace.sim.watcher import Tally

from fedpace.aggregate import Cached, Contribution
from fedpace.check import Invariants
from fedpace.check.pace import Pull, run_under_invariants
from fedpace.check.simulation import check_cache, check_concurrency, check_versions
from fedpace.client import Session, Times
from fedpace.link.protocol import Context
from fedpace.pace import Buffered, Rounds
from fedpace.server import Step, Update
from fedpace.sim import Population
from fedpace.sim.simulation import Simulation

ZERO = np.zeros(2)


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
    "time runs back from 1.0 to 0.5": lambda: begun().uploading(0, session(), 0.5, 2.0),
    "an upload ends before it begins": lambda: begun().uploading(0, session(), 2.0, 1.0),
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
        watching.ended(0, session(), "dropped")


def finished(pace: Rounds | Buffered) -> Simulation:
    return run_under_invariants(pace, Population.from_times(1.0), clients=4, steps=3)


def test_a_version_that_nobody_needs_is_noticed() -> None:
    simulation = finished(Rounds())
    check_versions(simulation)
    simulation.versions.hold(3)
    with pytest.raises(AssertionError, match=r"versions held \{3: 1\}, needed \{\}"):
        check_versions(simulation)
    simulation.versions.release(3)
    simulation.versions.models[1] = ZERO
    with pytest.raises(AssertionError, match=r"models kept: \[1, 3\]"):
        check_versions(simulation)


def test_a_place_that_stays_free_is_noticed() -> None:
    simulation = finished(Buffered(2, 3))
    simulation.server.dispatch(simulation.now)
    check_concurrency(simulation)
    simulation.server.state.pace.active.pop()
    with pytest.raises(AssertionError, match="2 at work and 0 free places make 3"):
        check_concurrency(simulation)
    simulation.server.state.pace.short = 1
    with pytest.raises(AssertionError, match="1 places are free and 2 clients idle"):
        check_concurrency(simulation)


def test_a_cache_whose_mean_has_drifted_is_noticed() -> None:
    rule = Cached()
    state = rule.add(Contribution(0, np.array([4.0, 0.0])), ZERO, ZERO, rule.init(ZERO, 4))
    _, state = rule.result(state)
    check_cache(state)
    state.mean += 0.01
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_cache(state)


def test_the_smallest_task() -> None:
    assert Pull(3).evaluate(np.array([3.0, 4.0])) == {"loss": 25.0}
