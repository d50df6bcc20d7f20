"""FedNova under client sampling: consistent if and only if tau_eff does not depend on who was drawn.

Centres 1, 2, 6 with shares .5, .3, .2 and K = 1, 2, 20: the optimum is 2.30, plain averaging goes to 4.97.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace import algorithms, tasks
from fedpace.aggregate import Normalised, PerStep
from fedpace.aggregate.expected import expected_work
from fedpace.algorithm import Algorithm
from fedpace.local import SGD
from fedpace.pace import Arrivals, Buffered, Replayed, Rounds, selection
from fedpace.theory.sampling import OWN_K, OWN_TAU, UNKNOWN, WEIGHTS, note

STEPS, SHARES = [1, 2, 20], [0.5, 0.3, 0.2]
TASK = tasks.quadratics([1.0, 2.0, 6.0], weights=SHARES)
BY_SHARE = {"select": "share", "weighting": "uniform"}


def fednova(q: int | None, **more: Any) -> Algorithm:
    return algorithms.fednova(client_lr=0.01, steps=STEPS, batch_size=None, clients_per_round=q, **more)


def models(algorithm: Algorithm, rounds: int, seed: int = 0) -> np.ndarray[Any, Any]:
    run = fedpace.simulate(
        algorithm, TASK, rounds=rounds, seed=seed, keep_models=True, evaluate_every=None, traces=False
    )
    assert run.models is not None
    return np.array([x[0] for x in run.models])


def test_one_client_per_round_ends_at_the_optimum() -> None:
    """6,000 rounds of one client each, drawn by share: the mean of the last 4,000 within 0.1 of 2.30."""
    assert models(fednova(1, **BY_SHARE), 6000)[2000:].mean() == pytest.approx(2.30, abs=0.1)


def test_the_listings_tau_eff_with_one_client_is_fedavg_to_the_bit() -> None:
    """And so goes to 4.97, 2.67 from the optimum."""
    plain = algorithms.fedavg(
        client_lr=0.01, steps=STEPS, batch_size=None, clients_per_round=1, select="share", weighting="uniform"
    )
    assert models(fednova(1, tau_eff="sampled", **BY_SHARE), 200).tolist() == models(plain, 200).tolist()


def expected_step(rule: Normalised, x: float, q: int, select: str) -> float:
    """E[Delta] of one round from x, over every draw there is; local steps in closed form."""
    local, total = SGD(0.01, steps=STEPS), 0.0
    rule = rule.settled(lambda: expected_work(local, Rounds(q, selection(select)), 3, TASK.samples))
    draws = list(itertools.product(range(3), repeat=q))
    for chosen in draws:
        chance = np.prod([SHARES[i] for i in chosen]) if select == "share" else 1 / len(draws)
        total += chance * float(aggregate(rule, chosen, x))
    return total


def aggregate(rule: Normalised, chosen: tuple[int, ...], x: float) -> float:
    from fedpace.aggregate.protocol import Contribution

    state = rule.init(np.zeros(1), 3)
    for i in chosen:
        delta = (1 - 0.99 ** STEPS[i]) * (TASK.centers[i] - x)
        update = Contribution(i, delta, samples=SHARES[i], steps=STEPS[i], a_norm1=float(STEPS[i]))
        state = rule.add(update, np.zeros(1), np.zeros(1), state)
    return float(rule.result(state)[0][0])


@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize(
    ("select", "weighting"), [("share", "uniform"), ("replacement", "samples"), ("replacement", "uniform")]
)
def test_sampled_rounds_are_full_rounds_in_expectation(q: int, select: str, weighting: str) -> None:
    """E[Delta] = tau_eff sum p_i delta_i / A_i exactly, for the pairs that are consistent; p uniform for the last."""
    p = np.array(SHARES if (select, weighting) != ("replacement", "uniform") else [1 / 3] * 3)
    x, a = 0.7, np.array(STEPS, dtype=float)
    mean = (1 - 0.99**a) * (TASK.centers[:, 0] - x) / a
    full = (p @ a) * (p @ mean)
    assert expected_step(Normalised("population", weighting), x, q, select) == pytest.approx(full, rel=1e-12)
    if q < 3:
        assert expected_step(Normalised("sampled", weighting), x, q, select) != pytest.approx(full, rel=0.05)


@pytest.mark.parametrize("more", [{}, {"weighting": "uniform"}, {"momentum": 0.9}])
@pytest.mark.parametrize("name", ["fednova", "fednova_vr"])
def test_where_all_clients_take_part_nothing_has_changed(name: str, more: dict[str, Any]) -> None:
    """To the bit, also with work drawn anew in every round."""
    work = {"client_lr": 0.01, "epochs": (1, 4), "batch_size": 1, **more}
    make = getattr(algorithms, name)
    task = tasks.quadratics([1.0, 2.0, 6.0], weights=[5.0, 3.0, 2.0])
    for q in (None, 3):
        runs = [
            fedpace.simulate(
                make(tau_eff=tau, clients_per_round=q, **work), task, rounds=20, evaluate_every=None
            )
            for tau in ("population", "sampled")
        ]
        assert runs[0].model.tolist() == runs[1].model.tolist()


def settled(algorithm: Algorithm, samples: list[float]) -> Any:
    task = tasks.quadratics(np.zeros(len(samples)), weights=samples)
    return algorithm.bound(task.layout, task.clients, task.samples).aggregate


def test_the_populations_tau_eff() -> None:
    """5.1 = .5 + .6 + 4 by share, 23/3 for a uniform objective; by samples with the mean sample count."""
    assert settled(fednova(1, **BY_SHARE), SHARES) == Normalised(5.1, "uniform")
    assert settled(fednova(2, weighting="uniform"), SHARES) == Normalised(23 / 3, "uniform")
    found = settled(fednova(2), [50, 30, 20])
    assert (found.tau_eff, found.member_weight) == pytest.approx((5.1, 100 / 3), rel=1e-12)


def test_random_steps_count_by_their_expectation() -> None:
    """Epochs 2..5 of batches of 20: E||a||_1 is 3.5 passes for plain steps, the mean over draws for others."""
    sizes = [400.0, 200.0, 100.0, 100.0]
    drawn = {"client_lr": 0.1, "epochs": (2, 5), "batch_size": 20, "clients_per_round": 1}
    assert settled(algorithms.fednova(**drawn), sizes).tau_eff == pytest.approx(3.5 * 13.75, rel=1e-12)
    rule = SGD(0.1, steps=1, momentum=0.9)
    mean = [np.mean([rule.a_norm1(e * int(n / 20)) for e in range(2, 6)]) for n in sizes]
    found = settled(algorithms.fednova(momentum=0.9, **drawn), sizes)
    assert found.tau_eff == pytest.approx(np.dot(sizes, mean) / 800, rel=1e-12)


def test_clients_with_as_much_data_are_looked_at_once() -> None:
    """A hundred thousand clients of two sizes: two questions about work, and every client's own answer."""

    class Asked(SGD):
        asked: list[int] = []

        def outcomes(self, client: int, samples: float) -> tuple[int, ...] | None:
            self.asked.append(client)
            return super().outcomes(client, samples)

    local = Asked(0.1, epochs=2, batch_size=10)
    work = expected_work(local, Rounds(1), 100_000, lambda client: 10.0 if client % 2 else 30.0)
    assert work is not None
    assert sorted(Asked.asked) == [0, 1]
    assert work.steps[:4].tolist() == [6, 2, 6, 2]


def test_scripted_steps_count_by_their_mean_over_the_rounds() -> None:
    scripted = algorithms.fednova(
        client_lr=0.1, steps=[[1, 2], [3, 6]], clients_per_round=1, weighting="uniform"
    )
    assert settled(scripted, [1.0, 1.0]) == Normalised(3.0, "uniform")


def test_work_that_the_clock_decides_stays_that_of_the_sampled() -> None:
    local = SGD(0.1, seconds=1.0)
    algorithm = Algorithm(local=local, pace=Rounds(1), aggregate=Normalised())
    assert settled(algorithm, SHARES) == Normalised()
    assert local.outcomes(0, 10.0) is None
    assert SGD(0.1, steps=(1, 2)).outcomes(2, 1.0) is None


def test_the_reference_steps_of_autonomous_clients() -> None:
    """k_ref="mean" is the clients' mean, whoever arrives; of the arrived where all take part."""
    work = {"client_lr": 0.1, "steps": [1, 2, 9], "k_ref": "mean"}
    assert settled(algorithms.autonomous_fedgm(buffer=1, concurrency=2, **work), SHARES) == PerStep(4.0)
    assert settled(algorithms.autonomous_fedgm(history=3, clients_per_round=2, **work), SHARES) == PerStep(
        4.0
    )
    assert settled(algorithms.autonomous_fedgm(history=3, **work), SHARES) == PerStep("mean")
    by_share = algorithms.autonomous_fedgm(history=3, clients_per_round=1, select="share", **work)
    assert settled(by_share, SHARES) == PerStep(0.5 + 0.6 + 1.8)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (BY_SHARE, None),
        ({"weighting": "samples"}, None),
        ({"weighting": "uniform"}, None),
        ({"tau_eff": 5.1, **BY_SHARE}, None),
        ({"tau_eff": "sampled", **BY_SHARE}, OWN_TAU),
        ({"tau_eff": "steps"}, OWN_TAU),
        ({"tau_eff": 5.1}, WEIGHTS),
        ({"select": [[0, 1]] * 9}, WEIGHTS),
    ],
)
def test_what_is_not_consistent_is_said(more: dict[str, Any], said: str | None) -> None:
    assert note(fednova(2, **more), 3, TASK.samples) == said
    assert note(fednova(3, **{**more, "select": "uniform"}), 3, TASK.samples) is None


def test_unknown_work_is_said_too() -> None:
    clock = SGD(0.1, seconds=1.0)
    nova = Algorithm(local=clock, pace=Rounds(1), aggregate=Normalised())
    autonomous = Algorithm(local=clock, pace=Buffered(1, 2), aggregate=PerStep("mean"))
    assert note(nova, 3, TASK.samples) == UNKNOWN
    assert note(autonomous, 3, TASK.samples) == OWN_K
    assert note(Algorithm(local=clock, pace=Arrivals(1)), 3, TASK.samples) is None
    assert note(Algorithm(local=clock, pace=Replayed(2), aggregate=PerStep("mean")), 3, TASK.samples) is None


def test_variance_reduction_with_a_proximal_pull_ends_at_the_optimum() -> None:
    algorithm = algorithms.fednova_vr(client_lr=0.05, steps=STEPS, batch_size=None, prox_mu=1.0, tau_eff=2.0)
    run = fedpace.simulate(algorithm, TASK, rounds=400, evaluate_every=None)
    assert float(run.model[0]) == pytest.approx(2.30, abs=1e-9)
