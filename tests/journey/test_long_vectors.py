"""Long vectors are their own frames, and steps are taken over what they spend: no bit of any run depends on it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.deploy.deployed import CLIENTS, VARIANTS

import fedpace
from fedpace import Algorithm, Run, algorithms
from fedpace.aggregate import CenteredClip, GeometricMedian, Median
from fedpace.kernels import memory
from fedpace.link.wire import frame
from fedpace.server_opt import AMSGrad, Momentum, Stages
from fedpace.server_opt.moments import AdaptiveServer

RULES: dict[str, Algorithm] = VARIANTS | {
    f"fedams, {type(rule).__name__}": replace(algorithms.fedams(clients_per_round=4), aggregate=rule)
    for rule in (Median(), GeometricMedian(), CenteredClip(1.0))
}


def ran(algorithm: Algorithm) -> Run:
    task = fedpace.tasks.load("digits", clients=CLIENTS, model="softmax")
    return fedpace.simulate(algorithm, task, rounds=6, seed=1, compute="inline")


@pytest.fixture
def everything_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedpace.kernels.LONG", 1)
    monkeypatch.setattr(memory, "LONG_BYTES", 1)


@pytest.mark.usefixtures("everything_is_long")
@pytest.mark.parametrize("name", RULES)
def test_runs_have_the_bits_of_those_that_copy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = ran(RULES[name])
    monkeypatch.setattr(frame, "framed", lambda v, head: None)
    for rule in (AMSGrad, AdaptiveServer, Momentum, Stages):
        monkeypatch.delattr(rule, "spend")
    copied = ran(RULES[name])
    assert spent.model.tobytes() == copied.model.tobytes()
    assert [step.metrics for step in spent.history] == [step.metrics for step in copied.history]
