"""The parts of an experiment under the virtual clock, joined; and what came out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.compute import Engine, Task
from fedpace.errors import require, require_count
from fedpace.link.traffic import Traffic
from fedpace.pace import ByShare, Interrupting
from fedpace.server import Server
from fedpace.sim.evaluation import Every, every
from fedpace.sim.population import Devices, Population
from fedpace.sim.recorder import Recorder
from fedpace.sim.report import Reporter
from fedpace.sim.simulation import Simulation
from fedpace.sim.watcher import Watcher
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a simulation ended."""

    model: Vector
    virtual_seconds: float
    facts: dict[str, int | str]  # what was counted
    traffic: Traffic


def prepare(
    algorithm: Algorithm,
    task: Task,
    population: Population | None,
    *,
    rounds: int,
    seed: int,
    eager: bool,
    solver: Engine,
    evaluate_every: int | str | Every | None,
    recorder: Recorder,
    watchers: Iterable[Watcher] = (),
) -> Simulation:
    """All the parts of a run, checked and joined; nothing has happened yet."""
    require_count(rounds, "rounds")
    require_count(seed, "seed", low=0)
    check_sizes(algorithm, task)
    devices = (population or Population.from_times(1.0)).bind(task.clients, seed)
    x = task.initial(seed)
    server = Server(
        algorithm.bound(task.layout),
        x,
        task.clients,
        seed=seed,
        shares=_shares(algorithm, task),
        cycle_s=_cycle_s(algorithm, task, devices, x),
        last=rounds,
    )
    reporter = Reporter(recorder, task, every(evaluate_every), rounds)
    return Simulation(server, task, devices, solver, reporter, *watchers, eager=eager)


def outcome(simulation: Simulation) -> Outcome:
    """What there is to know at the end, or at any moment."""
    server, state = simulation.server.state, simulation.state
    facts: dict[str, int | str] = {"compute": getattr(simulation.engine, "name", "custom")}
    facts |= asdict(state.tally) | asdict(server.counts)
    in_buffer = set(zip(server.members.clients, server.members.sessions, strict=True))
    facts["discarded"] = len(in_buffer) + len(server.kept)
    return Outcome(server.x, state.line.now, facts, reporter_of(simulation).state.traffic)


def reporter_of(simulation: Simulation) -> Reporter:
    """The first of a simulation's watchers, which `prepare` made."""
    reporter = simulation.watchers[0]
    assert isinstance(reporter, Reporter)
    return reporter


def check_sizes(algorithm: Algorithm, task: Task) -> None:
    """Refuse what no client count of this task can satisfy."""
    wanted = getattr(algorithm.pace, "clients_per_round", None)
    if wanted is not None and not isinstance(getattr(algorithm.pace, "select", None), ByShare):
        require(
            wanted <= task.clients, "clients_per_round", wanted, f"<= the number of clients ({task.clients})"
        )


def _shares(algorithm: Algorithm, task: Task) -> Vector | None:
    if not isinstance(getattr(algorithm.pace, "select", None), ByShare):
        return None
    samples: Vector = np.array([task.samples(client) for client in range(task.clients)])
    shares: Vector = samples / samples.sum()
    return shares


def _cycle_s(algorithm: Algorithm, task: Task, devices: Devices, x: Vector) -> float | None:
    """The fastest client's cycle, for a server that keeps that rhythm."""
    if not isinstance(algorithm.pace, Interrupting):
        return None
    rng = np.random.default_rng(0)
    steps = algorithm.local.work(0, 0, task.samples(0), devices.expected_step_s(0), rng)
    return devices.fastest_cycle_s(x.nbytes, steps)
