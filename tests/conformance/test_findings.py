"""One call tells an author what kind of rule a value is, and what it breaks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace import aggregate, link, local, pace, server_opt
from fedpace.vector import Vector


@pytest.mark.parametrize(
    ("rule", "kind", "place"),
    [
        (pace.Rounds(2), "pacing rule", "pace"),
        (aggregate.Median(), "aggregation rule", "aggregate"),
        (server_opt.Adam(0.1), "server optimizer", "server_opt"),
        (local.SGD(0.1, steps=2), "local rule", "local"),
        (local.Scaffold(), "correction", "correction"),
        (link.Difference(link.TopK(0.5)), "downlink", "down"),
        (link.ErrorFeedback(link.TopK(0.5)), "uplink", "up"),
        (link.TopK(0.5), "codec", "up or down"),
    ],
    ids=repr,
)
def test_every_kind_is_recognised_and_checked(rule: Any, kind: str, place: str) -> None:
    found = fedpace.check.all(rule)
    assert (found.kind, found.place, found.broken, found.ok) == (kind, place, (), True)
    assert f" {kind}, for Algorithm({place}=...), and keeps its promises" in str(found)


@dataclass(frozen=True)
class Writes:
    """A server optimizer that writes into the model."""

    def init(self, x: Vector) -> None:
        return None

    def apply(self, x: Vector, delta: Vector, state: None) -> tuple[Vector, None]:
        x += delta
        return x, None


@dataclass(frozen=True)
class Fails(Writes):
    def apply(self, x: Vector, delta: Vector, state: None) -> tuple[Vector, None]:
        raise KeyError("momentum")


class Halves:
    """An aggregation rule without `result`."""

    def init(self, x: Vector, clients: int) -> Vector:
        return np.zeros_like(x)

    def add(self, *given: Any) -> None: ...


def test_what_is_broken_is_said_in_a_sentence() -> None:
    writes, fails = fedpace.check.all(Writes()), fedpace.check.all(Fails())
    assert writes.kind == fails.kind == "server optimizer" and not writes.ok
    assert str(writes).startswith("Writes() is a server optimizer, but\n") and "apply" in writes.broken[0]
    assert fails.broken == ("apply raised KeyError: 'momentum'",)


def test_what_is_no_rule_is_told_what_it_lacks() -> None:
    assert fedpace.check.all(Halves()).broken == (
        "it comes closest to an aggregation rule, and lacks result",
    )
    assert "it has the methods of none of these: pacing rule" in str(fedpace.check.all(3))
    assert str(fedpace.check.all(aggregate.Mean)).endswith("it is a class; give a value, such as Mean()")
