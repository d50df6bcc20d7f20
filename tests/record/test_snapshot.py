"""Every algorithm can be stopped between any two events and gone on with to the same bits."""

from __future__ import annotations

import inspect
import json
import warnings
from itertools import islice
from typing import Any

import numpy as np
import pytest

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.compute import Inline
from fedpace.link import (
    EF21,
    Accumulate,
    AdaptiveThreshold,
    Averaged,
    EControl,
    ErrorFeedback,
    Lazy,
    Quantize,
    TopK,
)
from fedpace.local import SGD
from fedpace.pace import Buffered
from fedpace.random import stream
from fedpace.record import History
from fedpace.record.run.evaluation import every
from fedpace.record.run.reporter import Reporter, counts, reporter_of
from fedpace.record.store import snapshot
from fedpace.record.store.tree import Tree
from fedpace.sim import Population
from fedpace.sim.audience import Audience
from fedpace.sim.prepare import prepare
from fedpace.sim.simulation import Simulation
from fedpace.tasks import quadratics

CLIENTS, SIZE, ROUNDS = 8, 6, 14
CHOSEN: dict[str, Any] = {
    "client_lr": 0.1,
    "steps": 3,
    "batch_size": None,
    "buffer": 3,
    "concurrency": 5,
    "clients_per_round": 4,
    "draws": 4,
    "rounds": ROUNDS,
}


def named(name: str, **more: Any) -> Algorithm:
    function = getattr(algorithms, name)
    known = inspect.signature(function).parameters
    with warnings.catch_warnings(action="ignore"):  # of parameters and readings that are unusual on purpose
        return function(**{key: value for key, value in (CHOSEN | more).items() if key in known})  # type: ignore[no-any-return]


def over(link: Any) -> Algorithm:
    return Algorithm(local=SGD(lr=0.1, steps=2), pace=Buffered(2, 4, "immediate"), up=link)


CASES: dict[str, Algorithm] = {name: named(name) for name in algorithms.__all__} | {
    "autonomous_fedgm replayed": named("autonomous_fedgm", history=3),
    "fednlaca literal": named("fednlaca", mode="literal", codec="topk:1/2", tau=0.5),
    "fedbnlaca literal": named("fedbnlaca", mode="literal", codec="topk:1/2", down_codec="topk:1/2", tau=0.5),
    "error feedback, asynchronous": over(ErrorFeedback(TopK(ratio=0.4))),
    "EF21, asynchronous": over(EF21(TopK(ratio=0.4))),
    "EControl of running means, asynchronous": over(Averaged(0.5, EControl(TopK(ratio=0.4)))),
    "lazy EF21, asynchronous": over(Lazy("nla", tau=0.5, link=EF21(TopK(ratio=0.4)))),
    "accumulated, asynchronous": over(Accumulate(1.2, ErrorFeedback(TopK(ratio=0.4)))),
    "adaptive threshold, asynchronous": over(
        AdaptiveThreshold(0.3, Accumulate(1.2, ErrorFeedback(TopK(ratio=0.4))))
    ),
    "random rounding, asynchronous": over(Quantize(bits=4)),
}

EAGER = ("fedavg", "fedbuff", "ca2fl", "defedavg_niid", "defedavg_iid", "favano", "quafl")


def bed() -> tuple[Any, Population]:
    rng = stream(5, "data")
    task = quadratics(rng.normal(size=(CLIENTS, SIZE)), weights=1.0 + np.arange(CLIENTS), initial=1.0)
    seconds = tuple(rng.uniform(0.5, 3.0, CLIENTS).tolist())
    return task, Population(solve_s=seconds, noise_s=0.4, up_s=0.2, down_s=0.1, drop=0.05)


def fresh(algorithm: Algorithm, *, eager: bool = False) -> tuple[Simulation, History]:
    task, devices = bed()
    history = History()
    reporter = Reporter([history], task, every("2s"), ROUNDS)
    simulation = prepare(algorithm, task, devices, Inline(task), reporter, rounds=ROUNDS, seed=3, eager=eager)
    return simulation, history


def through_text(tree: Tree) -> Tree:
    root = json.loads(json.dumps(tree.root, allow_nan=False))
    return Tree(root, [array.copy() for array in tree.arrays], tree.layouts)


def run_some_events(simulation: Simulation, count: int) -> None:
    for phase, client, what in islice(simulation.state.line.events(), count):
        getattr(simulation, f"_{phase.name.lower()}")(client, what)
        if simulation.server.version >= ROUNDS:
            break


@pytest.mark.parametrize(
    ("case", "eager"), [(case, False) for case in CASES] + [(case, True) for case in EAGER]
)
def test_stopped_between_any_two_events_it_ends_with_the_same_bits(case: str, eager: bool) -> None:
    whole, known = fresh(CASES[case], eager=eager)
    whole.begin()
    whole.run(ROUNDS)
    stops = stream(11, "select").integers(1, 40, size=400).tolist()
    going, history = fresh(CASES[case], eager=eager)
    going.begin()
    while going.server.version < ROUNDS:  # stopped again and again, always in another process's place
        run_some_events(going, stops.pop())
        tree = through_text(snapshot.take(going))
        going, after = fresh(CASES[case], eager=eager)
        snapshot.put(tree, going)
        history.steps += after.steps
        reporter_of(going).audience = Audience([history])
    assert going.server.model.tobytes() == whole.server.model.tobytes()
    assert history.steps == known.steps
    assert history.activities == known.activities and history.fates == known.fates
    assert counts(going) == counts(whole)
    assert reporter_of(going).state.traffic == reporter_of(whole).state.traffic


def test_a_model_is_written_once_however_many_sessions_start_from_it() -> None:
    simulation, _ = fresh(named("fedavg"))
    simulation.begin()
    run_some_events(simulation, 1 + 2 * CHOSEN["clients_per_round"])  # sent, delivered, begun
    sessions = [c.state.running for c in simulation.clients.values() if c.state.running is not None]
    assert len(sessions) == CHOSEN["clients_per_round"]
    models = [array for array in snapshot.take(simulation).arrays if array.dtype == np.float64]
    assert len(models) == 2  # the server's x, and version 0 as the clients decode it


def test_spilled_caches_are_kept_too(tmp_path: Any) -> None:
    algorithm = named("ca2fl", spill=str(tmp_path))
    whole, known = fresh(algorithm)
    whole.begin()
    whole.run(ROUNDS)
    first, _ = fresh(algorithm)
    first.begin()
    first.run(ROUNDS, pause=ROUNDS // 2)
    second, after = fresh(algorithm)
    snapshot.put(through_text(snapshot.take(first)), second)
    second.run(ROUNDS)
    assert second.server.model.tobytes() == whole.server.model.tobytes()
    assert after.steps == known.steps[ROUNDS // 2 :]
