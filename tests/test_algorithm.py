"""An algorithm as a value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedpace import algorithms
from fedpace.errors import ConfigError
from fedpace.limits import Limits


def test_an_algorithm_prints_its_guards_only_where_they_differ() -> None:
    plain = algorithms.fedavg()
    assert ", limits=" not in repr(plain) and repr(plain).count("clip=") == repr(plain.local).count("clip=")
    guarded = replace(plain, clip=2.0, limits=Limits(samples=100.0))
    assert "clip=2.0, limits=Limits(samples=100.0, steps=1000000000" in repr(guarded)


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan"), float("inf"), "1"])
def test_a_clip_is_a_length(clip: object) -> None:
    with pytest.raises(ConfigError, match="clip must be (a number )?> 0, or None; got"):
        replace(algorithms.fedavg(), clip=clip)


@pytest.mark.parametrize("bound", [{"samples": 0}, {"steps": 0}, {"waiting": 1.5}, {"a_norm1": float("inf")}])
def test_limits_are_positive_and_finite(bound: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"Limits.{next(iter(bound))} must be"):
        Limits(**bound)
