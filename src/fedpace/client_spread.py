"""One metric over all clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedpace.vector import Vector

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, eq=False)
class ClientSpread:
    """One metric over all clients: averages hide clients that are served badly."""

    name: str
    values: Vector  # one per client; NaN where a client did not measure
    higher_is_better: bool = True

    @property
    def mean(self) -> float:
        return float(np.nanmean(self.values))

    @property
    def worst_tenth(self) -> float:
        """The mean over the worst 10 % of the clients, at least one."""
        known = self.values[~np.isnan(self.values)]
        ordered = np.sort(known if self.higher_is_better else -known)
        worst = float(ordered[: max(1, len(ordered) // 10)].mean())
        return worst if self.higher_is_better else -worst

    @property
    def quartiles(self) -> tuple[float, float, float]:
        low, median, high = np.nanquantile(self.values, (0.25, 0.5, 0.75))
        return float(low), float(median), float(high)

    def metrics(self) -> Mapping[str, float]:
        """The summary as named numbers, as they go into a history."""
        low, median, high = self.quartiles
        return {
            f"{self.name}_clients_mean": self.mean,
            f"{self.name}_clients_worst10": self.worst_tenth,
            f"{self.name}_clients_q25": low,
            f"{self.name}_clients_median": median,
            f"{self.name}_clients_q75": high,
        }

    def plot(self, path: str | Path | None = None) -> Figure:
        """The share of clients up to each value; saved too if a path is given."""
        from fedpace.display.figure import DisplayedFigure

        figure = DisplayedFigure(figsize=(5, 3.5), layout="constrained")
        axes = figure.subplots()
        axes.ecdf(self.values[~np.isnan(self.values)])
        axes.axvline(self.mean, color="#888888", linewidth=1, linestyle=":")
        axes.set_xlabel(f"{self.name} of a client")
        axes.set_ylabel("share of clients")
        if path is not None:
            figure.savefig(path)
        return figure
