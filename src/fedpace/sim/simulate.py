"""One call runs an experiment under the virtual clock."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.compute import Engine, Task, engine
from fedpace.errors import require, require_count
from fedpace.pace import ByShare, Interrupting
from fedpace.server import Server
from fedpace.sim.evaluation import Every, every
from fedpace.sim.population import Devices, Population
from fedpace.sim.recorder import Recorder
from fedpace.sim.report import Reporter
from fedpace.sim.simulation import Simulation
from fedpace.sim.traffic import Traffic
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a simulation ended."""

    model: Vector
    virtual_seconds: float
    facts: dict[str, int | str]  # what was counted
    traffic: Traffic


def simulate(
    algorithm: Algorithm,
    task: Task,
    population: Population | None = None,
    *,
    rounds: int,
    seed: int = 0,
    workers: int = 1,
    compute: str = "auto",
    evaluate_every: int | str | Every | None = 1,
    recorder: Recorder,
    eager: bool = False,
) -> Outcome:
    """Run `rounds` server steps and report each to the recorder.

    `population=None` means one second per solve and free transfer. `eager` computes every session, also
    those whose result nobody uses; the outcome is the same to the bit.
    """
    simulation = prepare(
        algorithm,
        task,
        population,
        rounds=rounds,
        seed=seed,
        eager=eager,
        solver=engine(compute, task, workers),
        evaluate_every=evaluate_every,
        recorder=recorder,
    )
    try:
        simulation.begin()
        simulation.run(rounds)
    finally:
        simulation.engine.close()
    return outcome(simulation)


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
    return Simulation(server, task, devices, solver, reporter, eager=eager)


def outcome(simulation: Simulation) -> Outcome:
    """What there is to know at the end, or at any moment."""
    facts: dict[str, int | str] = {"compute": getattr(simulation.engine, "name", "custom")}
    facts |= asdict(simulation.state.tally) | asdict(simulation.server.state.counts)
    state = simulation.state
    return Outcome(simulation.server.state.x, state.line.now, facts, state.traffic)


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
