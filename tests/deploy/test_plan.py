"""The plan: an algorithm as text, read without executing anything but constructors of known rules."""

from __future__ import annotations

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


@pytest.mark.parametrize("name", ["fedbaca", "fedbnlaca", "fednlaca"])
def test_literal_readings_are_refused(name: str) -> None:
    with pytest.warns(UserWarning, match="simulation only"):
        literal = made(name, mode="literal")
    with pytest.raises(ConfigError, match="simulation only"):
        RunPlan.of(literal)


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
