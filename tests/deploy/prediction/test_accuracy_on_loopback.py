"""Steps, staleness, bytes and accuracy of digits, predicted within 15 % in every single run, for every pacing.

Real clients over sockets with injected delays. The table of docs/deploy.md is made of what five of these print:

    for seed in 1 2 3 4 5; do
        FEDPACE_SEED=$seed pytest -m long -s tests/deploy/prediction/test_accuracy_on_loopback.py
    done
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.deployed import CLIENTS
from tests.deploy.prediction.loopback import RealStudy, off

from fedpace import algorithms
from fedpace.deploy.prediction.comparing import ComparedQuantity
from fedpace.deploy.prediction.measured import MeasuredPopulation

STEPS, REPEATS = 40, 9
SEED = int(os.environ.get("FEDPACE_SEED", "0"))
STEP_S = tuple(0.005 * 2**number for number in range(CLIENTS))  # the slowest takes 32 times as long
CLIENT = """\
import fedpace

def task():
    return fedpace.tasks.load("digits", clients=6, partition="dirichlet:0.3", model="softmax", seed=0)
"""
STUDY: dict[str, dict[str, Any]] = {
    "fedavg": {"clients_per_round": 3},  # synchronous
    "fedbuff": {"buffer": 2, "concurrency": 4},
    "ca2fl": {"buffer": 2, "concurrency": 4},
    "fedasync": {"concurrency": 4},
    "defedavg_iid": {"buffer": 2},  # arrivals
    "defedavg_niid": {"draws": 3},  # polled
    "favano": {"clients_per_round": 3, "server_period": 0.1},  # interrupting
    "quafl": {"clients_per_round": 3, "server_period": 0.1},
}
JUDGED = ("server steps", "steps per minute", "mean staleness", "bytes up", "bytes down", "accuracy")
CHANCE = 0.1


def judged(rows: Mapping[str, ComparedQuantity]) -> dict[str, ComparedQuantity]:
    """What the issue of predictions is about, by name alone."""
    named = {name.split(",")[0]: row for name, row in rows.items()}
    return {name: named[name] for name in JUDGED}


def without_links(found: MeasuredPopulation) -> MeasuredPopulation:
    freed = (replace(device, latency_s=0.0, bytes_per_s=None) for device in found.devices)
    return replace(found, devices=tuple(freed))


def study_of(name: str, place: Path, rounds: int) -> RealStudy:
    algorithm = getattr(algorithms, name)(client_lr=0.1, steps=4, batch_size=10, **STUDY[name])
    return RealStudy(place, algorithm, rounds, SEED, client=CLIENT, step_s=STEP_S)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The clients are threads of one process, and whichever trains first compiles for all of them."""
    study_of("fedavg", tmp_path_factory.mktemp("compiled") / "study", 1).run()


@pytest.mark.long
@pytest.mark.parametrize("name", STUDY)
def test_a_single_run_on_digits_is_predicted_within_15_percent(
    name: str, tmp_path: Path, compiled: None
) -> None:
    """One real run, and devices measured in it; the same devices with links that cost nothing fail."""
    study = study_of(name, tmp_path / "study", STEPS)
    found = study.run()
    rows = judged(study.predicted(found, found, REPEATS))
    print(name, SEED, *(f"{row.name}: {row.real:.4g} ({100 * off(row):+.1f} %)" for row in rows.values()))
    assert rows["accuracy"].real is not None and rows["accuracy"].real > 3 * CHANCE
    for row in rows.values():
        assert abs(off(row)) <= 0.15, (row, found.devices)
    freed = judged(study.predicted(without_links(found), found, 1))
    assert off(freed["steps per minute"]) > 0.15
