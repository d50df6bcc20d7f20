"""What a broadcast costs: its bytes to every client that is present, whoever takes the model out."""

from __future__ import annotations

from dataclasses import replace

import pytest

import fedpace
from fedpace import algorithms
from fedpace.record import Run
from fedpace.sim import Population

CLIENTS, ROUNDS = 4, 6
UNEQUAL = Population.from_times([1.0, 2.0, 3.0, 7.0], up_s=0.5, down_s=0.25)


def run(mode: str = "serial", population: Population = UNEQUAL) -> Run:
    task = fedpace.tasks.quadratics([1.0, 2.0, 3.0, 6.0])
    rule = algorithms.defedavg_iid(buffer=2, steps=1, batch_size=None, client_lr=0.1)
    return fedpace.simulate(rule, task, replace(population, mode=mode), rounds=ROUNDS, evaluate_every=None)


@pytest.mark.parametrize("mode", ["serial", "overlap"])
def test_a_broadcast_costs_its_bytes_to_every_receiver_in_both_modes(mode: str) -> None:
    """One before each step, dense as the updates are: clients x the bytes of one update."""
    made = run(mode)
    update = made.history[0].bytes_up // 2
    assert [record.bytes_down for record in made.history] == [CLIENTS * update] * ROUNDS


def test_a_client_that_was_away_pays_for_the_model_it_fetches() -> None:
    """Client 3 comes at 4 s: broadcasts until then have three receivers, and it fetches the newest itself."""
    windows = [(client, 0.0, 1e9) for client in range(3)] + [(3, 4.0, 1e9)]
    made = run(population=UNEQUAL.with_windows(windows))
    update = made.history[0].bytes_up // 2
    early = [record for record in made.history if record.virtual_seconds < 4.0]
    assert early and all(record.bytes_down == 3 * update for record in early)
    late = sum(record.bytes_down for record in made.history[len(early) :])
    assert late == (3 + 1) * update + 4 * update * (ROUNDS - len(early) - 1)
