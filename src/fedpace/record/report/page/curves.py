"""Metrics over steps, virtual time and traffic: a line per group, its interval as a band, its seeds thin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from fedpace.record.report.page import svg
from fedpace.record.report.page.groups import RunGroup, card, cards, repeat_word, section
from fedpace.record.report.points import EPSILON, Points, points, spans_decades
from fedpace.record.run.units import byte_unit
from fedpace.statistics import clipped, estimate

MOST_METRICS = 6
Goal = tuple[str, float]


def curves(groups: Sequence[RunGroup], target: Goal | None) -> str:
    """A row of three charts for each metric."""
    every = [stored.run for group in groups for stored in group.runs]
    unit, name = byte_unit(max(run.bytes_up + run.bytes_down for run in every))
    axes = ("server steps", "virtual seconds", f"{name} sent, up and down")
    made = [
        _chart(groups, metric, place, axis, unit, target)
        for metric in _metrics(groups)
        for place, axis in enumerate(axes)
    ]
    bands = any(len(group.runs) > 1 for group in groups)
    word = repeat_word(stored for group in groups for stored in group.runs)
    note = f"<p><small>Thick: the mean over {word}s, with its 95 % t-interval; thin: each {word}.</small></p>"
    return section("Curves", (cards(made) if made else "<p>Not evaluated.</p>") + note * bool(bands and made))


def _metrics(groups: Sequence[RunGroup]) -> list[str]:
    """Accuracy and loss first; what private runs spent last."""
    known = dict.fromkeys(n for group in groups for stored in group.runs for n in stored.run.metrics)
    first = [name for name in ("accuracy", "loss") if name in known]
    shown = [*first, *(name for name in known if name not in first)][:MOST_METRICS]
    private = any(stored.run.privacy is not None for group in groups for stored in group.runs)
    return [*shown, *[EPSILON] * (private and EPSILON not in shown)]


def _chart(
    groups: Sequence[RunGroup], metric: str, place: int, axis: str, unit: float, target: Goal | None
) -> str:
    series = [each for group in groups for each in _series(group, metric, place, unit)]
    log = "loss" in metric and spans_decades(y for each in series for y in each.ys)
    goal = target[1] if target is not None and target[0] == metric else None
    chart = svg.line_chart(series, axis, metric, log=log, goal=goal)
    return card(f"{metric} over {axis}", chart, readout=True)


def _series(group: RunGroup, metric: str, place: int, unit: float) -> Iterator[svg.Series]:
    """The mean where all seeds were evaluated after the same steps, else every seed as a line of its own."""
    found = [points(stored.run, metric, unit) for stored in group.runs]
    if len(found) == 1 or any(each.steps != found[0].steps for each in found):
        for stored, each in zip(group.runs, found, strict=True):
            yield svg.Series(stored.label, group.colour, each[place], each.values)
        return
    for stored, each in zip(group.runs, found, strict=True):
        yield svg.Series(stored.label, group.colour, each[place], each.values, thin=True)
    yield _mean(group, found, place, metric)


def _mean(group: RunGroup, seeds: Sequence[Points], place: int, metric: str) -> svg.Series:
    xs = [fmean(values) for values in zip(*(each[place] for each in seeds), strict=True)]
    columns = zip(*(each.values for each in seeds), strict=True)
    found = [clipped(estimate(values), metric) for values in columns]
    band = [(each.low or 0.0, each.high or 0.0) for each in found]
    return svg.Series(group.label, group.colour, xs, [each.mean for each in found], band=band)
