"""A run that diverges names the learning rate that did it."""

from __future__ import annotations

import pytest

import fedpace
from fedpace.algorithms import fedadam, fedavg, fedgm
from fedpace.errors import DivergedError

# exact tasks warn of what they compute
pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
QUADRATICS = fedpace.tasks.quadratics([4, 8, 16], [2, 2, 2])  # 1 - lr h, once a step


def diverged(algorithm, task=QUADRATICS, rounds=5000) -> DivergedError:
    with pytest.raises(DivergedError) as caught:
        fedpace.simulate(algorithm, task, rounds=rounds, evaluate_every=None)
    assert caught.value.run is not None
    return caught.value


def test_a_huge_server_rate_is_named_although_it_is_the_updates_that_are_not_finite():
    task = fedpace.tasks.load("digits", clients=5)
    error = diverged(fedgm(client_lr=0.1, steps=2, server_lr=1e30), task, rounds=20)
    assert "updates were not finite" in str(error)
    assert str(error).endswith("; lower server_lr (1e+30): local training alone stays finite")


def test_a_huge_client_rate_is_named_whatever_the_server_does():
    task = fedpace.tasks.load("digits", clients=5)
    error = diverged(fedgm(client_lr=1e30, steps=2, server_lr=3.0), task, rounds=20)
    assert error.advice == "lower client_lr (1e+30): local training alone diverges"


def test_rates_just_beyond_the_stable_ones():
    """1 - lr h = -1.5: local training grows by half with every step. 1 - lr h = 1/2: the server overshoots."""
    error = diverged(fedgm(client_lr=1.25, steps=4, server_lr=2.0, beta=0.0, nu=0.0))
    assert error.advice == "lower client_lr (1.25): local training alone diverges"
    error = diverged(fedgm(client_lr=0.25, steps=4, server_lr=3.0, beta=0.0, nu=0.0))
    assert error.advice == "lower server_lr (3): local training alone stays finite"


def test_plain_averaging_has_one_rate_to_lower():
    error = diverged(fedavg(client_lr=2.0, steps=1))
    assert error.advice.startswith("lower client_lr (2)")


def test_the_rate_of_an_adaptive_server_is_named_too():
    task = fedpace.tasks.load("digits", clients=5)
    assert "server_lr (1e+38)" in diverged(fedadam(client_lr=0.1, steps=2, server_lr=1e38), task, 20).advice
