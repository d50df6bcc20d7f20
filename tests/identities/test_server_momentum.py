"""Sun et al., "On the Role of Server Momentum in Federated Learning", AAAI 2024: equations as tests.

The paper subtracts D = x - y; here delta = -D is added, so its updates enter with the sign changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedpace.aggregate import Contribution, Mean, Normalised
from fedpace.local import SGD, descend
from fedpace.server_opt import Momentum, ServerOpt, Stages
from fedpace.server_opt.momentum import MomentumState
from fedpace.server_opt.stages import StagesState
from fedpace.theory import multistage, w1
from fedpace.vector import Vector, freeze

GOLDEN_D = (1.0, 2.0, -1.0, 4.0)


def path(rule: ServerOpt, updates: Sequence[Any], x0: Any = 0.0) -> tuple[Vector, list[Any]]:
    """Models x_0 .. x_T and the states along them, for updates D in the paper's sign."""
    x = freeze(np.atleast_1d(np.asarray(x0, float)))
    state, models, states = rule.init(x), [x], []
    for update in updates:
        x, state = rule.apply(x, freeze(-np.atleast_1d(np.asarray(update, float))), state)
        models.append(freeze(x))
        states.append(state)
    return np.array(models), states


# ---------------------------------------------------------------- G1


@pytest.mark.parametrize(
    ("nu", "expected"),
    [
        (0.25, (10, 8.25, 4.625, 6.0625, -0.96875)),
        (0.0, (10, 8, 4, 6, -2)),
        (1.0, (10, 9, 6.5, 6.25, 2.125)),
        (0.5, (10, 8.5, 5.25, 6.125, 0.0625)),
    ],
)
def test_golden_trajectory(nu: float, expected: tuple[float, ...]) -> None:
    """G1: D = (1, 2, -1, 4), eta = 2, beta = 1/2, x_0 = 10; dyadic numbers, hence exact."""
    models, _ = path(Momentum(2.0, 0.5, nu), GOLDEN_D, 10.0)
    assert models[:, 0].tolist() == list(expected)


def test_golden_buffer_and_hidden_path() -> None:
    """G1: b_t, and z_t = x_t + W1 b_t (our sign) is exactly the nu = 0 path."""
    rule = Momentum(2.0, 0.5, 0.25)
    models, states = path(rule, GOLDEN_D, 10.0)
    b = [-float(state.b[0]) for state in states]
    assert b == [0.5, 1.25, 0.125, 2.0625]
    assert w1(rule) == 0.5
    z = models[1:, 0] - w1(rule) * np.array(b)
    assert z.tolist() == [8, 4, 6, -2]


# ---------------------------------------------------------------- G2

BETAS, NUS = (0.5, 0.5, 0.8, 0.8, 0.9), (0.7, 0.7, 0.6, 0.6, 0.5)


def changing(lr: float = 1.0) -> Stages:
    return Stages(tuple((1, Momentum(lr, beta, nu)) for beta, nu in zip(BETAS, NUS, strict=True)))


def test_weights_of_past_updates() -> None:
    """G2: with beta_t, nu_t changing every step, b_5 and h_5 weigh the updates by A_{4,j} and B_{4,j}."""
    models, states = path(changing(), np.eye(5), np.zeros(5))
    buffer, direction = -states[-1].inner.b, models[-2] - models[-1]
    np.testing.assert_allclose(buffer, (0.144, 0.288, 0.144, 0.18, 0.1), rtol=1e-12)
    np.testing.assert_allclose(direction, (0.072, 0.144, 0.072, 0.09, 0.55), rtol=1e-12)
    assert buffer.sum() == pytest.approx(1 - np.prod(BETAS), rel=1e-12)
    assert direction.sum() == pytest.approx(1 - NUS[-1] * np.prod(BETAS), rel=1e-12)


# ---------------------------------------------------------------- G4

BORDER = Stages(((2, Momentum(2.0, 0.5, 0.5)), (2, Momentum(1.0, 2 / 3, 0.5))))


def test_buffer_is_carried_over_a_border() -> None:
    """G4: W1 = 1 in both stages, so z_t = x_t - b_t (paper's sign) falls by eta_t at each step."""
    models, states = path(BORDER, np.ones(4))
    b = np.array([-float(state.inner.b[0]) for state in states])
    np.testing.assert_allclose(models[:, 0], (0, -1.5, -3.25, -25 / 6, -46 / 9), rtol=1e-12)
    np.testing.assert_allclose(b, (1 / 2, 3 / 4, 5 / 6, 8 / 9), rtol=1e-12)
    np.testing.assert_allclose(models[1:, 0] - b, (-2, -4, -5, -6), rtol=1e-12)


def test_a_border_that_changes_w1_moves_the_path() -> None:
    """G4: with beta held at 1/2, W1 drops to 1/2 and the invariant is lost."""
    models, _ = path(Stages(((2, Momentum(2.0, 0.5, 0.5)), (2, Momentum(1.0, 0.5, 0.5)))), np.ones(4))
    assert models[3:, 0].tolist() == [-4.1875, -5.15625]


@given(
    seed=st.integers(0, 2**32 - 1),
    lrs=st.lists(st.floats(0.1, 4), min_size=1, max_size=4),
    beta=st.floats(0, 0.98),
    nu=st.floats(0, 1),
    couple=st.sampled_from(["nu", "nag"]),
)
def test_hidden_path_is_plain_descent(
    seed: int, lrs: list[float], beta: float, nu: float, couple: str
) -> None:
    """z_T = x_0 - sum eta_t D_t for every schedule with constant W1 and any updates."""
    lrs = sorted(lrs, reverse=True)
    stages = multistage(lrs, 40 * len(lrs), beta, nu if couple == "nu" else None, couple)
    rounds = stages.ends[-1]
    updates = np.random.default_rng(seed).normal(size=(rounds, 2))
    models, states = path(stages, updates, np.zeros(2))
    rates = np.array([stages.at(t).lr for t in range(rounds)])
    gain, b = w1(stages.rules[0]), states[-1].inner.b
    z = models[-1] if b is None else models[-1] + gain * b
    scale = np.abs(rates[:, None] * updates).sum() + gain + 1
    np.testing.assert_allclose(z, -(rates[:, None] * updates).sum(0), atol=1e-13 * scale)


# ---------------------------------------------------------------- G5


@pytest.mark.parametrize("nesterov", [False, True])
def test_torch_sgd_fed_with_the_updates_is_fedavgm_or_fednag(nesterov: bool) -> None:
    """G5: torch's undamped momentum with rate gamma is eta = gamma / (1 - beta), nu = 1 or nu = beta."""
    updates, beta, gamma = np.random.default_rng(5).normal(size=(30, 3)), 0.9, 0.2
    rule = Momentum(gamma / (1 - beta), beta, beta if nesterov else 1.0)
    models, _ = path(rule, updates, np.zeros(3))
    weights = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=gamma, momentum=beta, nesterov=nesterov)
    for update, expected in zip(updates, models[1:], strict=True):
        weights.grad = torch.from_numpy(update)
        optimizer.step()
        np.testing.assert_allclose(weights.detach().numpy(), expected, atol=1e-12)


def test_torch_dampening_is_another_method_on_the_first_step() -> None:
    """torch seeds its buffer with the raw gradient: x_1 = -eta D, where FedAvgM has -eta (1 - beta) D."""
    weights = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    weights.grad = torch.ones(1, dtype=torch.float64)
    torch.optim.SGD([weights], lr=1.0, momentum=0.5, dampening=0.5).step()
    models, _ = path(Momentum(1.0, 0.5, 1.0), [1.0])
    assert weights.item() == -1.0
    assert models[1, 0] == -0.5


# ---------------------------------------------------------------- special cases and properties

_numbers = st.floats(-100, 100)


@given(updates=st.lists(_numbers, min_size=1, max_size=8), beta=st.floats(0, 0.99), lr=st.floats(0.1, 5))
def test_nu_zero_is_plain_averaging(updates: list[float], beta: float, lr: float) -> None:
    plain, _ = path(Momentum(lr), updates)
    assert path(Momentum(lr, beta, 0.0), updates)[0].tolist() == plain.tolist()
    without_memory, _ = path(Momentum(lr, 0.0, 1.0), updates)
    np.testing.assert_allclose(without_memory, plain, rtol=1e-12, atol=1e-12)


@given(
    first=st.lists(_numbers, min_size=6, max_size=6),
    second=st.lists(_numbers, min_size=6, max_size=6),
    factor=st.floats(-3, 3),
)
def test_momentum_is_linear_in_the_updates(first: list[float], second: list[float], factor: float) -> None:
    rule = Momentum(1.5, 0.9, 0.7)
    one, two = np.array(first), np.array(second)
    both, _ = path(rule, one + factor * two)
    expected = path(rule, one)[0] + factor * path(rule, two)[0]
    np.testing.assert_allclose(both, expected, atol=1e-10)


@given(updates=st.lists(_numbers, min_size=1, max_size=10))
def test_one_stage_is_no_stages(updates: list[float]) -> None:
    rule = Momentum(1.5, 0.9, 0.7)
    staged, _ = path(multistage([1.5], 10, 0.9, 0.7), updates)
    assert staged.tolist() == path(rule, updates)[0].tolist()


# ---------------------------------------------------------------- G9: autonomous, the algebra


def delta_to(center: float, x: Vector, steps: int, lr: float = 0.1) -> Vector:
    """`steps` steps on (x - center)^2 / 2."""
    return descend(lambda y, k: y - center, x, SGD(lr, steps=steps), steps)


def test_equal_work_recovers_multistage_up_to_the_factor_k() -> None:
    """G9a: dividing updates by K = 4 needs server rates four times as large; the buffer is then b / 4."""
    rules = [Momentum(0.5, 0.5, 0.8), Momentum(0.25, 2 / 3, 0.8)]
    plain = Stages(tuple(zip((4, 8), rules, strict=True)))
    scaled = Stages(tuple((rounds, replace(rule, lr=4 * rule.lr)) for rounds, rule in plain.stages))
    x = y = np.zeros(1)
    s, t = plain.init(x), scaled.init(y)
    for _ in range(12):
        x, s = plain.apply(x, np.mean([delta_to(e, x, 4) for e in (1, -2, 4)], axis=0), s)
        y, t = scaled.apply(y, np.mean([delta_to(e, y, 4) / 4 for e in (1, -2, 4)], axis=0), t)
    np.testing.assert_allclose(x, 0.780987942315, rtol=1e-11)
    np.testing.assert_allclose(-s.inner.b, -0.108789394892, rtol=1e-11)
    np.testing.assert_allclose(y, x, rtol=1e-12)
    np.testing.assert_allclose(t.inner.b, s.inner.b / 4, rtol=1e-12)


def test_one_autonomous_round_is_one_of_fednova() -> None:
    """G9c: nu = 0, eta = 2 on updates per step, and FedNova with uniform shares and tau_eff = 2."""
    nova, x = Normalised(tau_eff=2.0, weighting="uniform"), np.zeros(1)
    state, per_step = nova.init(x, 3), []
    for client, (center, steps) in enumerate(zip((1, 2, 6), (1, 2, 5), strict=True)):
        delta = delta_to(center, x, steps)
        state = nova.add(Contribution(client, delta, steps=steps, a_norm1=float(steps)), x, x, state)
        per_step.append(delta / steps)
    autonomous, _ = Momentum(2.0).apply(x, np.mean(per_step, axis=0), Momentum(2.0).init(x))
    np.testing.assert_allclose(autonomous, 0.520941333333, rtol=1e-11)
    np.testing.assert_allclose(nova.result(state)[0], autonomous, rtol=1e-13)


# ---------------------------------------------------------------- section 14: broken on purpose


@dataclass(frozen=True, slots=True)
class Subtracts(Momentum):
    """The sign of D flipped."""

    def apply(self, x: Vector, delta: Vector, state: MomentumState) -> tuple[Vector, MomentumState]:
        return super(Subtracts, self).apply(x, -delta, state)


@dataclass(frozen=True, slots=True)
class OldBuffer(Momentum):
    """The buffer used before its update."""

    def apply(self, x: Vector, delta: Vector, state: MomentumState) -> tuple[Vector, MomentumState]:
        assert state.b is not None
        b = self.beta * state.b + (1 - self.beta) * delta
        return x + self.lr * ((1 - self.nu) * delta + self.nu * state.b), MomentumState(b)


@dataclass(frozen=True, slots=True)
class Undamped(Momentum):
    """1 - beta forgotten."""

    def apply(self, x: Vector, delta: Vector, state: MomentumState) -> tuple[Vector, MomentumState]:
        assert state.b is not None
        b = self.beta * state.b + delta
        return x + self.lr * ((1 - self.nu) * delta + self.nu * b), MomentumState(b)


@dataclass(frozen=True, slots=True)
class Resetting(Stages):
    """The buffer reset at stage borders."""

    def apply(self, x: Vector, delta: Vector, state: StagesState) -> tuple[Vector, StagesState]:
        at_border = state.step in self.ends
        fresh = replace(state, inner=self.rules[0].init(x)) if at_border else state
        return super(Resetting, self).apply(x, delta, fresh)


@pytest.mark.parametrize("broken", [Subtracts, OldBuffer, Undamped])
def test_the_golden_trajectory_catches_a_broken_rule(broken: type[Momentum]) -> None:
    for nu in (0.25, 1.0, 0.5):
        wrong, _ = path(broken(2.0, 0.5, nu), GOLDEN_D, 10.0)
        right, _ = path(Momentum(2.0, 0.5, nu), GOLDEN_D, 10.0)
        assert np.abs(wrong - right).max() > 0.1


def test_the_border_catches_a_buffer_that_is_reset() -> None:
    wrong, _ = path(Resetting(BORDER.stages), np.ones(4))
    right, _ = path(BORDER, np.ones(4))
    assert np.abs(wrong - right)[3:].min() > 0.1
    assert wrong[:3].tolist() == right[:3].tolist()


def test_mean_of_updates_is_the_pseudo_gradient() -> None:
    """FedAvg: eta = 1, nu = 0 makes the next model the mean of the clients' models."""
    x, mean, opt = np.array([4.0, -8.0]), Mean(), Momentum()
    ends = [np.array([1.0, 2.0]), np.array([3.0, -4.0])]
    state = mean.init(x, 2)
    for client, end in enumerate(ends):
        state = mean.add(Contribution(client, end - x), x, x, state)
    after, _ = opt.apply(x, mean.result(state)[0], opt.init(x))
    assert after.tolist() == [2.0, -1.0]
