"""Constants of the population, such as FedNova's, are fixed by the samples that real clients tell when they join."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.deploy.deployed import CLIENTS, ROUNDS, SAMPLES, SEED, TASK, Bed, made

import fedpace
from fedpace.aggregate import Normalised, PerStep
from fedpace.algorithm import Algorithm
from fedpace.deploy import JournalLimits, genesis, replay
from fedpace.deploy.coordinator import Coordinator
from fedpace.deploy.journal.disk_journal import DiskJournal
from fedpace.deploy.journal.files import DiskFiles
from fedpace.deploy.plan import RunPlan
from fedpace.deploy.terms import Terms

STEPS = [1, 2, 3, 4, 5, 6]
NEEDING = {
    "fednova, uniform": made("fednova", tau_eff="population"),
    "fednova, share": made("fednova", tau_eff="population", select="share", weighting="uniform"),
    "autonomous_fedgm": made("autonomous_fedgm", steps=STEPS, k_ref="mean"),
}
SETTLED = {
    "fednova, uniform": Normalised(float(np.average(STEPS, weights=SAMPLES)), "samples", 3.5),
    "fednova, share": Normalised(float(np.average(STEPS, weights=SAMPLES)), "uniform"),
    "autonomous_fedgm": PerStep(3.5),
}


def recovered(place: Path) -> Coordinator:
    """A server that begins where the journal ends."""
    begun = genesis.read(DiskFiles(place))
    assert begun is not None
    coordinator = begun.coordinator()
    DiskJournal(DiskFiles(place), begun.run).opened(coordinator).close(None)
    return coordinator


def simulated(algorithm: Algorithm) -> bytes:
    run = fedpace.simulate(algorithm, TASK, rounds=ROUNDS, seed=SEED, evaluate_every=None)
    return run.model.tobytes()


@pytest.mark.parametrize("name", NEEDING)
def test_samples_told_at_joining_make_the_bits_of_a_simulation_that_knew_them(
    name: str, tmp_path: Path
) -> None:
    bed = Bed(NEEDING[name], tmp_path, in_order=True, samples=None, wait_for=None)
    assert bed.run().model.tobytes() == simulated(NEEDING[name])
    again = replay(bed.place, TASK)
    assert again.run.model.tobytes() == simulated(NEEDING[name]) and again.different == ()
    assert again.coordinator.server.algorithm.aggregate == SETTLED[name]
    assert again.coordinator.state.population == list(range(CLIENTS))


@pytest.mark.parametrize("every_s", [0.0, 3600.0], ids=["checkpoints", "inputs"])
def test_a_server_killed_before_and_after_the_constants_were_fixed_has_the_same_ones(
    every_s: float, tmp_path: Path
) -> None:
    async def script(bed: Bed) -> None:
        await bed.kill_client(5)
        await bed.kill_server()
        bed.join(5)
        await bed.reached(2)
        await bed.kill_server()

    name = "fednova, uniform"
    limits = JournalLimits(every_s=every_s)
    bed = Bed(NEEDING[name], tmp_path, disks=True, in_order=True, samples=None, wait_for=None, journal=limits)
    assert bed.run(script).model.tobytes() == simulated(NEEDING[name])
    assert recovered(bed.place).server.algorithm.aggregate == SETTLED[name]
    assert replay(bed.place).run.model.tobytes() == simulated(NEEDING[name])


def test_with_fewer_clients_to_wait_for_the_constants_are_those_of_the_clients_that_came_in_time(
    tmp_path: Path,
) -> None:
    async def script(bed: Bed) -> None:
        await bed.reached(1)
        bed.join(5)

    bed = Bed(NEEDING["fednova, uniform"], tmp_path, samples=None, wait_for=3)
    bed.first = range(3)
    assert len(bed.run(script).history) == ROUNDS
    for coordinator in (recovered(bed.place), replay(bed.place).coordinator):
        assert coordinator.state.population == [0, 1, 2]
        assert coordinator.server.algorithm.aggregate == Normalised(14 / 6, "samples", 2.0)


def test_rules_without_such_constants_and_known_samples_wait_for_nobody() -> None:
    def gathers(algorithm: Algorithm, samples: tuple[float, ...] | None = None) -> bool:
        return Terms(plan=RunPlan.of(algorithm), clients=6, rounds=1, samples=samples).gathers

    assert gathers(NEEDING["fednova, uniform"]) and gathers(NEEDING["autonomous_fedgm"])
    assert not gathers(NEEDING["fednova, uniform"], tuple(SAMPLES))
    assert not gathers(made("fedavg"))
    assert not gathers(made("fednova", tau_eff="population", clients_per_round=None))  # all of them


def test_samples_that_nobody_can_have_are_not_believed() -> None:
    passes = made("fednova", steps=None, epochs=2, batch_size=10)
    terms = Terms(plan=RunPlan.of(passes), clients=6, rounds=1)
    assert terms.believes(5e7) and terms.believes(0.0)
    for more in (5.1e7, 1e10, -1.0, float("nan"), float("inf"), True):
        assert not terms.believes(more)
    assert terms.settled(dict.fromkeys(range(6), 0.0)) == passes.aggregate
