"""Each method's native form, run beside general momentum on the same noisy gradients: G6."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

from fedpace.errors import ConfigError
from fedpace.server_opt import Momentum
from fedpace.theory.convert import (
    NAG,
    PID,
    SNV,
    AccSGD,
    HeavyBall,
    PlainSGD,
    RobustMomentum,
    TripleMomentum,
    TwoState,
)
from fedpace.vector import Vector

CURVATURE, X0, STEPS = np.array([1.0, 0.3, 0.05]), np.array([1.0, -2.0, 3.0]), 60
NOISE = np.random.default_rng(6).normal(scale=0.01, size=(STEPS, 3))


def gradient(x: Vector, t: int) -> Vector:
    return CURVATURE * x + NOISE[t]


def general(rule: Momentum) -> Vector:
    x, state, models = X0, rule.init(X0), [X0]
    for t in range(STEPS):
        x, state = rule.apply(x, -gradient(x, t), state)
        models.append(x)
    return np.array(models)


def native_plain(m: PlainSGD) -> Iterator[Vector]:
    x = X0
    for t in range(STEPS):
        yield x
        x = x - m.lr * gradient(x, t)
    yield x


def native_heavy_ball(m: HeavyBall) -> Iterator[Vector]:
    x, v = X0, np.zeros(3)
    for t in range(STEPS):
        yield x
        v = m.b * v + gradient(x, t)
        x = x - m.lr * v
    yield x


def native_nag(m: NAG) -> Iterator[Vector]:
    x, v = X0, np.zeros(3)
    for t in range(STEPS):
        yield x
        g = gradient(x, t)
        v = m.b * v + g
        x = x - m.lr * (g + m.b * v)
    yield x


def native_snv(m: SNV) -> Iterator[Vector]:
    xi = before = X0
    for t in range(STEPS):
        y = xi + m.b2 * (xi - before)
        yield y
        before, xi = xi, xi - m.a * gradient(y, t) + m.b1 * (xi - before)
    yield xi + m.b2 * (xi - before)


def native_pid(m: PID) -> Iterator[Vector]:
    beta = m.kd / (m.kd - m.kp)
    x, w, v, last = X0, np.zeros(3), np.zeros(3), np.zeros(3)
    for t in range(STEPS):
        yield x
        e = -gradient(x, t)
        v = beta * v + (1 - beta) * (e - last)
        w, last = w + e, e
        x = X0 + m.kp * e + m.ki * w + m.kd * v
    yield x


def native_accsgd(m: AccSGD) -> Iterator[Vector]:
    c = 1 - m.eps**2 * m.xi / m.kappa
    w = mean = X0
    for t in range(STEPS):
        yield w
        g = gradient(w, t)
        mean = c * mean + (1 - c) * (w - m.kappa * m.delta / m.eps * g)
        w = (m.eps * (w - m.delta * g) + (1 - c) * mean) / (m.eps + 1 - c)
    yield w


def native_two_state(m: TwoState) -> Iterator[Vector]:
    x, a = X0, np.zeros(3)
    for t in range(STEPS):
        yield x
        g = gradient(x, t)
        a, x = m.aa * a + m.ax * x + m.ag * g, m.xa * a + m.xx * x + m.xg * g
    yield x


METHODS: list[tuple[Any, Callable[[Any], Iterator[Vector]], tuple[float, float, float]]] = [
    (PlainSGD(0.3), native_plain, (0.3, 0, 0)),
    (HeavyBall(0.1, 0.9), native_heavy_ball, (1, 0.9, 1)),
    (NAG(0.1, 0.9), native_nag, (1, 0.9, 0.9)),
    (SNV(0.1, 0.9, 0.6), native_snv, (1, 0.9, 0.933333333333)),
    (PID(-0.1, 1.0, 3.0), native_pid, (1, 0.967741935484, 0.003333333333)),
    (AccSGD(0.1, 1000.0, 10.0, 0.7), native_accsgd, (0.452941176471, 0.988182720953, 0.779220779221)),
    (
        TripleMomentum(5.0, 15.0),
        lambda m: native_snv(m.robust().snv()),
        (0.619138111144, 0.437346505116, 0.676970297256),
    ),
    (
        RobustMomentum(5.0, 15.0, 0.85),
        lambda m: native_snv(m.snv()),
        (0.365122046730, 0.657991071429, 0.452237952238),
    ),
    (TwoState(0.9, 0.0, 0.1, -0.09, 1.0, -0.01), native_two_state, (0.1, 0.9, 1)),
]


@pytest.mark.parametrize(("method", "native", "expected"), METHODS, ids=lambda m: type(m).__name__)
def test_the_method_and_its_momentum_make_the_same_models(
    method: Any, native: Callable[[Any], Iterator[Vector]], expected: tuple[float, float, float]
) -> None:
    rule = method.momentum()
    np.testing.assert_allclose((rule.lr, rule.beta, rule.nu), expected, atol=1e-12)
    np.testing.assert_allclose(list(native(method)), general(rule), atol=1e-12)


@pytest.mark.parametrize("method", [method for method, _, _ in METHODS], ids=lambda m: type(m).__name__)
def test_there_and_back(method: Any) -> None:
    np.testing.assert_allclose(
        astuple(type(method).of(method.momentum())), astuple(method), rtol=1e-10, atol=1e-14
    )


@pytest.mark.parametrize("convert", [SNV, PID, AccSGD, TwoState])
def test_back_and_there(convert: Any) -> None:
    """Methods that express any momentum with 0 < beta and 0 < nu < 1."""
    rule = convert.of(Momentum(1.3, 0.8, 0.35)).momentum()
    np.testing.assert_allclose((rule.lr, rule.beta, rule.nu), (1.3, 0.8, 0.35), rtol=1e-12)


def test_pid_of_the_spec() -> None:
    """G6: QHM(1, 0.9, 0.7) is PID(-6.3, 1, 56.7), the proportional gain being -W1."""
    np.testing.assert_allclose(astuple(PID.of(Momentum(1.0, 0.9, 0.7))), (-6.3, 1, 56.7), rtol=1e-12)


def test_triple_momentum_in_closed_form() -> None:
    """G6: rho, and the SNV with a = (1 + rho) / L, b1 = rho^2 / (2 - rho), b2 = b1 / (1 + rho)."""
    robust = TripleMomentum(5.0, 15.0).robust()
    rho = robust.rho
    assert rho == pytest.approx(0.741801110253, abs=1e-12)
    expected = ((1 + rho) / 5, rho**2 / (2 - rho), rho**2 / ((1 + rho) * (2 - rho)))
    np.testing.assert_allclose(astuple(robust.snv()), expected, rtol=1e-12)
    np.testing.assert_allclose(expected, (0.348360222051, 0.437346505116, 0.251088659056), atol=1e-12)


@pytest.mark.parametrize(
    ("convert", "rule", "message"),
    [
        (PlainSGD, Momentum(1.0, 0.5, 0.5), "0 for plain SGD"),
        (HeavyBall, Momentum(1.0, 0.5, 0.5), "1 for heavy ball"),
        (NAG, Momentum(1.0, 0.5, 0.25), "equal to beta, 0.5"),
        (SNV, Momentum(1.0, 0.0, 0.5), "> 0 for SNV"),
        (PID, Momentum(1.0, 0.9, 0.0), "not 0 for PID"),
        (AccSGD, Momentum(1.0, 0.9, 1.0), "other than 1 for AccSGD"),
        (RobustMomentum, Momentum(1.0, 0.9, 1.0), "< 1 for robust momentum"),
        (RobustMomentum, Momentum(1.0, 0.5, 0.9), "what some robust momentum makes"),
        (
            TripleMomentum,
            RobustMomentum(5.0, 15.0, 0.85).momentum(),
            r"1 - 1/sqrt\(kappa\) for triple momentum",
        ),
    ],
)
def test_what_a_method_cannot_express_is_refused(convert: Any, rule: Momentum, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        convert.of(rule)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (SNV(0.1, 0.0, 0.5), r"SNV.b1 must be in \(0, 1\)"),
        (PID(0.0, 1.0, 3.0), "must be not 0, and kd not kp"),
        (PID(1.0, 0.0, 3.0), "must be not 0, and kd not kp"),
        (PID(2.0, 1.0, 2.0), "must be not 0, and kd not kp"),
        (HeavyBall(0.1, 1.0), r"HeavyBall.b must be in \[0, 1\)"),
        (NAG(0.1, 1.0), r"NAG.b must be in \[0, 1\)"),
        (TripleMomentum(1.0, 1.0), "kappa must be > 1"),
        (TwoState(1.0, 0.0, 0.1, 0.1, 1.0, 0.1), "of two different modes"),
        (TwoState(0.0, 0.0, 1.0, 0.0, 1.0, -1.0), "neither of them 0"),
        (TwoState(0.5, 0.0, 0.5, 0.0, 1.0, 0.0), "a method that moves"),
    ],
)
def test_degenerate_methods_are_refused(method: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        method.momentum()


def test_accsgd_never_is_nesterov_within_its_own_constraints() -> None:
    """nu = beta needs kappa = eps^2 xi^2 - eps (1 - eps) xi, which is below xi^2, while AccSGD wants kappa >= xi^2."""
    xi, eps = 10.0, 0.7
    kappa = eps**2 * xi**2 - eps * (1 - eps) * xi
    rule = AccSGD(0.1, kappa, xi, eps).momentum()
    assert math.isclose(rule.nu, rule.beta, rel_tol=1e-12)
    assert kappa < xi**2
