"""Tables and pictures of DeFedAvg's Figures 6 and 7."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.defedavg import noise
from fedpace.reproduce.defedavg.speedup_cells import (
    SPLITS,
    TARGET,
    K,
    N,
    by_k,
    by_n,
    by_table,
    rate_only,
    scaled,
)
from fedpace.reproduce.experiment import Table
from fedpace.reproduce.results import Results, SeedSpread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def tables(edition: str, results: Results) -> list[Table]:
    rows = [
        (split, label, *(f"{rounds_to(edition, results, cell(split, n), split):.0f}" for n in N))
        for split in SPLITS
        for label, cell in (
            ("same rates", by_n),
            ("server rate x n", scaled),
            ("server rate x n, n = 10", rate_only),
            ("Table 2's rates", by_table),
        )
    ]
    plain = Table("Rounds to the target", ("", "", *(f"n = {n}" for n in N)), rows)
    return [plain, *noise.tables(results)]


def rounds_to(edition: str, results: Results, cell: str, split: str) -> SeedSpread:
    return results.to_target(cell, TARGET[edition][split], draw.steps)


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    with draw.style():
        figure, grid = draw.sheet(3, 2, width=4.2)
        for row, split in zip(grid, SPLITS, strict=True):
            draw.curves(row[0], results, {f"n = {n}": by_n(split, n) for n in N})
            draw.titled(row[0], f"{split}: same rates", "server steps", "test accuracy, %", "lower right")
            _speedup(row[1], edition, results, split)
            draw.curves(row[2], results, {f"K = {k}": by_k(split, k) for k in K})
            draw.titled(row[2], f"{split}: local steps, n = 10", "server steps", "", "lower right")
            for axes in (row[0], row[2]):
                axes.set_xlim(0, 120 if edition == "quick" else None)
                axes.set_ylim(bottom=40 if edition == "quick" else None)
    return {"speedup": figure} | noise.pictures(results)


def _speedup(axes: Axes, edition: str, results: Results, split: str) -> None:
    target = TARGET[edition][split]
    series = {
        label: {n: cell(split, n) for n in N}
        for label, cell in (("same rates", by_n), ("server rate × n", scaled))
    }
    draw.costs(axes, results, series, target, draw.steps)
    took = {n: rounds_to(edition, results, scaled(split, n), split) for n in N}
    if there := {n: spread.mean for n, spread in took.items() if spread.reached}:
        first, value = next(iter(there.items()))
        line = [value * first / n for n in N]
        axes.plot(N, line, color="#999999", linestyle=":", label="∝ 1/n")
    draw.loglog(axes, N)
    draw.titled(
        axes,
        f"{split}: server steps to {target:.0%}",
        "updates per server step, n",
        "server steps",
        "best",
    )
