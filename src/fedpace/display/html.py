"""Pieces of HTML for notebooks. Colours are the page's own, or shades of one that is read on white and on black."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

from fedpace.untrusted import visible

BLUE = "#2a8fd0"
WIDTH, HEIGHT = 210, 70  # of a curve, in pixels


def text(value: object) -> str:
    """Anything as text that is nothing but text."""
    return escape(visible(str(value)))


def card(title: str, *parts: str) -> str:
    """A title over some pieces."""
    style = "font:13px/1.5 system-ui,sans-serif;max-width:60em;padding:4px 0"
    inside = "".join(f'<div style="margin-top:6px">{part}</div>' for part in parts if part)
    return f'<div style="{style}"><b style="font-size:15px">{text(title)}</b>{inside}</div>'


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Labels and values in two columns; values are HTML."""
    cells = "".join(
        f'<span style="opacity:.65">{text(label)}</span><span>{value}</span>' for label, value in rows
    )
    return f'<div style="display:grid;grid-template-columns:max-content auto;gap:1px 18px">{cells}</div>'


def rule(value: Any) -> str:
    """A rule by its name, with its settings; those that are as by default are pale."""
    if not is_dataclass(value):
        return f"<code>{text(repr(value))}</code>"
    shown = (_setting(value, each) for each in fields(value))
    return f"<b>{text(type(value).__name__)}</b> {' '.join(part for part in shown if part)}"


def _setting(value: Any, field: Any) -> str:
    given = getattr(value, field.name)
    if given is None:
        return ""
    pale = "opacity:.55" if given == field.default else ""
    return f'<span style="margin-left:.6em;{pale}">{text(field.name)}={text(repr(given))}</span>'


def bar(label: str, done: int, total: int, status: str) -> str:
    """How much is done, over a line that says what there is by now."""
    full = (
        f'<div style="width:{100 * done / total:.1f}%;height:100%;background:{BLUE};border-radius:3px"></div>'
    )
    frame = "width:20em;height:8px;border-radius:3px;background:rgba(128,128,128,.25);margin:3px 0"
    line = f'<span style="opacity:.65">step {done:,} of {total:,}&ensp;{text(status)}</span>'
    return f'<div style="font:13px/1.5 system-ui,sans-serif">{text(label)}<div style="{frame}">{full}</div>{line}</div>'


def curves(drawn: Iterable[str]) -> str:
    """Curves side by side, below each other where the page is narrow."""
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px 28px">{"".join(drawn)}</div>'


def curve(label: str, xs: Sequence[float], ys: Sequence[float], below: str) -> str:
    """A small picture of y over x, with its first and last value."""
    low, high, end = min(ys), max(ys), max(xs) or 1.0
    height, width = (high - low) or 1.0, WIDTH - 8
    at = [(4 + width * x / end, 4 + (HEIGHT - 8) * (high - y) / height) for x, y in zip(xs, ys, strict=True)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    last_x, last_y = at[-1]
    picture = (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{text(label)}">'
        f'<path d="M4 {HEIGHT - 4}H{WIDTH - 4}" stroke="currentColor" stroke-opacity=".3"/>'
        f'<polyline points="{line}" fill="none" stroke="{BLUE}" stroke-width="1.8"/>'
        f'<circle cx="{last_x:.1f}" cy="{last_y:.1f}" r="3" fill="{BLUE}"/></svg>'
    )
    change = f"{ys[0]:.4g} → <b>{ys[-1]:.4g}</b>" if len(ys) > 1 else f"<b>{ys[0]:.4g}</b>"
    under = f'<div style="opacity:.65;font-size:11px">{text(below)}</div>'
    return f"<div><div>{text(label)} {change}</div>{picture}{under}</div>"


def heat(rows: Sequence[Sequence[int]], across: str, down: str) -> str:
    """A grid of shades, the largest number the darkest; every column has its total as a bar above it."""
    columns, most = len(rows[0]), max(max(row) for row in rows) or 1
    totals = [sum(row[k] for row in rows) for k in range(columns)]
    cell, row_height, bars = max(3.0, min(16.0, 640 / columns)), 12, 34
    boxes = [
        _box(k * cell, bars - 2 - 30 * total / max(totals), cell - 0.6, 30 * total / max(totals), 0.9)
        for k, total in enumerate(totals)
    ]
    boxes += [
        _box(k * cell, bars + r * row_height, cell - 0.6, row_height - 0.6, count / most)
        for r, row in enumerate(rows)
        for k, count in enumerate(row)
        if count
    ]
    size = f'width="{columns * cell:.0f}" height="{bars + row_height * len(rows)}"'
    note = f'<div style="opacity:.65;font-size:11px">{text(across)} →, {text(down)} ↓; bars: samples</div>'
    return f'<div style="overflow-x:auto"><svg {size}>{"".join(boxes)}</svg></div>{note}'


def _box(x: float, y: float, width: float, height: float, shade: float) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{BLUE}" fill-opacity="{0.12 + 0.88 * shade:.2f}"/>'
