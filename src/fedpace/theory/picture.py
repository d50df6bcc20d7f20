"""Shares p against the weights w that plain averaging gives: a bar picture, in text and drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedpace.theory.work import Work

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHARE, WEIGHT = "#0072B2", "#D55E00"  # Okabe and Ito's blue and vermilion


def bars(work: Work, rows: int = 12, width: int = 40) -> str:
    """Two bars per client; of many clients, those whose weight is most misplaced."""
    chosen = most_misplaced(work, rows)
    unit = width / max(float(work.p[chosen].max()), float(work.w[chosen].max()))
    lines = ["client        █ share of the objective   ▒ weight under plain averaging"]
    for client in chosen:
        p, w = float(work.p[client]), float(work.w[client])
        lines.append(f"{client:>6}  {p:6.1%} {'█' * round(p * unit)}")
        lines.append(f"{'':>6}  {w:6.1%} {'▒' * round(w * unit)}  x {work.ratio[client]:.2g}")
    if len(chosen) < work.clients:
        lines.append(f"... the {len(chosen)} of {work.clients} clients with the smallest and largest ratio")
    return "\n".join(lines)


def most_misplaced(work: Work, rows: int) -> list[int]:
    """Clients with a share, in order; of more than `rows`, those at both ends of w / p."""
    present = np.flatnonzero(work.p)
    if len(present) <= rows:
        return [int(client) for client in present]
    order = present[np.argsort(work.ratio[present], kind="stable")]
    ends = np.concatenate([order[: rows // 2], order[len(order) - rows // 2 :]])
    return [int(client) for client in ends]


def picture(work: Work, title: str = "Objective inconsistency of plain averaging") -> Figure:
    """Bars of p and w per client; for many clients the ratio w / p in ascending order."""
    from fedpace.display.figure import DisplayedFigure

    figure = DisplayedFigure(figsize=(7.5, 3.6), layout="constrained")
    axes = figure.subplots()
    if work.clients <= 24:
        _pairs(axes, work)
    else:
        _ratios(axes, work)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(
        f"{title}\nchi-squared {work.chi2:.3g}, {work.misplaced:.0%} of the weight misplaced",
        loc="left",
        fontsize=10,
    )
    return figure


def _pairs(axes: Axes, work: Work) -> None:
    at = np.arange(work.clients)
    axes.bar(at - 0.2, work.p, 0.4, color=SHARE, label="share p")
    axes.bar(at + 0.2, work.w, 0.4, color=WEIGHT, label="weight w under plain averaging")
    axes.set_ylabel("share of the average")
    axes.set_xticks(at)
    axes.set_xlabel("client")
    axes.legend(frameon=False)


def _ratios(axes: Axes, work: Work) -> None:
    ratio = np.sort(work.ratio[work.p > 0])
    axes.bar(np.arange(len(ratio)), ratio - 1, 1.0, bottom=1.0, color=WEIGHT)
    axes.axhline(1.0, color=SHARE, linewidth=1.5)
    axes.set_xlabel("clients, in ascending order of w / p")
    axes.set_ylabel("w / p")
