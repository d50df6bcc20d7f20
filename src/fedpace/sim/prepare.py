"""The parts of a run under the virtual clock, checked and joined."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.compute import Engine, Task
from fedpace.errors import require_count
from fedpace.pace import ByShare, Interrupting
from fedpace.privacy import Privacy
from fedpace.server import Server
from fedpace.server.private import require_private_task
from fedpace.sim.delayed import simulation_for
from fedpace.sim.observer import Observer
from fedpace.sim.population import Devices, Population
from fedpace.sim.simulation import Simulation
from fedpace.spill import Slab
from fedpace.vector import Vector


def prepare(
    algorithm: Algorithm,
    task: Task,
    population: Population | None,
    engine: Engine,
    *observers: Observer,
    rounds: int,
    seed: int = 0,
    eager: bool = False,
    spill: str | None = None,
    x: Vector | None = None,
    spent: Privacy | None = None,
) -> Simulation:
    """All the parts of a run, checked and joined; nothing has happened yet.

    `population=None` means one second of local training per session and free transfer. `eager`
    computes every session, also those whose result is never used; the outcome is bit-identical. `spill` is a folder
    for what clients remember. `x` is the initial model, where it is not the task's own; `spent` is what the
    run has spent that it comes from.
    """
    require_count(rounds, "rounds")
    require_count(seed, "seed", low=0)
    require_private_task(algorithm.privacy, task)
    devices = _for_model(population or Population.from_times(1.0), task).bind(task.clients, seed)
    x = task.initial(seed) if x is None else x
    rules = _with_period(algorithm.bound(task.layout, task.clients, task.samples), task, devices, x)
    samples = _samples(algorithm, task)
    server = Server(rules, x, task.clients, seed=seed, last=rounds, samples=samples, spent=spent)
    slab = None if spill is None else Slab(spill)
    return simulation_for(devices)(server, task, devices, engine, *observers, eager=eager, slab=slab)


def _for_model(population: Population, task: Task) -> Population:
    """The devices as fast as they are with this task's model, where it tells its cost; any other value as it is."""
    fit: Any = getattr(population, "for_model", None)
    fitted: Population = fit(lambda: getattr(task, "multiply_accumulates", None)) if fit else population
    return fitted


def _samples(algorithm: Algorithm, task: Task) -> list[float] | None:
    """n_i of all clients, where the server draws by them; otherwise each client's own word is good enough."""
    if not isinstance(getattr(algorithm.pace, "select", None), ByShare):
        return None
    return [task.samples(client) for client in range(task.clients)]


def _with_period(algorithm: Algorithm, task: Task, devices: Devices, x: Vector) -> Algorithm:
    """A server that steps at its own period gets the cycle of the fastest client, where none was given."""
    pace = algorithm.pace
    if not isinstance(pace, Interrupting) or pace.period_s is not None:
        return algorithm
    rng = np.random.default_rng(0)
    steps = algorithm.local.work(0, 0, task.samples(0), devices.expected_step_s(0), rng)
    return replace(algorithm, pace=replace(pace, period_s=devices.fastest_cycle_s(x.nbytes, steps)))
