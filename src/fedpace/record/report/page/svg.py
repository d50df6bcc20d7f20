"""Charts as inline SVG: plain text, sharp at any size, coloured by the page's style sheet.

Series are drawn in the classes s0, s1, ...; everything else (axes, grid, labels) has classes of its own, so that
light and dark pages, screens and paper need one chart.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedpace.record.report.page.text import escape

WIDTH, HEIGHT = 420, 250
LEFT, RIGHT, TOP, BOTTOM = 50, 12, 10, 38
COLOURS = 7


@dataclass(frozen=True, slots=True)
class Series:
    """A line: its number is its colour."""

    label: str
    colour: int
    xs: Sequence[float]
    ys: Sequence[float]
    thin: bool = False  # one seed among others: the pointer does not tell of it
    band: Sequence[tuple[float, float]] = ()  # the interval at each point


@dataclass(frozen=True, slots=True)
class Dot:
    """A point and what it says when pointed at."""

    x: float
    y: float
    colour: int
    title: str


@dataclass(frozen=True, slots=True)
class Scale:
    """From data to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from `low` to `high`, about `count` of them."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(m * unit for m in (1, 2, 2.5, 5, 10) if m * unit >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


def number(value: float) -> str:
    """A tick's label: `0.25`, `1,200`, `3e-05`."""
    if value and abs(value) < 1e-3:
        return f"{value:.0e}"
    return f"{value:,.10g}" if abs(value) < 1e6 else f"{value:.3g}"


def line_chart(
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    *,
    log: bool = False,
    zero: bool = False,
    goal: float | None = None,
) -> str:
    """Lines over a common plane; the page's script reads the points to answer the pointer.

    `zero`: values are shown from 0 on. `goal`: a level to reach.
    """
    drawn = [each for each in series if len(each.xs)]
    if not drawn:
        return _empty(y_label)
    logs = log and all(y > 0 for each in drawn for y in each.ys)
    lifted = [[math.log10(y) if logs else y for y in each.ys] for each in drawn]
    level = [] if goal is None or (logs and goal <= 0) else [math.log10(goal) if logs else goal]
    x = Scale(*_span([v for each in drawn for v in each.xs], zero=True), LEFT, WIDTH - RIGHT)
    y = Scale(*_span([*(v for ys in lifted for v in ys), *level], zero=zero), HEIGHT - BOTTOM, TOP)
    parts = [_axes(x, y, x_label, y_label, logs=logs), *(_goal(y(at), goal) for at in level)]
    parts += [_band(each, x, y) for each in drawn if each.band and not logs]
    for each, ys in zip(drawn, lifted, strict=True):
        points = [(x(a), y(b)) for a, b in zip(each.xs, ys, strict=True)]
        parts.append(_line(points, each))
    data = [
        {"label": each.label, "colour": each.colour, "x": _rounded(each.xs), "y": _rounded(each.ys)}
        for each in drawn
        if not each.thin
    ]
    plane = {"x": [x.low, x.high], "y": [y.low, y.high], "log": logs, "name": x_label, "series": data}
    return _svg("".join(parts), y_label + " over " + x_label, f" data-plane='{escape(json.dumps(plane))}'")


def bar_chart(groups: Sequence[tuple[str, Sequence[float]]], x_label: str, y_label: str) -> str:
    """One group of bars per label, one bar per series in it."""
    if not groups or not any(any(values) for _, values in groups):
        return _empty(y_label)
    y = Scale(*_span([0.0, *(v for _, values in groups for v in values)], zero=True), HEIGHT - BOTTOM, TOP)
    each = (WIDTH - LEFT - RIGHT) / len(groups)
    parts = [_frame(x_label, y_label), _y_grid(y)]
    step = max(1, math.ceil(len(groups) / 12))
    for at, (label, values) in enumerate(groups):
        width = 0.8 * each / len(values)
        for place, value in enumerate(values):
            left, top = LEFT + (at + 0.1) * each + place * width, y(value)
            title = f"<title>{escape(label)}: {number(round(value, 4))}</title>"
            size = f'width="{max(width - 1, 0.5):.1f}" height="{y(0) - top:.1f}"'
            parts.append(
                f'<rect class="s{place % COLOURS}" x="{left:.1f}" y="{top:.1f}" {size}>{title}</rect>'
            )
        if at % step == 0:
            parts.append(_text(LEFT + (at + 0.5) * each, HEIGHT - BOTTOM + 14, label, "middle"))
    return _svg("".join(parts), f"{y_label} by {x_label}")


def scatter(dots: Sequence[Dot], x_label: str, y_label: str) -> str:
    """Points over a plane."""
    if not dots:
        return _empty(y_label)
    x = Scale(*_span([dot.x for dot in dots], zero=True), LEFT, WIDTH - RIGHT)
    y = Scale(*_span([dot.y for dot in dots]), HEIGHT - BOTTOM, TOP)
    circles = [
        f'<circle class="s{dot.colour} dim" cx="{x(dot.x):.1f}" cy="{y(dot.y):.1f}" r="3.5">'
        f"<title>{escape(dot.title)}</title></circle>"
        for dot in dots
    ]
    return _svg(_axes(x, y, x_label, y_label, logs=False) + "".join(circles), f"{y_label} by {x_label}")


def heat_map(columns: Sequence[Sequence[int]], x_label: str, y_label: str) -> str:
    """One column of cells each, darker for more; the first entry is at the bottom."""
    most = max((count for column in columns for count in column), default=0) or 1
    wide = (WIDTH - LEFT - RIGHT) / max(len(columns), 1)
    high = (HEIGHT - TOP - BOTTOM) / max(len(columns[0]), 1)
    parts = [_frame(x_label, y_label)]
    for at, column in enumerate(columns):
        for place, count in enumerate(column):
            if count:
                left, top = LEFT + at * wide, HEIGHT - BOTTOM - (place + 1) * high
                size = f'width="{max(wide - 0.5, 0.5):.1f}" height="{max(high - 0.5, 0.5):.1f}"'
                share = f'fill-opacity="{0.12 + 0.88 * count / most:.2f}"'
                tip = f"<title>{x_label} {at}, {y_label} {place}: {count:,}</title>"
                parts.append(f'<rect class="s0" x="{left:.1f}" y="{top:.1f}" {size} {share}>{tip}</rect>')
    for at in _few(len(columns)):
        parts.append(_text(LEFT + (at + 0.5) * wide, HEIGHT - BOTTOM + 14, str(at), "middle"))
    for place in _few(len(columns[0])):
        parts.append(_text(LEFT - 6, HEIGHT - BOTTOM - (place + 0.5) * high + 4, str(place), "end"))
    return _svg("".join(parts), f"{y_label} by {x_label}")


def gantt(rows: Sequence[tuple[str, Sequence[tuple[float, float, str, str]]]], end: float) -> str:
    """One row per label with bars (start, end, class, title); time to the right."""
    width, line = 900, 13
    height = TOP + line * len(rows) + BOTTOM
    x = Scale(0.0, end, LEFT, width - RIGHT)
    parts = []
    for tick in ticks(0.0, end, 9):
        parts.append(
            f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>'
        )
        parts.append(_text(x(tick), height - BOTTOM + 15, number(tick), "middle"))
    for at, (label, bars) in enumerate(rows):
        top = TOP + at * line
        parts.append(_text(LEFT - 6, top + line - 3, label, "end"))
        for start, stop, kind, title in bars:
            size = f'width="{max(x(min(stop, end)) - x(start), 0.4):.1f}" height="{line - 3}"'
            tip = f"<title>{escape(title)}</title>"
            parts.append(f'<rect class="{kind}" x="{x(start):.1f}" y="{top + 1}" {size}>{tip}</rect>')
    parts.append(_text((LEFT + width) / 2, height - 6, "virtual seconds", "middle", "label"))
    return _svg("".join(parts), "client timeline", width=width, height=height)


# ------------------------------------------------------------ parts


def _svg(inside: str, title: str, more: str = "", width: int = WIDTH, height: int = HEIGHT) -> str:
    box = f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}"'
    return f'<svg class="chart" {box}{more}>{inside}</svg>'


def _empty(what: str) -> str:
    note = _text(WIDTH / 2, HEIGHT / 2, f"{what}: not evaluated", "middle", "label")
    return _svg(note, what)


def _axes(x: Scale, y: Scale, x_label: str, y_label: str, *, logs: bool) -> str:
    parts = [_frame(x_label, y_label), _y_grid(y, logs=logs)]
    for tick in ticks(x.low, x.high, 5):
        parts.append(_text(x(tick), HEIGHT - BOTTOM + 14, number(tick), "middle"))
    return "".join(parts)


def _frame(x_label: str, y_label: str) -> str:
    bottom = HEIGHT - BOTTOM
    middle = (TOP + bottom) / 2
    axis = f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    turned = f'<text class="label" text-anchor="middle" transform="translate(12 {middle:.0f}) rotate(-90)">'
    below = _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_label, "middle", "label")
    return f"{axis}{turned}{escape(y_label)}</text>{below}"


def _y_grid(y: Scale, *, logs: bool = False) -> str:
    parts = []
    for tick in ticks(y.low, y.high, 5):
        at = y(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(_text(LEFT - 6, at + 4, number(float(f"{10**tick:.2g}") if logs else tick), "end"))
    return "".join(parts)


def _few(count: int) -> range:
    """Places of at most a dozen labels."""
    return range(0, count, max(1, math.ceil(count / 12)))


def _goal(y: float, value: float | None) -> str:
    line = f'<line class="goal" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return line + _text(LEFT + 4, y - 4, f"target {value:g}", "start")


def _band(series: Series, x: Scale, y: Scale) -> str:
    """Between the ends of the intervals, as far as the axis shows them."""
    low, high = min(y.low, y.high), max(y.low, y.high)
    ends = [(min(max(a, low), high), min(max(b, low), high)) for a, b in series.band]
    there = [f"{x(at):.1f},{y(top):.1f}" for at, (_, top) in zip(series.xs, ends, strict=True)]
    back = [f"{x(at):.1f},{y(bottom):.1f}" for at, (bottom, _) in zip(series.xs, ends, strict=True)]
    return f'<polygon class="s{series.colour} band" points="{" ".join([*there, *reversed(back)])}"/>'


def _line(points: Sequence[tuple[float, float]], series: Series) -> str:
    title = f"<title>{escape(series.label)}</title>"
    if len(points) == 1:
        [(x, y)] = points
        return f'<circle class="s{series.colour}" cx="{x:.1f}" cy="{y:.1f}" r="4">{title}</circle>'
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    kind = "line thin" if series.thin else "line"
    return f'<polyline class="s{series.colour} {kind}" points="{path}">{title}</polyline>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _span(values: Iterable[float], *, zero: bool = False) -> tuple[float, float]:
    """What an axis shows: all values, from one round number to another; from 0 where that is asked for."""
    known = list(values)
    low, high = min(known), max(known)
    from_zero = zero and low >= 0
    room = (high - low) * 0.02 or abs(high) * 0.1 or 1.0
    ends = (0.0 if from_zero else low - room, high if from_zero and high > 0 else high + room)
    for _ in range(4):  # a wider axis may have another step
        ends = _widened(*ends)
    return _kept(ends[0], low, 0.0), _kept(ends[1], high, 1.0)


def _widened(low: float, high: float) -> tuple[float, float]:
    """To the multiples of the ticks' step at or beyond both ends."""
    marks = ticks(low, high)
    step = marks[1] - marks[0] if len(marks) > 1 else high - low
    if step <= 0:  # values too small to be told apart by their labels
        return low, high
    wide = math.floor(low / step + 1e-6) * step, math.ceil(high / step - 1e-6) * step
    return low if math.isclose(wide[0], low) else wide[0], high if math.isclose(wide[1], high) else wide[1]


def _kept(end: float, value: float, bound: float) -> float:
    """Shares stay between 0 and 1: an axis does not go beyond a bound that the values keep."""
    beyond = end > bound >= value if bound else end < bound <= value
    return bound if beyond else end


def _rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
