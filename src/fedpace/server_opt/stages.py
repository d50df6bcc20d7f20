"""Server hyper-parameters that change at given steps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from fedpace.errors import require, require_count
from fedpace.server_opt.protocol import ServerOpt
from fedpace.vector import Vector, settle


@dataclass(frozen=True, slots=True)
class StagesState:
    step: int  # t, server steps taken
    inner: Any  # the rule's own state, carried over every border


@dataclass(frozen=True, slots=True)
class Stages:
    """Multistage: one rule after another, each for its number of server steps; the last is used from then on.

    Sun et al., "On the Role of Server Momentum in Federated Learning", AAAI 2024, Algorithm 3. Step t uses
    the first stage s with t < ends[s]. The state (momentum buffer, moments) crosses the borders, never
    reset: the paper's proof needs it. `fedpace.theory.multistage` derives stages that fulfil its constraints.
    Sign: that of the rules.
    Departures: steps are counted from 0; the stages may be of any one rule, not only momentum.
    """

    stages: tuple[tuple[int, ServerOpt], ...]

    @property
    def checks_itself(self) -> bool:
        return all(getattr(rule, "checks_itself", False) for rule in self.rules)

    def __post_init__(self) -> None:
        settle(self)
        pairs = isinstance(self.stages, tuple) and all(
            isinstance(stage, tuple) and len(stage) == 2 for stage in self.stages
        )
        require(pairs and self.stages != (), "Stages", self.stages, "at least one (rounds, rule)")
        for rounds, rule in self.stages:
            require_count(rounds, "rounds of a stage")
            require(hasattr(rule, "apply"), "rule of a stage", rule, "a rule of fedpace.server_opt")
        kinds = sorted({type(rule).__name__ for rule in self.rules})
        require(len(kinds) == 1, "Stages", kinds, "of one kind of rule, whose state is carried over")

    @property
    def rules(self) -> tuple[ServerOpt, ...]:
        return tuple(rule for _, rule in self.stages)

    @property
    def ends(self) -> tuple[int, ...]:
        """How many steps are taken when each stage is over."""
        return tuple(accumulate(rounds for rounds, _ in self.stages))

    def at(self, step: int) -> ServerOpt:
        """The rule of step `step`, counted from 0."""
        return next(
            (rule for end, rule in zip(self.ends, self.rules, strict=True) if step < end), self.rules[-1]
        )

    def init(self, x: Vector) -> StagesState:
        # a buffer that any stage reads must be allocated from the first step on
        remembering = next((rule for rule in self.rules if getattr(rule, "remembers", True)), self.rules[0])
        return StagesState(0, remembering.init(x))

    def apply(self, x: Vector, delta: Vector, state: StagesState) -> tuple[Vector, StagesState]:
        x, inner = self.at(state.step).apply(x, delta, state.inner)
        return x, StagesState(state.step + 1, inner)

    def spend(self, x: Vector, delta: Vector, state: StagesState) -> tuple[Vector, StagesState]:
        """`apply`, over what went in."""
        rule = self.at(state.step)
        x, inner = getattr(rule, "spend", rule.apply)(x, delta, state.inner)
        return x, StagesState(state.step + 1, inner)
