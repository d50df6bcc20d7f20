from __future__ import annotations

import numpy as np
import pytest

from fedpace.errors import ConfigError
from fedpace.server_opt import Momentum
from fedpace.theory import mean_age, variance_factor


@pytest.mark.parametrize(
    ("beta", "nu", "variance", "age"),
    [
        (0.9, 1.0, 0.0526315789, 9),
        (0.9, 0.9, 0.0706315789, 8.1),
        (0.9, 0.7, 0.1577894737, 6.3),
        (0.95, 0.95, 0.0303910256, 18.05),
        (0.999, 0.7, 0.0906651226, 699.3),
    ],
)
def test_variance_and_age(beta: float, nu: float, variance: float, age: float) -> None:
    """G8."""
    assert variance_factor(beta, nu) == pytest.approx(variance, abs=1e-10)
    assert mean_age(beta, nu) == pytest.approx(age, rel=1e-12)


def test_they_are_those_of_the_rules_own_weights() -> None:
    """An update of 1 followed by zeros shows how much each age weighs."""
    beta, nu = 0.9, 0.7
    rule, x = Momentum(1.0, beta, nu), np.zeros(1)
    state, weights = rule.init(x), []
    for t in range(600):
        after, state = rule.apply(x, np.array([float(t == 0)]), state)
        weights.append(float((after - x)[0]))
        x = after
    w = np.array(weights)
    assert w.sum() == pytest.approx(1, rel=1e-12)
    assert w @ w == pytest.approx(variance_factor(beta, nu), rel=1e-12)
    assert w @ np.arange(600) == pytest.approx(mean_age(beta, nu), rel=1e-12)


@pytest.mark.parametrize(("beta", "nu"), [(1.0, 0.5), (-0.1, 0.5), (0.5, 1.1), (0.5, -0.1)])
def test_parameters_outside_their_range_are_refused(beta: float, nu: float) -> None:
    for function in (mean_age, variance_factor):
        with pytest.raises(ConfigError, match="must be in"):
            function(beta, nu)
