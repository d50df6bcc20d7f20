from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedpace.errors import ConfigError
from fedpace.server_opt import Momentum


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lr": -1.0}, "Momentum.lr must be >= 0; got -1.0"),
        ({"lr": float("inf")}, "Momentum.lr must be >= 0; got inf"),
        ({"beta": 1.2}, r"Momentum.beta must be in [0, 1); got 1.2"),
        ({"beta": -0.1}, r"Momentum.beta must be in [0, 1); got -0.1"),
        ({"nu": "0.5"}, "Momentum.nu must be a number; got '0.5'"),
        ({"nu": float("nan")}, "Momentum.nu must be a number; got nan"),
    ],
)
def test_bad_parameters_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Momentum(**arguments)
    assert str(error.value) == message


def test_nu_outside_the_unit_interval_is_allowed_with_a_warning() -> None:
    """Conversions of other methods may leave [0, 1]."""
    with pytest.warns(UserWarning, match=r"Momentum.nu is usually in \[0, 1\]; got -0.5"):
        rule = Momentum(1.0, 0.5, -0.5)
    x, _ = rule.apply(np.zeros(1), np.ones(1), rule.init(np.zeros(1)))
    assert x.tolist() == [1.5 - 0.25]


def test_fedavg_keeps_no_buffer() -> None:
    assert Momentum(1.0, 0.9, 0.0).init(np.zeros(3)).b is None


def test_printing_it_is_its_configuration() -> None:
    assert repr(Momentum(2.0, 0.9, 0.7)) == "Momentum(lr=2.0, beta=0.9, nu=0.7)"
    assert hash(Momentum(2.0, 0.9, 0.7)) == hash(Momentum(2.0, 0.9, 0.7))
