"""How what it takes to a target changes with the updates of a step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.comparison import Comparison, to_target
from fedpace.reproduce.results import Results

SLOPE_MARGIN = 0.3


def rounds_by_seed(
    results: Results, cells: Mapping[int, str], target: float, cost: draw.X = draw.steps
) -> dict[int, dict[int, float]]:
    """Rounds (or seconds) to the target by n, for every seed with which all n get there."""
    rounds = to_target(target, cost)
    runs = {n: results.outcomes[name] for n, name in cells.items()}
    shared = sorted(set.intersection(*(set(own) for own in runs.values())))
    every = {seed: {n: rounds(own[seed]) for n, own in runs.items()} for seed in shared}
    return {
        seed: {n: took for n, took in of_seed.items() if took is not None}
        for seed, of_seed in every.items()
        if None not in of_seed.values()
    }


def linear(slopes: Mapping[int, float], what: str = "slope -1") -> Comparison:
    """Rounds fall as 1/n in every seed: these slopes are -1, up to the margin."""
    return Comparison(what, tuple(slopes), tuple(slopes.values()), (-1.0,) * len(slopes), SLOPE_MARGIN)


def slope_of(rounds: Mapping[int, float]) -> float:
    """Least squares of log rounds against log n; 0 where they are equal, not the rounding of the fit."""
    x, y = np.log(list(rounds)), np.log(list(rounds.values()))
    return round(float(np.polyfit(x, y, 1)[0]), 12)
