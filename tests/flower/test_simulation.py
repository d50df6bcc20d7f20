"""The app of `fedpace deploy new --flower` in Flower's Ray simulation: the bits of `fedpace.simulate`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.flower.stage import CLIENTS, Stage, wait_until

pytestmark = pytest.mark.long

FEDERATION = f"num-supernodes={CLIENTS} init-args-num-cpus=2 client-resources-num-cpus=1"
SYNCHRONOUS = {
    "fedavg": "fedavg(client_lr=0.1, clients_per_round=2)",
    "scaffold": "scaffold(client_lr=0.1, clients_per_round=2)",
    "two-way": "two_way(client_lr=0.1, clients_per_round=2)",
    "fedbaca": "fedbaca(client_lr=0.1, clients_per_round=2)",
}
CA2FL = "ca2fl(buffer=2, concurrency=3, client_lr=0.1)"
ROUNDS = 3


@pytest.fixture(scope="module")
def simulation(shared: Stage) -> Iterator[Stage]:
    shared.superlink("--simulation")
    yield shared


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_a_synchronous_algorithm_has_the_bits_of_simulate(name: str, simulation: Stage) -> None:
    words = ("--federation-config", FEDERATION)
    simulation.begin(name, SYNCHRONOUS[name], ROUNDS, *words, in_order=True)
    simulation.finished(name)
    again = simulation.replayed(name)
    assert again.different == () and len(again.run.history) == ROUNDS
    assert again.run.model.tobytes() == simulation.simulated(SYNCHRONOUS[name], ROUNDS)


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        ("ca2fl", CA2FL),
        ("immediate", 'fedbuff(buffer=2, concurrency=3, client_lr=0.1, dispatch="immediate")'),
    ],
)
def test_an_asynchronous_one_equals_its_replay(name: str, algorithm: str, simulation: Stage) -> None:
    simulation.begin(name, algorithm, ROUNDS, "--federation-config", FEDERATION)
    simulation.finished(name)
    again = simulation.replayed(name)
    assert again.different == () and again.retrained >= 2 * ROUNDS
    assert len(again.run.history) == ROUNDS


def test_polled_pacing_is_refused_in_one_line(simulation: Stage) -> None:
    run = simulation.begin("polled", "defedavg_niid()", ROUNDS, "--federation-config", FEDERATION)
    wait_until(simulation.has_failed, "the refusal")
    log = simulation.flwr("log", run, "stage", "--show")
    assert "on Flower a client cannot start an upload" in log
    assert not simulation.runs("polled").exists()


def test_the_example_learns(simulation: Stage) -> None:
    example = Path(__file__).parents[2] / "examples" / "flower"
    own, simulation.app = simulation.app, example
    simulation.begin("digits", "", 0, "--federation-config", FEDERATION)
    place = simulation.finished("digits")
    simulation.app = own
    history = json.loads((place / "run.json").read_bytes())["history"]
    assert len(history) == 10
    assert history[-1]["metrics"]["accuracy"] > 0.5
