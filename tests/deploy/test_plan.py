"""The plan: an algorithm as text, read without executing anything but constructors of known rules."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass, replace

import pytest
from tests.deploy.deployed import VARIANTS, made

from fedpace import algorithms
from fedpace.deploy.plan import RunPlan
from fedpace.errors import ConfigError
from fedpace.server_opt import Momentum


@dataclass(frozen=True, slots=True)
class Damped(Momentum):
    damping: float = 0.5


@pytest.mark.parametrize("name", VARIANTS)
def test_the_text_of_an_algorithm_is_the_algorithm(name: str) -> None:
    plan = RunPlan.of(VARIANTS[name])
    assert RunPlan.read(plan.text).algorithm == VARIANTS[name]
    assert RunPlan.read(plan.text).digest == plan.digest


def test_rules_of_ones_own_are_read_where_they_were_imported() -> None:
    own = replace(algorithms.fedavg(), server_opt=Damped(damping=0.25))
    with pytest.raises(ConfigError, match="rule must be one of .*Damped"):
        RunPlan.of(own)
    assert RunPlan.of(own, {"Damped": Damped}).algorithm == own


WITH_MODES = [
    name for name in algorithms.__all__ if "mode" in inspect.signature(getattr(algorithms, name)).parameters
]


def test_the_algorithms_with_modes_are_the_six_lazy_ones() -> None:
    assert sorted(WITH_MODES) == ["fedaa", "fedaca", "fedbaca", "fedbnlaca", "fednlaa", "fednlaca"]


@pytest.mark.parametrize("name", WITH_MODES)
def test_literal_readings_are_refused(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # some say by themselves that they exist in simulation only
        literal = made(name, mode="literal")
    with pytest.raises(ConfigError, match="simulation only"):
        RunPlan.of(literal)
    with pytest.raises(ConfigError, match="simulation only"):
        RunPlan.read(repr(literal))
    assert RunPlan.of(made(name, mode="realisable")).algorithm == made(name)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "Algorithm(local=open('x'))",
        "(lambda: 1)()",
        "Momentum()",
        "Algorithm(local=SGD(lr=0.1, steps=10**12))",
        "[" * 5000,
        "x" * 200_000,
        "",
    ],
)
def test_nothing_else_is_executed(text: str) -> None:
    with pytest.raises(ConfigError):
        RunPlan.read(text)
