"""What a client's machine has and its owner decides: its own data, its own steps, whether and in what it takes part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.deploy.deployed import CLIENTS, ROUNDS, SAMPLES, SEED, TASK, VARIANTS, Bed

import fedpace
from fedpace.deploy import Owner, genesis, replay
from fedpace.deploy.inputs import InputKind
from fedpace.deploy.journal.disk_journal import inputs_from, read_segments
from fedpace.deploy.journal.files import DiskFiles
from fedpace.deploy.messages import Message, MessageKind
from fedpace.deploy.plan import RunPlan
from fedpace.errors import ConfigError
from fedpace.tasks import quadratics

OWN = [quadratics([TASK.centers[client]], weights=[SAMPLES[client]]) for client in range(CLIENTS)]


def received(bed: Bed, kind: MessageKind) -> list[tuple[int, Message]]:
    """The messages of this kind in the journal."""
    files = DiskFiles(bed.place)
    begun = genesis.read(files)
    assert begun is not None
    envelope = begun.coordinator().envelope
    found = inputs_from(read_segments(files, begun.run), 0)
    read = [(each.client, each.read_message(envelope)) for each in found if each.kind is InputKind.MESSAGE]
    return [(client, message) for client, message in read if message.kind is kind]


def test_machines_that_have_only_their_own_data_make_the_run_of_one_that_has_all(tmp_path: Path) -> None:
    """And what they measure, weighted by samples, is the objective of all of them."""
    bed = Bed(VARIANTS["scaffold"], tmp_path, in_order=True, evaluate="clients", evaluate_every=1)
    bed.tasks = dict(enumerate(OWN))
    run = bed.run()
    simulated = fedpace.simulate(VARIANTS["scaffold"], TASK, rounds=ROUNDS, seed=SEED, keep_models=True)
    assert run.model.tobytes() == simulated.model.tobytes()
    assert simulated.models is not None
    losses = [TASK.training_loss(x) for x in simulated.models]
    np.testing.assert_allclose(run.history[-1].metrics["loss"], losses[-1], rtol=1e-12)
    for version, x in enumerate(simulated.models, 1):
        spread = run.client_metrics[version]
        own = np.array([task.evaluate(x)["loss"] for task in OWN])
        known = ~np.isnan(spread.values)
        assert spread.name == "loss" and known.any()
        np.testing.assert_array_equal(spread.values[known], own[known])
    assert not np.isnan(run.client_metrics[ROUNDS].values).any()
    again = replay(bed.place).run
    assert again.to_json() == run.to_json()
    assert all(
        again.client_metrics[version].values.tobytes() == found.values.tobytes()
        for version, found in run.client_metrics.items()
    )


def test_a_server_with_data_evaluates_and_its_metrics_are_in_the_journal(tmp_path: Path) -> None:
    run = Bed(VARIANTS["fedavg"], tmp_path, evaluate_every=2).run()
    assert run.metrics == TASK.evaluate(run.model)
    assert replay(tmp_path / "server").run.metrics == run.metrics


@pytest.mark.parametrize("name", ["fedavg", "two_way, seeded"])
def test_a_client_that_made_another_initial_model_is_sent_the_servers(name: str, tmp_path: Path) -> None:
    bed = Bed(VARIANTS[name], tmp_path, in_order=True)
    other = quadratics(TASK.centers, weights=TASK.weights, initial=7.0)
    bed.tasks = dict.fromkeys(range(3), other)
    run = bed.run()
    simulated = fedpace.simulate(VARIANTS[name], TASK, rounds=ROUNDS, seed=SEED, evaluate_every=None)
    assert run.model.tobytes() == simulated.model.tobytes()
    assert {client for client, _ in received(bed, MessageKind.LACK)} == {0, 1, 2}


def test_an_owner_chooses_fewer_local_steps(tmp_path: Path) -> None:
    bed = Bed(VARIANTS["autonomous_fedgm"], tmp_path)
    bed.owners = {0: Owner(steps=lambda planned: planned - 3)}
    bed.run()
    steps = {(client, message.header["steps"]) for client, message in received(bed, MessageKind.UPDATE)}
    assert steps <= {(0, 1), *((client, 4) for client in range(1, CLIENTS))}
    assert (0, 1) in steps
    assert replay(bed.place, TASK).different == ()


@pytest.mark.parametrize("name", ["fedavg", "fedbuff", "defedavg_iid", "defedavg_niid", "favano"])
def test_an_owner_that_takes_no_work_is_not_chosen_until_it_does(name: str, tmp_path: Path) -> None:
    bed = Bed(VARIANTS[name], tmp_path, rounds=12)
    bed.owners = {0: Owner(accept=lambda: bed.version >= 6, ask_every_s=0.001)}
    run = bed.run()
    assert all(0 not in step.clients for step in run.history[:6])
    assert replay(bed.place, TASK).run.model.tobytes() == run.model.tobytes()
    assert len(received(bed, MessageKind.PAUSE)) >= 1


def test_an_owner_takes_part_in_the_plan_it_expects_and_in_no_other(tmp_path: Path) -> None:
    digest = RunPlan.of(VARIANTS["fedavg"]).digest.hex()
    bed = Bed(VARIANTS["fedavg"], tmp_path, wait_for=CLIENTS - 1)
    bed.owners = {0: Owner(expect="0" * 64), 1: Owner(expect=digest)}
    run = bed.run()
    assert isinstance(bed.clients[0].exception(), ConfigError)
    assert all(0 not in step.clients for step in run.history)


def test_a_client_leaves_cleanly_and_nobody_waits_for_it(tmp_path: Path) -> None:
    async def leaves(bed: Bed) -> None:
        await bed.reached(2)
        bed.leaving[0]()
        assert await bed.clients[0] == "left"

    bed = Bed(VARIANTS["fedsgd"], tmp_path, rounds=8)
    run = bed.run(leaves)
    assert len(received(bed, MessageKind.LEAVE)) == 1
    assert len(run.history) == 8


def test_a_client_that_was_away_at_the_end_is_told_when_it_comes_back(tmp_path: Path) -> None:
    async def away(bed: Bed) -> None:
        await bed.reached(1)
        back = bed.network.disconnected(0)
        await bed.reached(12)
        back()
        await bed.clients[0]

    bed = Bed(VARIANTS["fedasync"], tmp_path, rounds=12, linger_s=100.0)
    run = bed.run(away)
    assert len(run.history) == 12
    assert bed.clients[0].result() == "the run is over"
