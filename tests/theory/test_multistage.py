from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpace.errors import ConfigError
from fedpace.server_opt import Adam, Momentum, Stages
from fedpace.theory import ScheduleWarning, check, multistage, violations, w1

LRS = (2.0, 1.0, 0.5)


def column(stages: Stages, name: str) -> list[float]:
    return [getattr(rule, name) for rule in stages.rules]


@pytest.mark.parametrize(
    ("rounds", "ends"), [(500, (71, 214, 500)), (1000, (143, 429, 1000)), (2000, (286, 857, 2000))]
)
def test_the_ends_of_the_papers_schedule(rounds: int, ends: tuple[int, ...]) -> None:
    """G3: ends at T/7 and 3T/7; 143 and 429 are Figure 2, 286 and 857 Figure 8."""
    assert multistage(LRS, rounds, 0.9, 0.9).ends == ends


def test_ends_are_rounded_and_not_lengths() -> None:
    """Three stages of 133 1/3 rounds: lengths rounded one by one would lose a round."""
    assert multistage((1.0, 1.0, 1.0), 400, 0.0, 0.0).ends == (133, 267, 400)


@pytest.mark.parametrize(
    ("couple", "beta", "expected"),
    [
        ("nu", 0.7, (0.823529411765, 0.903225806452)),
        ("nu", 0.9, (0.947368421053, 0.972972972973)),
        ("nu", 0.95, (0.974358974359, 0.987012987013)),
        ("nag", 0.7, (0.802738185412, 0.881157394747)),
        ("nag", 0.9, (0.944888059009, 0.970905625505)),
        ("nag", 0.95, (0.973735174776, 0.986520462292)),
    ],
)
def test_beta_of_the_stages(couple: str, beta: float, expected: tuple[float, float]) -> None:
    """G3."""
    stages = multistage(LRS, 1000, beta, 0.7 if couple == "nu" else None, couple, strict=True)
    np.testing.assert_allclose(column(stages, "beta"), (beta, *expected), rtol=1e-11)
    assert column(stages, "nu") == ([0.7] * 3 if couple == "nu" else column(stages, "beta"))


@pytest.mark.parametrize(
    ("beta", "expected"),
    [(0.9, (0.692307692308, 0.818181818182, 0.9)), (0.95, (0.826086956522, 0.904761904762, 0.95))],
)
def test_anchored_at_the_last_stage(beta: float, expected: tuple[float, ...]) -> None:
    """G3."""
    for anchor in (2, -1):
        stages = multistage(LRS, 1000, beta, 0.9, anchor=anchor)
        np.testing.assert_allclose(column(stages, "beta"), expected, rtol=1e-11)


def test_constant_beta_raises_nu() -> None:
    """G3: nu = 1/4, 1/2, 1."""
    stages = multistage(LRS, 1000, 0.9, 1.0, "beta", anchor=-1)
    assert column(stages, "beta") == [0.9] * 3
    np.testing.assert_allclose(column(stages, "nu"), (0.25, 0.5, 1), rtol=1e-13)
    with pytest.raises(ConfigError, match="nu of the stage with rate 1.0 must be <= 1; lower nu, or anchor"):
        multistage(LRS, 1000, 0.9, 0.9, "beta")


@pytest.mark.parametrize(
    ("beta", "gains"),
    [(0.9, (12.6, 16.2, 17.1, 18)), (0.7, (3.2667, 4.2, 4.4333, 4.6667)), (0.95, (26.6, 34.2, 36.1, 38))],
)
def test_w1_of_the_papers_grid(beta: float, gains: tuple[float, ...]) -> None:
    found = [w1(Momentum(2.0, beta, nu)) for nu in (0.7, 0.9, 0.95, 1.0)]
    np.testing.assert_allclose(found, gains, atol=5e-5)


@pytest.mark.parametrize(("beta", "nu"), [(0.0, 0.5), (0.9, 0.0)])
@pytest.mark.parametrize("couple", ["nu", "beta"])
def test_without_momentum_both_parameters_stay(beta: float, nu: float, couple: str) -> None:
    """W1 = 0: multistage FedAvg."""
    stages = multistage(LRS, 1000, beta, nu, couple, strict=True)
    assert (column(stages, "beta"), column(stages, "nu")) == ([beta] * 3, [nu] * 3)
    assert column(multistage(LRS, 1000, 0.0, couple="nag"), "beta") == [0.0] * 3


@given(
    lrs=st.lists(st.floats(0.1, 5), min_size=1, max_size=5).map(lambda lrs: sorted(lrs, reverse=True)),
    rounds=st.integers(400, 3000),
    beta=st.floats(0, 0.99),
    nu=st.floats(0.01, 1),
    couple=st.sampled_from(["nu", "nag", "beta"]),
)
def test_what_is_derived_keeps_every_constraint(
    lrs: list[float], rounds: int, beta: float, nu: float, couple: str
) -> None:
    """Strict: no violation found, whatever the anchor's parameters."""
    stages = multistage(lrs, rounds, beta, None if couple == "nag" else nu, couple, anchor=-1, strict=True)
    assert stages.ends[-1] == rounds
    assert violations(stages) == ()


def test_violations_are_named() -> None:
    assert violations(Stages(((10, Momentum(1.0)), (10, Momentum(1.0, 0.5, 0.0))))) == ()
    growing = violations(Stages(((20, Momentum(1.0)), (10, Momentum(2.0)))))
    assert growing == ("learning rates should not grow from stage to stage; got [1.0, 2.0]",)
    falling = violations(Stages(((10, Momentum(1.0, 0.5, 0.0)), (10, Momentum(1.0, 0.25, 0.0)))))
    assert falling == ("beta should not fall from stage to stage; got [0.5, 0.25]",)
    moved = violations(Stages(((10, Momentum(2.0, 0.5, 0.5)), (20, Momentum(1.0, 0.5, 0.5)))))
    assert moved == ("W1 = lr beta nu / (1 - beta) should be the same in all stages; got [1.0, 0.5]",)
    short = violations(Stages(((143, Momentum(2.0)), (286, Momentum(1.0)), (71, Momentum(0.5)))))
    assert short == (
        "rounds times lr should be the same in all stages; got rounds [143, 286, 71] for [2.0, 1.0, 0.5]",
    )
    assert violations(Stages(((1, Adam(0.1)),))) == ("the constraints are about Momentum stages",)


def test_a_schedule_outside_the_theory_warns_or_raises() -> None:
    with pytest.warns(ScheduleWarning, match="learning rates should not grow"):
        multistage([1.0, 2.0], 30, 0.0, 0.0)
    with pytest.raises(
        ConfigError, match="stages must keep the constraints of multistage FedGM; got learning"
    ):
        multistage([1.0, 2.0], 30, 0.0, 0.0, strict=True)
    check(multistage(LRS, 1000, 0.9, 0.9), strict=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lrs": []}, "lrs must be at least one learning rate; got []"),
        ({"lrs": [1.0, 0.0]}, "lrs must be learning rates > 0; got 0.0"),
        ({"rounds": 0}, "rounds must be a whole number >= 1; got 0"),
        ({"rounds": 2}, "rounds must leave every stage at least one; got 2, which makes (0, 1, 1)"),
        ({"couple": "mu"}, "couple must be nu, nag, beta; got 'mu'"),
        ({"anchor": 3}, "anchor must be a stage's index, below 3; got 3"),
        ({"nu": None}, "nu must be given when couple is 'nu'; got None"),
        ({"couple": "nag", "nu": 0.3}, "nu must be left out or equal to beta when couple is 'nag'; got 0.3"),
        ({"beta": 1.0}, "Momentum.beta must be in [0, 1); got 1.0"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        multistage(**({"lrs": LRS, "rounds": 1000, "beta": 0.9, "nu": 0.9} | arguments))


@pytest.mark.parametrize(("lrs", "nu"), [((2.0, 1.0, 0.5), 0.25), ((1.0, 0.5), 0.5), ((10.0, 1.0), 0.1)])
@pytest.mark.parametrize("beta", [0.7, 0.9, 0.95])
def test_constant_beta_may_end_at_nu_one(lrs: tuple[float, ...], nu: float, beta: float) -> None:
    assert multistage(lrs, 100, beta, nu, "beta").rules[-1].nu == 1.0


def test_rates_may_be_single_precision() -> None:
    assert multistage(np.float32([2, 1, 0.5]), 70, 0.5, 0.5) == multistage((2.0, 1.0, 0.5), 70, 0.5, 0.5)
