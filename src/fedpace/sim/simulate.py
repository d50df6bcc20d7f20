"""The parts of a run under the virtual clock, checked and joined."""

from __future__ import annotations

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.compute import Engine, Task
from fedpace.errors import require_count
from fedpace.pace import ByShare, Interrupting
from fedpace.server import Server
from fedpace.sim.population import Devices, Population
from fedpace.sim.simulation import Simulation
from fedpace.sim.watcher import Watcher
from fedpace.spill import Slab
from fedpace.vector import Vector


def prepare(
    algorithm: Algorithm,
    task: Task,
    population: Population | None,
    engine: Engine,
    *watchers: Watcher,
    rounds: int,
    seed: int = 0,
    eager: bool = False,
    spill: str | None = None,
) -> Simulation:
    """All the parts of a run, checked and joined; nothing has happened yet.

    `population=None` means one second per solve and free transfer. `eager` computes every session, also those
    whose result nobody uses; the outcome is the same to the bit. `spill` is a folder for what clients remember.
    """
    require_count(rounds, "rounds")
    require_count(seed, "seed", low=0)
    devices = (population or Population.from_times(1.0)).bind(task.clients, seed)
    x = task.initial(seed)
    server = Server(
        algorithm.bound(task.layout, task.clients, task.samples),
        x,
        task.clients,
        seed=seed,
        shares=_shares(algorithm, task),
        cycle_s=_cycle_s(algorithm, task, devices, x),
        last=rounds,
    )
    slab = None if spill is None else Slab(spill)
    return Simulation(server, task, devices, engine, *watchers, eager=eager, slab=slab)


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
