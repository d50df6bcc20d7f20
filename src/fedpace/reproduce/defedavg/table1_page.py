"""Tables and pictures of DeFedAvg's Table 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.defedavg import cifar, curves
from fedpace.reproduce.defedavg.setting import CENSORED, OURS, SAVING, SCALES, SECONDS, N, Pair
from fedpace.reproduce.defedavg.table1_cells import (
    METHODS,
    ORDER,
    TITLES,
    cap_s,
    name,
    numbers,
    printed_name,
    rates,
    taken,
)
from fedpace.reproduce.experiment import Table
from fedpace.reproduce.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PUBLISHED = SCALES["full"].target


def tables(edition: str, results: Results) -> list[Table]:
    return [
        Table(
            f"Seconds to {SCALES[edition].target[split]:.0%}, {TITLES[split]} (published: to {PUBLISHED[split]:.0%})",
            ("", "rates for n = 10 / 20 / 40 / 80", *(f"n = {n}" for n in N), *(f"published {n}" for n in N)),
            [
                *(_line(edition, results, split, method) for method in methods),
                _ratios(edition, results, split),
            ],
        )
        for split, methods in METHODS.items()
    ] + cifar.tables(results)


def _line(edition: str, results: Results, split: str, method: str) -> tuple[str, ...]:
    pairs = [rates(edition, split, method, at, results) for at in range(len(numbers(method)))]
    ours = [ended(edition, results, split, method, n) for n in N]
    ours[len(pairs) :] = ["as FedBuff"] * (len(N) - len(pairs))
    printed = () if method == SAVING else SECONDS[split].get(printed_name(method), ())
    theirs = [printed_seconds(value) for value in printed] or [""] * 4
    return (method, " / ".join(map(_shown, pairs)), *ours, *theirs)


def ended(edition: str, results: Results, split: str, method: str, n: int) -> str:
    """Seconds to the target, or how a method ended that did not get there in any run."""
    own = taken(edition, results, split, method, n)
    if own.values or not own.missed:
        return f"{own:.2f}"
    lost = all(run.diverged for run in results.of(name(split, method, n)))
    return "diverged" if lost else f"> {cap_s(edition, split, method, n):.0f}"


def _ratios(edition: str, results: Results, split: str) -> tuple[str, ...]:
    """How many times as long FedAvg takes: shown and not judged, since it depends on network and target."""
    done = compared_at(results, split)
    ours = [quotient(edition, results, split, n) if n in done else "" for n in N]
    theirs = [f"{a / b:.2f}" for a, b in zip(SECONDS[split]["FedAvg"], SECONDS[split][OURS], strict=True)]
    return ("FedAvg / DeFedAvg", "", *ours, *theirs)


def quotient(edition: str, results: Results, split: str, n: int, method: str = OURS) -> str:
    """How many times as long FedAvg takes."""
    slow, fast = (taken(edition, results, split, name, n) for name in ("FedAvg", method))
    if not fast.reached:
        return f"{method} in {len(fast.values)} of {len(fast.values) + fast.missed} runs"
    if not slow.reached:
        return f"> {cap_s(edition, split, 'FedAvg', n) / fast.mean:.2f}"
    return f"{slow.mean / fast.mean:.2f}"


def compared_at(results: Results, split: str) -> list[int]:
    """The n that DeFedAvg and FedAvg were run at."""
    return [n for n in N if results.have(name(split, "FedAvg", n), name(split, OURS, n))]


def _shown(pair: Pair | None) -> str:
    return "" if pair is None else ", ".join("–" if rate is None else f"{rate:g}" for rate in pair)


def printed_seconds(seconds: float) -> str:
    return f"> {seconds:.0f}" if seconds == CENSORED else f"{seconds:g}"


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    with draw.style():
        figure, grid = draw.sheet(3, 2, width=4.3)
        for row, (split, methods) in zip(grid, METHODS.items(), strict=True):
            shown = {method: name(split, method, 10) for method in methods}
            draw.curves(row[0], results, shown, draw.seconds, order=ORDER)
            row[0].axhline(100 * SCALES[edition].target[split], color="#999999", linestyle=":", linewidth=1)
            title = f"n = 10, {TITLES[split]}; runs end at {SCALES[edition].target[split]:.0%}"
            draw.titled(row[0], title, "virtual seconds", "test accuracy, %")
            _seconds(row[1], edition, results, split)
            _published(row[2], split)
        draw.legend_below(figure, (*grid[:, 2], *grid[:, 1]), 4)
    return {"seconds": figure, **{f"curves-{split}": curves.picture(results, split) for split in METHODS}}


def _seconds(axes: Axes, edition: str, results: Results, split: str) -> None:
    target = SCALES[edition].target[split]
    series = {method: {n: name(split, method, n) for n in numbers(method)} for method in METHODS[split]}
    draw.costs(axes, results, series, target, draw.seconds, ORDER)
    _loglog(axes, f"Seconds to {target:.0%}, here")


def _published(axes: Axes, split: str) -> None:
    for method in METHODS[split]:
        if theirs := SECONDS[split].get(method):
            late = [n for n, s in zip(N, theirs, strict=True) if s == CENSORED]
            values = dict(zip(N, theirs, strict=True))
            draw.marked(axes, values, method, ORDER.index(method), late, linestyle="--")
    _loglog(axes, f"Seconds to {PUBLISHED[split]:.0%}, published")


def _loglog(axes: Axes, title: str) -> None:
    draw.loglog(axes, N)
    draw.titled(axes, title, "updates per server step, n", "virtual seconds")
