"""Private runs on real clients: noise by a key that only the server's folder has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.deploy.deployed import ROUNDS, SEED, TASK, Bed, made

import fedpace
from fedpace.algorithm import Algorithm
from fedpace.deploy import genesis, replay
from fedpace.deploy.journal.files import DiskFiles
from fedpace.deploy.plan import RunPlan
from fedpace.deploy.projects.settings import read_settings
from fedpace.deploy.terms import Terms
from fedpace.errors import ConfigError
from fedpace.privacy import ClientDP

pytest.importorskip("dp_accounting", reason="pip install 'fedpace[privacy]'")


def private(name: str, **rule: object) -> Algorithm:
    return replace(made(name), privacy=ClientDP(**{"delta": 0.01, **rule}))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["fedavg", "fedbuff"])
def test_a_private_run_replays_to_the_same_bits(name: str, tmp_path: Path) -> None:
    run = Bed(private(name), tmp_path).run()
    again = replay(tmp_path / "server").run
    assert again.model.tobytes() == run.model.tobytes() and again.to_json() == run.to_json()
    assert run.privacy is not None and run.privacy.epsilon == run.history[-1].epsilon
    assert len(run.history) == ROUNDS


def test_noise_is_the_keys_and_not_the_seeds(tmp_path: Path) -> None:
    """Two deployments, and the simulation, of one seed have three noises."""
    algorithm = private("fedavg")
    models = [Bed(algorithm, tmp_path / name, in_order=True).run().model.tobytes() for name in "ab"]
    simulated = fedpace.simulate(algorithm, TASK, rounds=ROUNDS, seed=SEED, evaluate_every=None)
    assert len({*models, simulated.model.tobytes()}) == 3


def test_a_server_killed_and_started_again_draws_the_same_noise(tmp_path: Path) -> None:
    async def script(bed: Bed) -> None:
        await bed.reached(2)
        await bed.kill_server()

    bed = Bed(private("fedavg"), tmp_path)
    run = bed.run(script)
    assert bed.place != tmp_path / "server"
    assert replay(bed.place).run.model.tobytes() == run.model.tobytes()


def test_the_key_is_on_the_disk_before_anything_else_and_is_never_printed(tmp_path: Path) -> None:
    Bed(private("fedavg"), tmp_path).run()
    begun = genesis.read(DiskFiles(tmp_path / "server"))
    assert begun is not None and len(begun.noise) == 32 and begun.noise.hex() not in repr(begun)
    with pytest.raises(ConfigError, match="32 bytes"):
        replace(begun, noise=b"").coordinator()


def test_a_run_without_privacy_has_no_key(tmp_path: Path) -> None:
    Bed(made("fedavg"), tmp_path).run()
    begun = genesis.read(DiskFiles(tmp_path / "server"))
    assert begun is not None and begun.noise == b""


def test_a_deployment_stops_before_its_budget_is_exceeded(tmp_path: Path) -> None:
    free = private("fedavg", noise_multiplier=3.0)
    spent = fedpace.simulate(free, TASK, rounds=2, seed=SEED, evaluate_every=None).privacy
    assert spent is not None
    run = Bed(private("fedavg", noise_multiplier=3.0, epsilon=spent.epsilon), tmp_path).run()
    assert len(run.history) == 2 and run.stopped is not None and "allows 2 steps" in run.stopped


def test_a_study_says_its_privacy_in_its_file(tmp_path: Path) -> None:
    """Clients see it in the plan, before they agree to anything."""
    rule = "ClientDP(clip=0.5, noise_multiplier=1.1, delta=1e-06, epsilon=8)"
    run = '[run]\nalgorithm = "fedavg(client_lr=0.1)"\nclients = 50\nrounds = 10\n'
    (tmp_path / "run.toml").write_text(f'{run}[rules]\nprivacy = "{rule}"\n', encoding="utf-8")
    algorithm = read_settings(tmp_path).built({})
    assert algorithm.privacy == ClientDP(0.5, 1.1, 1e-6, 8)
    plan = RunPlan.of(algorithm)
    assert "ClientDP(clip=0.5" in plan.text and RunPlan.read(plan.text).algorithm == algorithm


def test_a_private_run_refuses_running_statistics_whose_sums_would_have_no_noise() -> None:
    plan = RunPlan.of(private("fedavg", clip=0.5, noise_multiplier=1.0))
    assert Terms(plan=plan, clients=2, rounds=1).normalisers == {}
    with pytest.raises(
        ConfigError, match="model must be one without running statistics in a private run.*got 'norm'"
    ):
        Terms(plan=plan, clients=2, rounds=1, normalisers={"norm": 4})
