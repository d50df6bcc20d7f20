"""Tables and pictures of autonomous FedGM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.experiment import Table
from fedpace.reproduce.fedgm.autonomous_cells import DELAYS, IDEAL, PLACES, SHOWN, auto, grids
from fedpace.reproduce.fedgm.setting import LAST, LATE_LOSS
from fedpace.reproduce.results import Results
from fedpace.reproduce.training_curves import METRIC, have_training_loss

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def tables(edition: str, results: Results) -> list[Table]:
    rows = []
    for grid in grids(edition):
        if not results.have(name := grid.name):
            continue
        chosen = grid.chosen(results)
        stale = results.spread(name, lambda outcome: outcome.mean_staleness)
        setting = "" if chosen is None else chosen.name.removeprefix(f"grid {name}, ")
        trained = results.spread(name, LATE_LOSS)
        rows.append(
            (name, setting, f"{results.final(name, last=LAST):.2f}", f"{trained:.4f}", f"{stale:.2f}")
        )
    header = ("", "setting", "test accuracy %", "training loss", "mean staleness")
    return [Table("At the end", header, rows)]


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    ran = [where for where in PLACES if results.have(auto("FedGM", where), auto("FedAvg", where))]
    if not ran:
        return {}
    with draw.style():
        figure, (row,) = draw.sheet(len(ran), width=4.6, sharey=True)
        for axes, where in zip(row, ran, strict=True):
            draw.curves(axes, results, _shown(where), smooth=3)
            title = where if isinstance(where, str) else f"one of the last {where} models"
            draw.titled(axes, f"Autonomous, {title}", "server steps", "test accuracy, %", "lower right")
        row[0].set_ylim(bottom=55 if edition == "quick" else None)
    return {"autonomous": figure, **_training_curves(results)}


def _shown(where: int | str) -> dict[str, str]:
    return {"FedGM, no delay": IDEAL, **{method: auto(method, where) for method in ("FedGM", "FedAvg")}}


def _training_curves(results: Results) -> dict[str, Figure]:
    """Figures 1 (c) and 9 (a)."""
    if not have_training_loss(results, SHOWN):
        return {}
    with draw.style():
        figure, (row,) = draw.sheet(len(DELAYS), width=4.6, sharey=True)
        for axes, where in zip(row, DELAYS, strict=True):
            draw.curves(axes, results, _shown(where), metric=METRIC, smooth=3)
            draw.titled(
                axes, f"Autonomous, one of the last {where} models", "server steps", METRIC, "upper right"
            )
        row[0].set_ylim(top=1.0)
    return {"training": figure}
