"""What plug-ins are told when they break a promise: a sentence that names the rule and the method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from fedpace.aggregate import Cached, Contribution, Mean
from fedpace.check import (
    check_aggregator,
    check_codec,
    check_correction,
    check_downlink,
    check_local,
    check_pace,
    check_server_opt,
    check_uplink,
)
from fedpace.link import EF21, Dense, Difference, TopK
from fedpace.local import SGD, Scaffold
from fedpace.pace import OnDemand, Rounds
from fedpace.pace.protocol import Decision
from fedpace.pace.rounds import RoundsState
from fedpace.server_opt import Adam, Momentum
from fedpace.vector import Vector

WRITES = "writes into what it was given; it must return new vectors and leave its arguments and its state"


class Loose:
    """No dataclass at all."""

    lr = 0.1


@dataclass
class Thawed:
    """A dataclass that is not frozen."""

    lr: float = 0.1


CHECKS: list[Callable[[Any], None]] = [
    check_aggregator,
    check_codec,
    check_correction,
    check_downlink,
    check_local,
    check_pace,
    check_server_opt,
    check_uplink,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("rule", [Loose(), Thawed()])
def test_a_rule_is_a_frozen_dataclass(check: Callable[[Any], None], rule: Any) -> None:
    with pytest.raises(
        AssertionError, match=f"{type(rule).__name__} is not a frozen dataclass: a rule is a value"
    ):
        check(rule)


# ---------------------------------------------------------------- writing in place


class WritesToItsMoments(Adam):
    def apply(self, x: Vector, delta: Vector, state: Any) -> tuple[Vector, Any]:
        state.m[:] = delta
        return super().apply(x, delta, state)


class KeepsATable(Momentum):
    """Its state is a table, which cannot be made read-only: it is compared."""

    def init(self, x: Vector) -> dict[str, int]:
        return {"steps": 0}

    def apply(self, x: Vector, delta: Vector, state: Any) -> tuple[Vector, Any]:
        state["steps"] += 1
        return x + delta, state


@pytest.mark.parametrize(
    "broken", [WritesToItsMoments(0.1), KeepsATable()], ids=lambda rule: type(rule).__name__
)
def test_an_optimizer_that_writes_into_its_state_is_told(broken: Any) -> None:
    with pytest.raises(AssertionError, match=f"{type(broken).__name__}.*: apply {WRITES}"):
        check_server_opt(broken)


class WritesToTheUpdate(Mean):
    def add(self, update: Contribution, start: Vector, x: Vector, state: Any) -> Any:
        update.delta[:] *= 2
        return super().add(update, start, x, state)


class WritesToItsMean(Cached):
    """Changes the mean that the step began from: a step that is not taken could not be undone."""

    def result(self, state: Any) -> tuple[Vector, Any]:
        total, after = super().result(state)
        state.mean[:] = after.mean
        return total, replace(after, mean=state.mean)


class WritesToItsRows(Cached):
    def add(self, update: Contribution, start: Vector, x: Vector, state: Any) -> Any:
        after = super().add(update, start, x, state)
        state.rows[update.client] = update.delta
        return after


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (WritesToTheUpdate(), f"WritesToTheUpdate.*: add {WRITES}"),
        (WritesToItsMean(), f"WritesToItsMean.*: result {WRITES}"),
        (WritesToItsRows(), "WritesToItsRows.*: add or result changes the state that the step began from"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_aggregator_that_writes_into_what_is_not_the_steps_own_is_told(broken: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_aggregator(broken)


class FoldsInPlace(Scaffold):
    def fold(self, update: Contribution, control: Vector, state: Any) -> Any:
        state.change[:] += control
        return state


def test_a_correction_that_writes_into_its_state_is_told() -> None:
    with pytest.raises(AssertionError, match=f"FoldsInPlace.*: fold {WRITES}"):
        check_correction(FoldsInPlace())


class ReceivesInPlace(EF21):
    def receive(self, frame: bytes, state: Any, size: int) -> tuple[Vector, Any]:
        used, after = super().receive(frame, state, size)
        for name in getattr(state, "__dataclass_fields__", ()):
            value = getattr(state, name)
            if isinstance(value, np.ndarray) and value.size:
                value[:] = 0
        return used, after


class Scribbles(Dense):
    def encode(self, v: Vector, rng: np.random.Generator) -> bytes:
        v[:] = 0
        return super().encode(v, rng)


class Overwrites(Difference):
    def receive(self, frame: bytes, held: Any, size: int) -> tuple[Vector, Any]:
        model, after = super().receive(frame, held, size)
        if held is not None:
            held.model[:] = 0
        return model, after


@pytest.mark.parametrize(
    ("check", "broken", "method"),
    [
        (check_uplink, ReceivesInPlace(TopK(0.1)), "receive"),
        (check_codec, Scribbles(), "encode"),
        (check_downlink, Overwrites(TopK(0.1)), "send"),
    ],
)
def test_a_link_that_writes_in_place_is_told(check: Callable[[Any], None], broken: Any, method: str) -> None:
    with pytest.raises(AssertionError, match=f"{type(broken).__name__}.*: {method} {WRITES}"):
        check(broken)


def test_other_errors_of_a_rule_are_its_own() -> None:
    class Fails(Momentum):
        def apply(self, x: Vector, delta: Vector, state: Any) -> tuple[Vector, Any]:
            raise ValueError("shapes do not match")

    with pytest.raises(ValueError, match="shapes do not match"):
        check_server_opt(Fails())


# ---------------------------------------------------------------- pacing


@dataclass(frozen=True)
class Lacking:
    client, keeps, per_step = OnDemand(), 1, None

    def init(self, clients: int) -> RoundsState:
        return RoundsState()


def test_a_pacing_rule_that_lacks_a_method_is_told_which() -> None:
    with pytest.raises(AssertionError, match=r"Lacking\(\) lacks expects, which every pacing rule has"):
        check_pace(Lacking())  # type: ignore[arg-type]


class OldDispatch(Rounds):
    def dispatch(self, *given: Any) -> Any:
        return super().dispatch(*given), given[3]


class OldArrived(Rounds):
    def arrived(self, update: Any, version: int, state: Any) -> Any:
        return super().arrived(update, version, state), state


class OldLost(Rounds):
    def lost(self, client: int, state: Any) -> Any:
        return super().lost(client, state), state


class OldJoined(Rounds):
    def joined(self, client: int, state: Any) -> Any:
        return state


class SaysYes(Rounds):
    def expects(self, update: Any, version: int, state: Any) -> Any:
        return True


class CountsQuestions(Rounds):
    def expects(self, update: Any, version: int, state: RoundsState) -> str:
        state.asked += 1
        return super().expects(update, version, state)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (OldDispatch(), "dispatch returns .* among its orders; it returns orders only"),
        (OldArrived(), "arrived must return a Decision, and change its state in place; got a tuple"),
        (OldLost(), "lost must return whether to take a step, and change its state in place; got a tuple"),
        (OldJoined(), "joined must return nothing, and change its state in place; got a RoundsState"),
        (SaysYes(), 'expects must return why the update would be refused, or "", .*; got a bool'),
        (CountsQuestions(), "expects changes the state; it only answers"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_pacing_rule_of_another_form_is_told(broken: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_pace(broken)


def test_a_decision_is_a_value() -> None:
    assert Decision(1) == Decision(1, step=False, reason="")


def test_local_rules_of_ones_own_pass() -> None:
    @dataclass(frozen=True, slots=True)
    class Mine(SGD):
        pass

    check_local(Mine(0.1, steps=3))
