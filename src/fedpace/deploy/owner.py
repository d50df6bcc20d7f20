"""What the owner of a client's machine decides, whatever the server asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedpace.deploy.plan import RunPlan
from fedpace.errors import require

Accept = Callable[[], bool]
ChooseSteps = Callable[[int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The answers of one owner.

    `accept()`: whether it takes work now (battery, hours), asked every `ask_every_s` seconds. `steps(planned)`: how
    many local steps it takes, 1..planned. `rules`: rules of one's own that may occur in a plan. `expect`: the digest,
    in hexadecimal, of the only plan that it takes part in.
    """

    accept: Accept = lambda: True
    steps: ChooseSteps = lambda planned: planned
    rules: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    expect: str | None = None
    ask_every_s: float = 10.0

    def read(self, text: str) -> RunPlan:
        """The plan, if it is one the owner takes part in."""
        plan = RunPlan.read(text, self.rules)
        pinned = self.expect is None or plan.digest.hex() == self.expect.lower()
        require(pinned, "the plan's digest", plan.digest.hex(), f"{self.expect}, as its owner expects")
        return plan
