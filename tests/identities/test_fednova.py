"""Wang et al., "Tackling the Objective Inconsistency Problem", arXiv:2007.07481: equations as tests.

Clients are quadratics F_i = x' H_i x / 2 - e_i' x, so that every limit has a closed form.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpace.aggregate import Aggregator, Contribution, Normalised, Weighted
from fedpace.local import SGD, Correction, Scaffold, VarianceReduced, descend
from fedpace.server_opt import Momentum, ServerOpt
from fedpace.theory import Work
from fedpace.vector import Vector


@dataclass(frozen=True)
class Client:
    h: Vector
    e: Vector
    steps: int
    share: float = 1.0

    def gradient(self, y: Vector, k: int = 0) -> Vector:
        return np.asarray(self.h @ y - self.e)


def scalars(e: Sequence[float], steps: Sequence[int]) -> list[Client]:
    return [Client(np.eye(1), np.array([c]), k) for c, k in zip(e, steps, strict=True)]


def plane(steps: Sequence[int] = (2, 5, 9)) -> list[Client]:
    """The three clients of N2."""
    hs = [[[2, 0.5], [0.5, 1]], [[1, -0.2], [-0.2, 3]], [[1.5, 0], [0, 0.5]]]
    es, shares = [[1, 0], [0, 2], [-1, 1]], (0.5, 0.3, 0.2)
    return [
        Client(np.array(h), np.array(e, float), k, p)
        for h, e, k, p in zip(hs, es, steps, shares, strict=True)
    ]


def contribution(number: int, client: Client, x: Vector, local: SGD) -> Contribution:
    delta = descend(client.gradient, x, local, client.steps)
    return Contribution(
        number, delta, samples=client.share, steps=client.steps, a_norm1=local.a_norm1(client.steps)
    )


def run(
    clients: list[Client],
    local: SGD,
    aggregate: Aggregator,
    rounds: int,
    opt: ServerOpt | None = None,
    measure: Callable[[int, Client, Vector, SGD], Contribution] = contribution,
) -> Vector:
    opt = Momentum() if opt is None else opt
    x = np.zeros(len(clients[0].e))
    state = opt.init(x)
    for _ in range(rounds):
        total = aggregate.init(x, len(clients))
        for number, client in enumerate(clients):
            total = aggregate.add(measure(number, client, x, local), x, x, total)
        x, state = opt.apply(x, aggregate.result(total)[0], state)
    return x


def optimum(clients: list[Client], weights: Sequence[float] | None = None) -> Vector:
    w = [client.share for client in clients] if weights is None else weights
    h = sum(wi * client.h for wi, client in zip(w, clients, strict=True))
    return np.linalg.solve(h, sum(wi * client.e for wi, client in zip(w, clients, strict=True)))


def contraction(client: Client, lr: float, mu: float = 0.0) -> Vector:
    """Q_i of eq. (28): one session moves by Q_i (e_i - H_i x)."""
    eye = np.eye(len(client.e))
    left = np.linalg.matrix_power(eye - lr * mu * eye - lr * client.h, client.steps)
    return np.asarray((eye - left) @ np.linalg.inv(client.h + mu * eye))


def limit(clients: list[Client], local: SGD, normalised: bool) -> Vector:
    """Lemma 1: where averaging stops, (sum p Q H)^-1 sum p Q e; FedNova with p / ||a||_1 for p."""
    qs = [contraction(client, local.lr, local.prox_mu) for client in clients]
    p = [c.share / (local.a_norm1(c.steps) if normalised else 1.0) for c in clients]
    h = sum(pi * q @ c.h for pi, q, c in zip(p, qs, clients, strict=True))
    return np.linalg.solve(h, sum(pi * q @ c.e for pi, q, c in zip(p, qs, clients, strict=True)))


# ---------------------------------------------------------------- N1: Lemma 1 in one dimension

N1 = scalars((1, 2, 6), (1, 2, 5))


@pytest.mark.parametrize(
    ("lr", "fedavg", "fednova"),
    [
        (0.1, 4.198739117382, 2.821980339615),
        (0.01, 4.357621569450, 2.981714502471),
        (0.001, 4.373265272151, 2.998167139504),
    ],
)
def test_lemma_1_scalar_limits(lr: float, fedavg: float, fednova: float) -> None:
    """N1: the optimum is 3; FedAvg goes to 4.375 with the rate, FedNova to 3."""
    local = SGD(lr, steps=1)
    np.testing.assert_allclose(limit(N1, local, False), fedavg, rtol=1e-11)
    np.testing.assert_allclose(limit(N1, local, True), fednova, rtol=1e-11)


@pytest.mark.parametrize("tau_eff", ["default", "steps", 1.0, 3.5])
def test_fednovas_limit_does_not_depend_on_tau_eff(tau_eff: str | float) -> None:
    found = run(N1, SGD(0.1, steps=1), Normalised(tau_eff), 400)
    np.testing.assert_allclose(found, 2.821980339615, rtol=1e-11)


def test_fedavgs_limit_is_reached() -> None:
    np.testing.assert_allclose(run(N1, SGD(0.1, steps=1), Weighted(), 200), 4.198739117382, rtol=1e-11)


# ---------------------------------------------------------------- N2: general H_i, p, mu

FIRST_ROUND = {
    0.0: ((-0.004517057829, 0.311950405710), (0.151374407375, 0.208521591998)),
    1.0: ((0.017344598902, 0.238423403429), (0.116425034433, 0.167539431909)),
}
LIMITS = {
    0.0: ((-0.059307074622, 0.752806335074), (0.208187737306, 0.425152817417)),
    1.0: ((-0.007414527859, 0.687626101930), (0.199767347580, 0.431072508607)),
}


@pytest.mark.parametrize("mu", [0.0, 1.0])
@pytest.mark.parametrize("normalised", [False, True])
def test_lemma_1_general(mu: float, normalised: bool) -> None:
    """N2: first round and limit of FedAvg / FedProx and FedNova, simulated and in closed form."""
    local, aggregate = SGD(0.1, steps=1, prox_mu=mu), Normalised() if normalised else Weighted()
    first, last = FIRST_ROUND[mu][normalised], LIMITS[mu][normalised]
    np.testing.assert_allclose(run(plane(), local, aggregate, 1), first, atol=1e-12)
    np.testing.assert_allclose(run(plane(), local, aggregate, 120), last, atol=1e-12)
    np.testing.assert_allclose(limit(plane(), local, normalised), last, atol=1e-12)


def test_optimum_and_surrogate() -> None:
    """N2: x*, and the optimum of sum w_i F_i that FedAvg nears as the rate falls."""
    clients, work = plane(), Work.of(SGD(0.1, steps=1), (2, 5, 9), (0.5, 0.3, 0.2))
    np.testing.assert_allclose(optimum(clients), (0.126062862219, 0.517365370786), atol=1e-12)
    surrogate = optimum(clients, work.w)
    np.testing.assert_allclose(surrogate, (-0.153380423814, 0.754793138244), atol=1e-12)
    near = limit(clients, SGD(1e-5, steps=1), False)
    np.testing.assert_allclose(near, surrogate, atol=1e-3)


def test_fednovas_bias_halves_with_the_rate() -> None:
    """N2: the distance to x* is O(lr)."""
    clients = plane()
    distances = [
        float(np.linalg.norm(limit(clients, SGD(lr, steps=1), True) - optimum(clients)))
        for lr in (0.1, 0.05, 0.025, 0.0125)
    ]
    np.testing.assert_allclose(distances, (0.123481, 0.062176, 0.031102, 0.015547), atol=5e-7)


def test_tau_eff_by_steps() -> None:
    """N13: with mu = 1 the first round grows by sum p K / sum p ||a||_1."""
    found = run(plane(), SGD(0.1, steps=1, prox_mu=1.0), Normalised("steps"), 1)
    np.testing.assert_allclose(found, (0.147083838984, 0.211658454270), atol=1e-12)


def test_server_momentum_does_not_move_the_fixed_point() -> None:
    """G13: h = 0 if and only if D = 0."""
    found = run(plane(), SGD(0.1, steps=1), Weighted(), 600, Momentum(1.5, 0.9, 0.7))
    np.testing.assert_allclose(found, LIMITS[0.0][0], atol=1e-12)


# ---------------------------------------------------------------- N5, N6, N7


def test_the_bound_on_inconsistency_is_tight() -> None:
    """N5: two quadratics at 3 and -3, K = (1, 4): ||grad F||^2 at FedAvg's limit is chi^2 kappa^2."""
    work = Work.of(SGD(0.1, steps=1), (1, 4))
    assert work.chi2 == pytest.approx(0.5625, rel=1e-12)
    kappa2 = 4 * work.w[0] * work.w[1] * 9
    assert kappa2 == pytest.approx(5.76, rel=1e-12)
    stop = float(limit(scalars((3, -3), (1, 4)), SGD(1e-9, steps=1), False)[0])
    assert stop == pytest.approx(-1.8, rel=1e-7)
    assert stop**2 == pytest.approx(work.chi2 * kappa2, rel=1e-7)


@given(seed=st.integers(0, 2**32 - 1))
def test_averaging_is_a_normalised_step_on_the_surrogate(seed: int) -> None:
    """N6, exact: sum p delta = tau_eff sum w delta / ||a||_1."""
    rng = np.random.default_rng(seed)
    deltas, steps = rng.normal(size=(4, 3)), rng.integers(1, 9, size=4).tolist()
    work = Work.of(SGD(0.1, steps=1, momentum=0.9), steps, rng.uniform(0.1, 1, size=4).tolist())
    surrogate = work.tau_eff * (work.w / work.norm1) @ deltas
    np.testing.assert_allclose(work.p @ deltas, surrogate, atol=1e-13)


P, Z, A = np.array([0.5, 0.3, 0.2]), np.array([1.0, 4.0, -2.0]), np.array([2.0, 5.0, 9.0])


def sampled(aggregate: Aggregator, chosen: Sequence[int], samples: bool) -> float:
    """The aggregate of updates ||a_i||_1 z_i, i in `chosen` with multiplicity."""
    x = np.zeros(1)
    state = aggregate.init(x, 3)
    for i in chosen:
        update = Contribution(i, np.array([A[i] * Z[i]]), samples=P[i] if samples else 1.0, a_norm1=A[i])
        state = aggregate.add(update, x, x, state)
    return float(aggregate.result(state)[0][0])


def test_draws_by_share_with_a_plain_mean_are_unbiased() -> None:
    """N7, scheme A: E = 1.3 and variance 2.205 for q = 2 and a tau_eff that does not depend on the draw."""
    rule = Normalised(tau_eff=1.0, weighting="uniform")
    pairs = list(itertools.product(range(3), repeat=2))
    chance = [P[i] * P[j] for i, j in pairs]
    values = [sampled(rule, pair, False) for pair in pairs]
    mean = np.dot(chance, values)
    assert mean == pytest.approx(1.3, rel=1e-12)
    assert np.dot(chance, np.square(values)) - mean**2 == pytest.approx(2.205, rel=1e-12)


def test_tau_eff_of_the_draw_is_correlated_with_it() -> None:
    """N7: E[tau_eff mean] = 4.495, where tau_eff and mean apart give 4.3 * 1.3 = 5.59."""
    rule = Normalised(weighting="uniform")
    values = {pair: sampled(rule, pair, False) for pair in itertools.product(range(3), repeat=2)}
    assert sum(P[i] * P[j] * v for (i, j), v in values.items()) == pytest.approx(4.495, rel=1e-12)


def test_subsets_weighed_by_share_are_a_ratio_estimator() -> None:
    """N7, scheme B: values 2.125, 1/7, 1.6 over the three pairs, mean 1.289285714 against 1.3."""
    pairs = list(itertools.combinations(range(3), 2))
    values = [sampled(Normalised(tau_eff=1.0), pair, True) for pair in pairs]
    np.testing.assert_allclose(values, (2.125, 1 / 7, 1.6), rtol=1e-12)
    assert np.mean(values) == pytest.approx(1.289285714, rel=1e-9)


def test_tau_eff_is_that_of_those_who_came() -> None:
    """N7: 3.125, 4, 6.6 for the three pairs: renormalised over the members, sum p A / sum p."""
    pairs = list(itertools.combinations(range(3), 2))
    found = [
        sampled(Normalised(), pair, True) / sampled(Normalised(tau_eff=1.0), pair, True) for pair in pairs
    ]
    np.testing.assert_allclose(found, (3.125, 4, 6.6), rtol=1e-12)


# ---------------------------------------------------------------- N8: variance reduction


def run_corrected(
    correction: Correction, local: SGD, rounds: int, clients: list[Client] | None = None
) -> tuple[list[Vector], dict[int, Vector], Vector]:
    """FedNova with a correction, full participation: models after each round, memories, what is broadcast."""
    clients = plane() if clients is None else clients
    x = np.zeros(2)
    state, memory, models = correction.init(x, len(clients)), {}, []
    for _ in range(rounds):
        nova, control = Normalised(), correction.broadcast(state)
        total = nova.init(x, len(clients))
        for number, client in enumerate(clients):
            added = correction.before(memory.get(number), control)
            norm1 = local.a_norm1(client.steps)
            delta = descend(client.gradient, x, local, client.steps, added)
            sent, memory[number] = correction.after(memory.get(number), added, delta, norm1, local.lr)
            update = Contribution(number, delta, samples=client.share, steps=client.steps, a_norm1=norm1)
            total = nova.add(update, x, x, total)
            state = correction.fold(update, sent, state)
        x = x + nova.result(total)[0]
        state = correction.stepped(state)
        models.append(x)
    return models, memory, correction.broadcast(state)


@pytest.mark.parametrize(
    ("accumulate", "third"),
    [(True, (0.120646495273, 0.323045854234)), (False, (0.132730749618, 0.308062058802))],
)
def test_first_rounds_of_variance_reduction(accumulate: bool, third: tuple[float, float]) -> None:
    """N8: rounds 1 and 2 are the same for both rules, round 3 tells them apart."""
    models, _, _ = run_corrected(VarianceReduced(accumulate), SGD(0.05, steps=1), 3)
    np.testing.assert_allclose(models[0], (0.072108097113, 0.133302099170), atol=1e-12)
    np.testing.assert_allclose(models[1], (0.104291625068, 0.243031125319), atol=1e-12)
    np.testing.assert_allclose(models[2], third, atol=1e-12)


@pytest.mark.parametrize(("rho", "lr"), [(0.0, 0.05), (0.9, 0.01)])
def test_accumulated_corrections_reach_the_optimum_at_a_finite_rate(rho: float, lr: float) -> None:
    """N8: x*, and c_i = -grad F_i(x*) there."""
    clients, local = plane(), SGD(lr, steps=1, momentum=rho)
    models, memory, control = run_corrected(VarianceReduced(), local, 500)
    np.testing.assert_allclose(models[-1], optimum(clients), atol=1e-13)
    for number, client in enumerate(clients):
        np.testing.assert_allclose(control - memory[number], -client.gradient(optimum(clients)), atol=1e-12)


def test_the_printed_rule_stops_elsewhere() -> None:
    """N8: half of the correction, hence (0.149958535252, 0.494491780019)."""
    models, _, _ = run_corrected(VarianceReduced(accumulate=False), SGD(0.05, steps=1), 1000)
    np.testing.assert_allclose(models[-1], (0.149958535252, 0.494491780019), atol=1e-11)


@pytest.mark.parametrize("accumulate", [True, False])
def test_corrections_sum_to_zero(accumulate: bool) -> None:
    clients = plane()
    _, memory, control = run_corrected(VarianceReduced(accumulate), SGD(0.05, steps=1), 7)
    total = sum(client.share * (control - memory[i]) for i, client in enumerate(clients))
    np.testing.assert_allclose(total, 0, atol=1e-14)


def test_scaffold_reaches_the_optimum_and_keeps_the_mean() -> None:
    """SCAFFOLD, uniform shares and equal work: exact at a finite rate, mean of c_i = c."""
    clients = [replace(client, share=1.0) for client in plane((5, 5, 5))]
    models, memory, control = run_corrected(Scaffold(), SGD(0.05, steps=1), 400, clients)
    np.testing.assert_allclose(models[-1], optimum(clients), atol=1e-13)
    np.testing.assert_allclose(np.mean(list(memory.values()), axis=0), control, atol=1e-14)


# ---------------------------------------------------------------- N10, N11, N12


@pytest.mark.parametrize("normalised", [False, True])
def test_one_step_each_is_exact(normalised: bool) -> None:
    """N10: K_i = 1 for all is gradient descent."""
    found = limit(plane((1, 1, 1)), SGD(0.1, steps=1), normalised)
    np.testing.assert_allclose(found, optimum(plane()), atol=1e-14)


def test_equal_work_leaves_client_drift() -> None:
    """N10: K = 5 for all; FedAvg = FedNova, 0.0477 away from x*, which normalising cannot remove."""
    clients, local = plane((5, 5, 5)), SGD(0.1, steps=1)
    for aggregate in (Weighted(), Normalised()):
        found = run(clients, local, aggregate, 100)
        np.testing.assert_allclose(found, (0.138015707207, 0.471198559626), atol=1e-12)
    assert np.linalg.norm(found - optimum(clients)) == pytest.approx(0.0477, abs=5e-5)


def test_same_curvature_and_work_are_exact() -> None:
    clients = [replace(client, h=plane()[0].h, steps=5) for client in plane()]
    np.testing.assert_allclose(limit(clients, SGD(0.1, steps=1), False), optimum(clients), atol=1e-14)


@pytest.mark.parametrize(
    ("aggregate", "expected"), [(Weighted(), 4.942405004875), (Normalised(), 2.887719860066)]
)
def test_local_momentum_limits(aggregate: Aggregator, expected: float) -> None:
    """N11: e = (1, 2, 6), K = (1, 2, 5), lr 0.05, rho 0.9."""
    found = run(N1, SGD(0.05, steps=1, momentum=0.9), aggregate, 400)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def by_steps(number: int, client: Client, x: Vector, local: SGD) -> Contribution:
    """Broken on purpose: K stands where ||a||_1 belongs."""
    right = contribution(number, client, x, local)
    return replace(right, a_norm1=float(right.steps))


@pytest.mark.parametrize(("measure", "expected"), [(contribution, 3.0), (by_steps, 3.873521802308)])
def test_normalising_by_steps_is_biased(
    measure: Callable[[int, Client, Vector, SGD], Contribution], expected: float
) -> None:
    """N12: with momentum 0.9 and a rate near 0 the right normaliser ends at x* = 3, the wrong one does not."""
    local = SGD(1e-6, steps=1, momentum=0.9)
    found = run(N1, local, Normalised(tau_eff=1e5), 800, measure=measure)
    np.testing.assert_allclose(found, expected, atol=1e-4)


# ---------------------------------------------------------------- properties

_work = st.lists(st.tuples(st.integers(1, 9), st.floats(0.1, 5), st.floats(-3, 3)), min_size=1, max_size=6)


def aggregated(rule: Aggregator, entries: list[tuple[int, float, float]], equal: bool = False) -> float:
    x = np.zeros(1)
    state = rule.init(x, len(entries))
    for i, (steps, samples, delta) in enumerate(entries):
        norm1 = 7.3 if equal else float(steps)
        update = Contribution(i, np.array([delta]), samples=samples, steps=steps, a_norm1=norm1)
        state = rule.add(update, x, x, state)
    return float(rule.result(state)[0][0])


@given(entries=_work)
def test_equal_norms_make_fednova_fedavg_bit_for_bit(entries: list[tuple[int, float, float]]) -> None:
    assert aggregated(Normalised(), entries, equal=True) == aggregated(Weighted(), entries)


@given(entries=_work, seed=st.integers(0, 99))
def test_the_order_of_clients_does_not_matter(entries: list[tuple[int, float, float]], seed: int) -> None:
    shuffled = [entries[i] for i in np.random.default_rng(seed).permutation(len(entries))]
    assert aggregated(Normalised(), shuffled) == pytest.approx(aggregated(Normalised(), entries), abs=1e-12)


@given(entries=_work, factor=st.floats(0.01, 100))
def test_only_relative_shares_matter(entries: list[tuple[int, float, float]], factor: float) -> None:
    scaled = [(steps, factor * samples, delta) for steps, samples, delta in entries]
    assert aggregated(Normalised(), scaled) == pytest.approx(aggregated(Normalised(), entries), abs=1e-12)
