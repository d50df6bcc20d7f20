"""Tables and pictures of objective inconsistency, and where its runs ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedpace.local import SGD
from fedpace.reproduce import pictures as draw
from fedpace.reproduce.experiment import Table
from fedpace.reproduce.fednova import figure2, figure4
from fedpace.reproduce.fednova.objective_cells import (
    GENERAL,
    METHODS,
    RATES,
    SCALAR,
    SPREAD_RATE,
    SPREADS,
    Scattered,
    unequal,
)
from fedpace.reproduce.results import Results
from fedpace.theory import Work, dissimilarity, final_error
from fedpace.vector import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def tables(edition: str, results: Results) -> list[Table]:
    scalar = [
        (f"{rate}", name, f"{SCALAR[rate][at]:.12f}", _shown(end_of(results, cell)))
        for rate in RATES
        for at, name in enumerate(("FedAvg", "FedNova"))
        if results.have(cell := f"scalar {name}, rate {rate}")
    ]
    general = [
        (name, _shown(np.array(limit)), _shown(end_of(results, f"general {name}")))
        for name, limit in GENERAL.items()
        if results.have(f"general {name}")
    ]
    titles = (
        "Scalar quadratics: K = (1, 2, 5), minima 1, 2, 6, optimum 3",
        "General quadratics: K = (2, 5, 9), shares .5, .3, .2, rate 0.1",
    )
    return [
        Table(titles[0], ("rate", "", "formula", "simulated"), scalar),
        Table(titles[1], ("", "formula", "simulated"), general),
    ]


def _shown(x: Vector) -> str:
    return ", ".join(f"{value:.12f}" for value in x)


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    with draw.style():
        figure, ((left, right),) = draw.sheet(2, width=5.2)
        _against_spread(left, results)
        _against_chi2(right, results)
    return {"bias": figure, **figure2.pictures(results), **figure4.pictures()}


def _against_spread(axes: Axes, results: Results) -> None:
    for at, name in enumerate(METHODS):
        found = [results.final(f"spread {spread} {name}", "distance") for spread in SPREADS]
        means, deviations = [f.mean for f in found], [f.deviation for f in found]
        axes.errorbar(SPREADS, means, deviations, capsize=3, label=name, **_look(at))
    work = "half of the clients do 5+s steps, half 5-s:  s"
    draw.titled(axes, "Distance from the optimum", work, "distance", "upper left")


def _against_chi2(axes: Axes, results: Results) -> None:
    """Theorem 2 bounds the squared gradient norm by χ², at the end of FedAvg."""
    chi2 = [Work.of(SGD(SPREAD_RATE, steps=1), unequal(spread)).chi2 for spread in SPREADS]
    for at, name in enumerate(METHODS):
        left = [_squared_gradient(results, spread, name) for spread in SPREADS]
        axes.plot(chi2, left, label=name, **_look(at))
    if results.have(*(f"spread {spread} FedAvg" for spread in SPREADS)):
        bounds = [np.mean([bound for _, bound in left_and_bound(results, s)]) for s in SPREADS]
        axes.plot(chi2, bounds, color="#555555", linestyle=":", label="Theorem 2's bound, FedAvg")
    axes.set_yscale("log")
    axes.set_ylim(top=20)
    draw.titled(axes, "Squared gradient norm against χ²", "χ²(p, w) of FedAvg", "||∇F||²", "center right")


def _look(at: int) -> dict[str, Any]:
    """FedProx, nearly as far off as FedAvg, is dashed above it."""
    line, size = ("--", 4) if METHODS[at].startswith("FedProx") else ("-", 7)
    return {"color": draw.colour(at), "marker": draw.marker(at), "linestyle": line, "markersize": size}


# ----------------------------------------------------------------------------------- where runs ended


def end_of(results: Results, name: str) -> Vector:
    return np.array(results.of(name)[0].model)


def left_and_bound(results: Results, spread: int) -> list[tuple[float, float]]:
    """||∇F||² where FedAvg ended and what Theorem 2 allows, for every seed."""
    ends = sorted(results.outcomes[f"spread {spread} FedAvg"].items())
    return [_left(seed, np.array(outcome.model), spread) for seed, outcome in ends]


def _left(seed: int, x: Vector, spread: int) -> tuple[float, float]:
    """||∇F(x)||², and its bound: 2 ||∇F~(x)||² + 2χ²κ²."""
    work = Work.of(SGD(SPREAD_RATE, steps=1), unequal(spread))
    gradients = _gradients(seed, x)
    plain, surrogate = work.p @ gradients, work.w @ gradients
    bound = final_error(work.chi2, float(surrogate @ surrogate), kappa2=dissimilarity(gradients, work.w))
    return float(plain @ plain), bound


def _gradients(seed: int, x: Vector) -> NDArray[np.float64]:
    """∇F_i(x) of every client, a row each."""
    task: Any = Scattered()(seed)
    return np.array([task.gradient(client, x) for client in range(task.clients)])


def _squared_gradient(results: Results, spread: int, name: str) -> float:
    """||∇F||² where a method ended, mean over seeds; all clients have the same share."""
    ends = results.outcomes.get(f"spread {spread} {name}", {})
    means = [_gradients(seed, np.array(outcome.model)).mean(axis=0) for seed, outcome in ends.items()]
    return float(np.mean([mean @ mean for mean in means])) if means else math.nan
