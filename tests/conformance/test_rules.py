"""Every local rule, correction, aggregation and server optimizer keeps the promises of its kind; broken ones do not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from fedpace.aggregate import (
    Bucketed,
    Cached,
    CenteredClip,
    Contribution,
    DynamicMean,
    GeometricMedian,
    Krum,
    Mean,
    Median,
    Mixing,
    Normalised,
    NormBound,
    PerStep,
    Pooled,
    TrimmedMean,
    Weighted,
)
from fedpace.aggregate.total import Total
from fedpace.check import check_aggregator, check_correction, check_local, check_server_opt
from fedpace.local import SGD, Scaffold, VarianceReduced
from fedpace.local.scaffold import ScaffoldState
from fedpace.server_opt import Adagrad, Adam, AMSGrad, Momentum, Stages, Yogi
from fedpace.theory import multistage
from fedpace.vector import Vector


@pytest.mark.parametrize(
    "opt",
    [
        Momentum(),
        Momentum(2.0, 0.9, 0.7),
        Adam(0.1),
        Yogi(0.1),
        Adagrad(0.1),
        AMSGrad(0.1),
        AMSGrad(0.1, option=2),
        multistage((2, 1), 4, 0.5, 0.5),
        Stages(((2, Adam(0.1)), (2, Adam(0.01)))),
    ],
    ids=repr,
)
def test_server_optimizers(opt: Any) -> None:
    check_server_opt(opt)


@pytest.mark.parametrize(
    "rule",
    [
        Mean(),
        Mean(lambda age: 0.5**age),
        Weighted(),
        Normalised(),
        Normalised("steps"),
        Normalised(2.0),
        PerStep(),
        Median(),
        Median(staleness="poly"),
        TrimmedMean(0.25),
        GeometricMedian(),
        Krum(0),
        Krum(0, keep=2),
        NormBound(0.5),
    ],
)
def test_aggregation_without_memory(rule: Any) -> None:
    check_aggregator(rule, memoryless=True)


@pytest.mark.parametrize(
    "rule",
    [
        DynamicMean(),
        Mixing(0.5),
        Pooled(),
        Pooled(None),
        Cached(),
        Cached(4),
        CenteredClip(0.5),
        Bucketed(2, Median()),
        Bucketed(2, CenteredClip(0.5)),
    ],
    ids=repr,
)
def test_aggregation(rule: Any) -> None:
    check_aggregator(rule)


@pytest.mark.parametrize(
    "local",
    [
        SGD(0.1, steps=3),
        SGD(0.1, steps=[[1, 2], [3, 4]], prox_mu=1.0),
        SGD(0.1, epochs=(1, 6), batch_size=10, momentum=0.9),
        SGD(0.1, seconds=0.5, momentum=0.9, nesterov=True, prox_mu=0.5, schedule=(1, 0.5)),
    ],
    ids=repr,
)
def test_local_rules(local: SGD) -> None:
    check_local(local)


@pytest.mark.parametrize(
    "rule", [Scaffold(), VarianceReduced(), VarianceReduced(weighting="uniform")], ids=repr
)
def test_corrections(rule: Any) -> None:
    check_correction(rule)


# ---------------------------------------------------------------- the checks see what is broken


class WritesToTheModel(Momentum):
    def apply(self, x: Vector, delta: Vector, state: Any) -> tuple[Vector, Any]:
        x += delta
        return x, state


class ReturnsTheUpdate(Momentum):
    def apply(self, x: Vector, delta: Vector, state: Any) -> tuple[Vector, Any]:
        return delta if delta.any() else x.copy(), state


class Drifts(Momentum):
    def apply(self, x: Vector, delta: Vector, state: Any) -> tuple[Vector, Any]:
        return x + delta + x.dtype.type(0.5), state


class Widens(Momentum):
    def apply(self, x: Vector, delta: Vector, state: Any) -> tuple[Vector, Any]:
        return x + delta.astype(np.float64), state


class Remembers(Momentum):
    seen: list[Vector] = []

    def apply(self, x: Vector, delta: Vector, state: Any) -> tuple[Vector, Any]:
        self.seen.append(delta)
        return x + delta * (1 + len(self.seen)), state


class KeepsAFunction(Momentum):
    def init(self, x: Vector) -> Any:
        return (lambda: 0,)

    def apply(self, x: Vector, delta: Vector, state: Any) -> tuple[Vector, Any]:
        return x + delta, state


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (WritesToTheModel, "apply writes into what it was given"),
        (ReturnsTheUpdate, "must not be the update"),
        (Drifts, "moved on an update of zeros"),
        (Widens, "another form"),
        (Remembers, "different models"),
        (KeepsAFunction, "which a checkpoint cannot keep"),
    ],
)
def test_broken_server_optimizers_are_caught(broken: type[Momentum], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_server_opt(broken())


class GivesAwayAnUpdate(Mean):
    def add(self, update: Contribution, start: Vector, x: Vector, state: Any) -> Total:
        return Total(update.delta, 1.0)


class ForgetsCounts(Mean):
    def add(self, update: Contribution, start: Vector, x: Vector, state: Total) -> Total:
        return super().add(replace(update, count=1), start, x, state)


class KeepsTheLast(Mean):
    def add(self, update: Contribution, start: Vector, x: Vector, state: Total) -> Total:
        return Total(update.delta.copy(), 1.0)


class KeepsItsResult(Mean):
    def result(self, state: Total) -> tuple[Vector, Total]:
        return state.mean(), Total(state.vector, 1.0)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (GivesAwayAnUpdate, "must not be one of the updates"),
        (ForgetsCounts, "counting twice is coming twice"),
        (KeepsTheLast, "order of arrival must not matter"),
        (KeepsItsResult, "add writes into what it was given"),
    ],
)
def test_broken_aggregation_is_caught(broken: type[Mean], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_aggregator(broken(), memoryless=True)


@dataclass(frozen=True, slots=True)
class WrongNorm(SGD):
    def a_norm1(self, k: int) -> float:
        return float(k)


def test_a_wrong_normaliser_is_caught() -> None:
    with pytest.raises(AssertionError, match="a_norm1 is 6.0"):
        check_local(WrongNorm(0.1, steps=3, momentum=0.9))


class TooSoon(Scaffold):
    def fold(self, update: Contribution, control: Vector, state: ScaffoldState) -> ScaffoldState:
        return self.stepped(super().fold(update, control, state))


class Overcorrects(Scaffold):
    def before(self, memory: Vector | None, control: Vector) -> Vector:
        return control if memory is None else control - memory / 2


@pytest.mark.parametrize(
    ("broken", "message"), [(TooSoon, "before the step"), (Overcorrects, "although all clients agree")]
)
def test_broken_corrections_are_caught(broken: type[Scaffold], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_correction(broken())
