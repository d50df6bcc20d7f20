"""What a pacing rule promises, tried on devices that fail, leave and come back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from fedpace.aggregate import Cached, Pooled
from fedpace.aggregate.protocol import Aggregator
from fedpace.algorithm import Algorithm
from fedpace.check.interface import check_interface
from fedpace.check.purity import assert_value
from fedpace.check.simulation import Invariants, models_in_use
from fedpace.compute import Inline
from fedpace.compute.protocol import Request
from fedpace.errors import StalledError
from fedpace.local import SGD
from fedpace.pace import Interruptible, Pace
from fedpace.server import Server, Step
from fedpace.server.invariants import assert_sound
from fedpace.sim import Population
from fedpace.sim.delayed import simulation_for
from fedpace.sim.observer import Tally
from fedpace.sim.simulation import Simulation
from fedpace.vector import Layout, Vector


def check_pace(pace: Pace, *, clients: int = 6, steps: int = 12, runs: int = 20) -> None:
    """A pacing rule keeps the invariants of a simulation on any devices, and ends early only if no client is available.

    The same seed gives the same steps, so the rule draws only from the streams it is handed.
    """
    assert_value(pace)
    check_interface(pace, clients)
    for seed in range(runs):
        devices = hostile_devices(clients, seed)
        first, second = (Log(), Log())
        run_under_invariants(pace, devices, clients=clients, steps=steps, seed=seed, log=first)
        run_under_invariants(pace, devices, clients=clients, steps=steps, seed=seed, log=second)
        assert first.steps == second.steps, f"{pace}: two runs with seed {seed} differ"


class Log(Invariants):
    """Invariants that remember the steps."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[float, tuple[int, ...], tuple[int, ...]]] = []

    def stepped(self, step: Step, now: float, tally: Tally) -> None:
        super().stepped(step, now, tally)
        self.steps.append((now, step.clients, step.staleness))


def run_under_invariants(
    pace: Pace, devices: Population, *, clients: int, steps: int, seed: int = 0, log: Invariants | None = None
) -> Simulation:
    """The simulation as it ended; it may end early only because no client is available any more."""
    averaging = isinstance(pace.client, Interruptible) and pace.client.averaging is not None
    aggregate: Aggregator = Pooled(None) if averaging else Cached()
    algorithm = Algorithm(pace=pace, local=SGD(lr=0.5, steps=3), aggregate=aggregate)
    task = Pull(clients)
    server = Server(algorithm, task.initial(seed), clients, seed=seed, last=steps)
    bound = devices.bind(clients, seed)
    simulation = simulation_for(bound)(server, task, bound, Inline(task), log or Invariants())
    simulation.begin()
    try:
        simulation.run(steps)
    except StalledError:
        present = [client for client in range(clients) if server.is_present(client)]
        assert not present, f"{pace}: stalled at {simulation.now} s although clients {present} are available"
    assert_sound(server, models_in_use(simulation))
    return simulation


class Pull:
    """The smallest task: client i pulls every entry halfway to i."""

    name, layout = "pull", Layout.of({"x": (2,)})

    def __init__(self, clients: int) -> None:
        self.clients = clients

    def initial(self, seed: int) -> Vector:
        return np.zeros(2)

    def samples(self, client: int) -> float:
        return 1.0

    def solve(self, request: Request) -> Vector:
        return np.subtract(request.data, request.start) / 2

    def evaluate(self, x: Vector) -> Mapping[str, float]:
        return {"loss": float(x @ x)}


def hostile_devices(clients: int, seed: int) -> Population:
    """Ties, slow links, lost sessions; every other seed with clients that come and go, some for good."""
    rng = np.random.default_rng(seed)
    return Population(
        solve_s=tuple(rng.choice((0.5, 1.0, 1.0, 2.0, 3.0), clients)),
        noise_s=float(rng.choice((0.0, 0.0, 1.0))),
        up_s=float(rng.choice((0.0, 0.0, 0.25, 1.0))),
        down_s=float(rng.choice((0.0, 0.0, 0.25, 1.0))),
        mode=str(rng.choice(("serial", "overlap"))),
        drop=float(rng.choice((0.0, 0.2, 0.6))),
        windows=tuple(w for c in range(clients) for w in _visits(c, rng)) if seed % 2 else None,
    )


def _visits(client: int, rng: np.random.Generator) -> Iterator[tuple[int, float, float]]:
    now = 0.0
    for _ in range(rng.integers(5)):
        start = now + float(rng.choice((0.0, 0.5, 1.0, 2.0)))
        now = start + float(rng.choice((0.25, 0.5, 1.0, 3.0, 8.0)))
        yield client, start, now
    if rng.random() < 0.3:
        yield client, now + 1.0, math.inf
