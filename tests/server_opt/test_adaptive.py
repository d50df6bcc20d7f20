"""Adaptive server rules against the numbers of the communication spec and hand algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedpace.errors import ConfigError
from fedpace.server_opt import Adagrad, Adam, AMSGrad, Momentum, ServerOpt, Yogi
from fedpace.vector import Vector, freeze

UPDATES = ((0.1, -0.02, 0.0), (-0.05, 0.02, 0.0), (0.01, 0.01, 0.0))


def path(rule: ServerOpt, updates: Any = UPDATES) -> tuple[Vector, list[Any]]:
    x = freeze(np.zeros(len(updates[0])))
    state, models, states = rule.init(x), [], []
    for update in updates:
        x, state = rule.apply(x, freeze(np.array(update)), state)
        models.append(freeze(x))
        states.append(state)
    return np.array(models), states


def test_amsgrad_moments() -> None:
    """O11."""
    _, states = path(AMSGrad(0.1))
    np.testing.assert_allclose(
        [state.m for state in states],
        [(0.01, -0.002, 0), (0.004, 0.0002, 0), (0.0046, 0.00118, 0)],
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        [state.v for state in states],
        [(1e-4, 4e-6, 0), (1.24e-4, 7.96e-6, 0), (1.2376e-4, 8.8804e-6, 0)],
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (
            1,
            [
                (0.0316227766, -0.0063245553, 0),
                (0.0442718872, -0.0056920998, 0),
                (0.0588183645, -0.0019606121, 0),
            ],
        ),
        (
            2,
            [
                (0.0301511345, -0.006311944, 0),
                (0.0420821342, -0.0056819907, 0),
                (0.0558027839, -0.0019669621, 0),
            ],
        ),
    ],
)
def test_amsgrad_models(option: int, expected: list[tuple[float, ...]]) -> None:
    """O11, both places of eps."""
    models, _ = path(AMSGrad(0.1, option=option))
    np.testing.assert_allclose(models, expected, atol=1e-10)


def test_amsgrad_keeps_the_largest_second_moment() -> None:
    """O11: v falls to 1.2376e-4 in the third step, v_hat stays at 1.24e-4; option 1 never goes below eps."""
    _, states = path(AMSGrad(0.1, option=2))
    assert states[-1].v_hat[0] == pytest.approx(1.24e-4, rel=1e-12)
    models, states = path(AMSGrad(0.1, eps=1e-6))
    assert states[-1].v_hat[2] == 1e-6
    np.testing.assert_allclose(models[-1], (0.1772302799, -0.0533138725, 0), atol=1e-10)


def test_coordinates_without_updates_stay() -> None:
    """O11: v under the root instead of v_hat would divide 0 by 0 here."""
    for rule in (Adam(0.1), Yogi(0.1), Adagrad(0.1), AMSGrad(0.1), AMSGrad(0.1, option=2)):
        models, _ = path(rule)
        assert models[:, 2].tolist() == [0, 0, 0]


def test_adam_models() -> None:
    """O12."""
    models, _ = path(Adam(0.1))
    expected = [
        (0.0909090909, -0.0666666667, 0),
        (0.1238701599, -0.0614329104, 0),
        (0.1618090953, -0.0317846692, 0),
    ]
    np.testing.assert_allclose(models, expected, atol=1e-10)


def test_adam_without_memory_is_a_normalised_step() -> None:
    """b1 = b2 = 0 leaves x + lr D / (|D| + eps)."""
    delta = np.array(UPDATES[0])
    models, _ = path(Adam(0.1, b1=0.0, b2=0.0), [delta])
    np.testing.assert_allclose(models[0], 0.1 * delta / (np.abs(delta) + 1e-3), rtol=1e-14)


def test_yogi_moves_by_the_square_whatever_the_distance() -> None:
    """v: 0 -> +(1-b2) 4 -> (below 4 again) +(1-b2) 4 -> (above 1/4) -(1-b2)/4; equal squares leave it."""
    _, states = path(Yogi(1.0, b2=0.5), [(2.0,), (2.0,), (0.5,), (0.0,)])
    assert [float(state.v[0]) for state in states] == [2.0, 4.0, 3.875, 3.875]
    _, states = path(Yogi(1.0, b2=0.5), [(2.0,), (2.0,), (2.0,)])
    assert float(states[-1].v[0]) == 4.0


def test_adagrad_sums_squares() -> None:
    """v_t = sum of squares, and x moves by lr D / (sqrt(v) + eps): 3/(3+1), then 4/(5+1)."""
    models, states = path(Adagrad(1.0, eps=1.0), [(3.0,), (4.0,)])
    assert [float(state.v[0]) for state in states] == [9.0, 25.0]
    np.testing.assert_allclose(models[:, 0], (3 / 4, 3 / 4 + 4 / 6), rtol=1e-15)


def test_adagrad_may_forget() -> None:
    _, states = path(Adagrad(1.0, b2=0.5), [(3.0,), (4.0,)])
    assert float(states[-1].v[0]) == 20.5


@pytest.mark.parametrize("rule", [Adam, Yogi, Adagrad, AMSGrad])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lr": 0.0}, "{}.lr must be > 0; got 0.0"),
        ({"lr": 0.1, "b1": 1.0}, "{}.b1 must be in [0, 1); got 1.0"),
        ({"lr": 0.1, "b2": -0.5}, "{}.b2 must be in [0, 1{}; got -0.5"),
        ({"lr": 0.1, "eps": 0}, "{}.eps must be > 0; got 0"),
    ],
)
def test_bad_parameters_are_named(rule: Any, arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        rule(**arguments)
    assert str(error.value) == message.format(rule.__name__, "]" if rule in (Adagrad, AMSGrad) else ")")


def test_amsgrad_has_two_options() -> None:
    with pytest.raises(ConfigError, match="AMSGrad.option must be 1 or 2; got 3"):
        AMSGrad(0.1, option=3)


@pytest.mark.parametrize("rule", [Adam, Yogi, Adagrad, AMSGrad, Momentum])
def test_numpy_parameters_do_not_widen_the_model(rule: Any) -> None:
    """np.linspace makes np.float64, and np.float64 times a float32 vector is a float64 vector."""
    x = np.ones(3, np.float32)
    opt = rule(np.float64(0.1))
    after, _ = opt.apply(x, x, opt.init(x))
    assert after.dtype == np.float32
    assert repr(opt) == repr(rule(0.1))
