"""Tables and pictures of large server rates, and what is measured on each curve."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.experiment import Table
from fedpace.reproduce.fedgm.large_lr_cells import BETA, FEDAVG, FEDGM, FIGURE_7, curve
from fedpace.reproduce.fedgm.setting import LAST
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.tables import Columns, measured
from fedpace.reproduce.training_curves import METRIC

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def tables(edition: str, results: Results) -> list[Table]:
    columns: Columns = {
        "mean of the first quarter %": (first_quarter, 1),
        "jumps late (points)": (jitter, 2),
        "final loss": (late_loss, 2),
    }
    table = measured(results, LAST, 1, columns, title="Measured")
    again = set(map(curve, FIGURE_7))  # the plain runs once more, for their training loss
    return [table._replace(rows=[row for row in table.rows if row[0] not in again])]


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    with draw.style():
        figure, ((left, right),) = draw.sheet(2, width=5.2, sharey=True)
        draw.curves(left, results, {f"rate {eta}": f"FedAvg rate {eta}" for eta in FEDAVG})
        draw.titled(left, "FedAvg, by server rate", "server steps", "test accuracy, %", "lower right")
        draw.curves(right, results, {f"rate {eta}": f"FedGM rate {eta}" for eta in FEDGM})
        draw.titled(right, f"FedGM (β = ν = {BETA}), by server rate", "server steps", "", "lower right")
    return {"rates": figure, **_training_curves(results)}


def _training_curves(results: Results) -> dict[str, Figure]:
    """Figure 7: training loss, its first and its last quarter."""
    if not results.have(*map(curve, FIGURE_7)):
        return {}
    rounds = results.cells[curve(1)].rounds
    with draw.style():
        figure, ((left, right),) = draw.sheet(2, width=5.2)
        for axes, title, span in (
            (left, "first quarter of the run", (0, rounds // 4)),
            (right, "last quarter of the run", (3 * rounds // 4, rounds)),
        ):
            draw.curves(axes, results, {f"rate {eta}": curve(eta) for eta in FIGURE_7}, metric=METRIC)
            axes.set_xlim(*span)
            draw.titled(axes, f"FedGM, {title}", "server steps", METRIC, "upper right")
        left.set_ylim(0, 1.5)
        right.set_ylim(0.2, 0.6)
    return {"training": figure}


# ------------------------------------------------------------------------------------------ measures


def jitter(outcome: Outcome) -> float:
    """Mean change of accuracy between neighbouring evaluations in the last quarter, in points."""
    return 100 * late_change(outcome.values())


def late_change(values: Sequence[float]) -> float:
    late = values[-max(2, len(values) // 4) :]
    return statistics.fmean(abs(b - a) for a, b in zip(late, late[1:], strict=False))


def first_quarter(outcome: Outcome) -> float:
    values = outcome.values()
    return 100 * statistics.fmean(values[: max(1, len(values) // 4)])


def late_loss(outcome: Outcome) -> float | None:
    return None if outcome.diverged else outcome.final("loss", LAST)
