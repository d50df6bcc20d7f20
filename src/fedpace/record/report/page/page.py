"""The page, part by part, top to bottom."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from fedpace.record.report.page import shares, svg
from fedpace.record.report.page.text import escape
from fedpace.record.report.points import EPSILON, points, spans_decades
from fedpace.record.run.run import Run
from fedpace.record.run.timeline import UNUSED, Stretch
from fedpace.record.run.units import byte_unit, format_bytes, format_seconds

MOST_CLIENTS = 24  # rows of a timeline
MOST_BARS = 1500  # in a timeline; later activity is left out
MOST_STALENESS = 20  # bars of the histogram; the rest is counted in the last


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run and its stored configuration."""

    label: str
    run: Run
    clients: int  # of the task, including those that never participated
    state: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)  # configuration, versions, machine, by name
    papers: Sequence[Any] = ()  # those to cite
    group: str = ""  # runs of one group differ in their seed only
    partition: Mapping[str, Any] | None = None  # samples per client, and per client and class


def page(
    runs: Sequence[StoredRun], title: str = "", target: tuple[str, float] | None = None, summary: str = ""
) -> str:
    """The whole page; it loads nothing from anywhere. `summary` is a table of the groups, as HTML."""
    named = title or _title(runs)
    parts = [
        _head(runs, named),
        _results(runs),
        _curves(runs),
        _timelines(runs),
        _participation(runs),
        _traffic(runs),
        _configuration(runs),
        _papers(runs),
    ]
    style, script = _asset("page.css"), _asset("page.js")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(named)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + f"\n<footer>Made by fedpace.</footer>\n</main>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return files("fedpace.record.report.page").joinpath(name).read_text(encoding="utf-8")


def _title(runs: Sequence[StoredRun]) -> str:
    algorithms = list(dict.fromkeys(stored.run.name for stored in runs))
    tasks = list(dict.fromkeys(stored.run.task for stored in runs))
    return f"{', '.join(algorithms)} on {', '.join(tasks)}"


def _head(runs: Sequence[StoredRun], title: str) -> str:
    legend = "".join(
        f'<li><span class="dot s{at % svg.COLOURS}"></span><b>{escape(stored.label)}</b></li>'
        for at, stored in enumerate(runs)
    )
    count = f"{len(runs)} run{'s' * (len(runs) > 1)}"
    clients = " or ".join(str(n) for n in dict.fromkeys(stored.clients for stored in runs))
    return (
        f"<header><h1>{escape(title)}</h1><p>{count}, {clients} clients, "
        f'each at its own pace.{_caution(runs)}</p><ul class="legend">{legend}</ul></header>'
    )


def _caution(runs: Sequence[StoredRun]) -> str:
    """A warning where runs of different experiments share their axes."""
    parts = {
        "task": {stored.run.task for stored in runs},
        "number of clients": {str(stored.clients) for stored in runs},
        "devices": {stored.facts.get("population", "") for stored in runs},
    }
    unlike = [name for name, values in parts.items() if len(values) > 1]
    return f" Warning: they differ in {' and '.join(unlike)}." if unlike else ""


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{inside}</section>"


def _card(title: str, inside: str, *, readout: bool = False) -> str:
    below = '<div class="readout"></div>' if readout else ""
    return f'<div class="card"><h3>{escape(title)}</h3>{inside}{below}</div>'


# ------------------------------------------------------------ results and curves


def _results(runs: Sequence[StoredRun]) -> str:
    private = any(stored.run.privacy is not None for stored in runs)
    outcome = ("accuracy", "loss", *["privacy"] * private, "steps", "virtual time", "up", "down", "real time")
    header = ("run", "algorithm", "task", *outcome, "state")
    rows = [
        (
            stored.label,
            stored.run.name,
            stored.run.task,
            *(_measured(stored.run, name) for name in ("accuracy", "loss")),
            *(["" if stored.run.privacy is None else str(stored.run.privacy)] if private else []),
            f"{len(stored.run.history):,}",
            format_seconds(stored.run.virtual_seconds),
            format_bytes(stored.run.bytes_up),
            format_bytes(stored.run.bytes_down),
            format_seconds(stored.run.summary["real_seconds"])
            if "real_seconds" in stored.run.summary
            else "",
            stored.state,
        )
        for stored in runs
    ]
    return _section("Results", f'<div class="card scroll">{_table(header, rows)}</div>')


def _measured(run: Run, name: str) -> str:
    return f"{run.metrics[name]:.4f}" if name in run.metrics else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _curves(runs: Sequence[StoredRun]) -> str:
    unit, name = byte_unit(max(stored.run.bytes_up + stored.run.bytes_down for stored in runs))
    axes = ("server steps", "virtual seconds", f"{name} sent, up and down")
    cards = []
    for metric in ("accuracy", "loss", EPSILON):
        if any(points(stored.run, metric, unit).values for stored in runs):
            for place, axis in enumerate(axes):
                series = [_series(at, stored, metric, place, unit) for at, stored in enumerate(runs)]
                chart = svg.line_chart(
                    series,
                    axis,
                    metric,
                    log=metric == "loss" and spans_decades(y for each in series for y in each.ys),
                )
                cards.append(_card(f"{metric} over {axis}", chart, readout=True))
    inside = "".join(cards) or "<p>Not evaluated.</p>"
    return _section("Curves", f'<div class="grid-of-cards">{inside}</div>')


def _series(at: int, stored: StoredRun, metric: str, place: int, unit: float) -> svg.Series:
    found = points(stored.run, metric, unit)
    return svg.Series(stored.label, at % svg.COLOURS, found[place], found.values)


# ------------------------------------------------------------ client timeline, staleness, participation


def _timelines(runs: Sequence[StoredRun]) -> str:
    cards = [_timeline(stored) for stored in runs if stored.run.activities]
    legend = "".join(
        f'<li><span class="dot {kind}"></span>{text}</li>'
        for kind, text in (
            ("download", "download"),
            ("train", "training"),
            ("wait", "finished, waiting for a poll"),
            ("upload", "upload"),
            ("wasted", "training, unused"),
        )
    )
    return _section("Client timeline", f'{"".join(cards)}<ul class="legend">{legend}</ul>') if cards else ""


def _timeline(stored: StoredRun) -> str:
    bars: dict[int, list[Stretch]] = defaultdict(list)
    for stretch in stored.run.timeline():
        if stretch.kind not in ("idle", "step"):
            bars[stretch.client].append(stretch)
    chosen = {client: bars[client] for client in sorted(bars)[:MOST_CLIENTS]}
    end = _window(chosen, stored.run.virtual_seconds)
    rows = [
        (str(client), [(s.start, s.end, _colour(s), _tip(s)) for s in own if s.start < end])
        for client, own in chosen.items()
    ]
    shown = f"{stored.label}: clients {rows[0][0]} to {rows[-1][0]}, the first {format_seconds(end)}"
    return f'<div class="card scroll" style="margin-bottom:16px"><h3>{escape(shown)}</h3>{svg.gantt(rows, end)}</div>'


def _window(bars: Mapping[int, Sequence[Stretch]], end: float) -> float:
    """From the beginning to where there are as many bars as a page can show."""
    starts = sorted(stretch.start for own in bars.values() for stretch in own)
    cut = starts[MOST_BARS] if len(starts) > MOST_BARS else end
    return cut or max(stretch.end for own in bars.values() for stretch in own)


def _colour(stretch: Stretch) -> str:
    unused = stretch.kind == "train" and stretch.fate in UNUSED
    return "wasted" if unused else stretch.kind


def _tip(stretch: Stretch) -> str:
    fate = f", {stretch.fate}" if stretch.fate else ""
    step = f" by step {stretch.step}" if stretch.step is not None else ""
    model = f", model {stretch.version}" if stretch.version is not None else ""
    return f"{stretch.kind} {stretch.start:.4g} to {stretch.end:.4g} s{model}{fate}{step}"


def _participation(runs: Sequence[StoredRun]) -> str:
    counts = [shares.participation(stored.run.history) for stored in runs]
    cards = [
        _card("Staleness of updates", _stale_chart(runs)),
        _card("Participation per client, in descending order", _share_chart(runs, counts), readout=True),
        _card("Fairness of participation", _fairness(runs, counts)),
    ]
    return _section("Staleness and participation", f'<div class="grid-of-cards">{"".join(cards)}</div>')


def _stale_chart(runs: Sequence[StoredRun]) -> str:
    found = [shares.staleness(stored.run.history) for stored in runs]
    last = min(max((stale for counter in found for stale in counter), default=0), MOST_STALENESS)
    groups = []
    for stale in range(last + 1):
        label = f"{stale}+" if stale == MOST_STALENESS else str(stale)
        groups.append((label, [_share_of(counter, stale) for counter in found]))
    return svg.bar_chart(groups, "staleness in server steps", "share of updates")


def _share_of(counter: Mapping[int, int], stale: int) -> float:
    total = sum(counter.values()) or 1
    if stale < MOST_STALENESS:
        return counter.get(stale, 0) / total
    return sum(count for at, count in counter.items() if at >= stale) / total


def _share_chart(runs: Sequence[StoredRun], counts: Sequence[Sequence[int]]) -> str:
    series = []
    for at, (stored, own) in enumerate(zip(runs, counts, strict=True)):
        per_client = [*own, *[0] * (stored.clients - len(own))]
        series.append(
            svg.Series(
                stored.label, at % svg.COLOURS, [float(n + 1) for n in range(len(per_client))], per_client
            )
        )
    return svg.line_chart(series, "clients", "updates used")


def _fairness(runs: Sequence[StoredRun], counts: Sequence[Sequence[int]]) -> str:
    header = ("run", "participated", "Jain", "Gini")
    rows = []
    for stored, own in zip(runs, counts, strict=True):
        per_client = [*own, *[0] * (stored.clients - len(own))]
        took = f"{len(own)}/{stored.clients}"
        rows.append((stored.label, took, f"{shares.jain(per_client):.3f}", f"{shares.gini(per_client):.3f}"))
    note = "<p><small>Jain's index is 1 and Gini's 0 when all clients participate equally.</small></p>"
    return f'<div class="scroll">{_table(header, rows)}</div>{note}'


# ------------------------------------------------------------ traffic


def _traffic(runs: Sequence[StoredRun]) -> str:
    unit, name = byte_unit(max(max(stored.run.bytes_up, stored.run.bytes_down) for stored in runs))
    groups = [
        (direction, [getattr(stored.run, f"bytes_{direction}") / unit for stored in runs])
        for direction in ("up", "down")
    ]
    chart = _card(f"{name} by direction", svg.bar_chart(groups, "direction", name))
    lanes = _card("Frames by direction", f'<div class="scroll">{_lanes(runs)}</div>')
    return _section("Traffic", f'<div class="beside">{chart}{lanes}</div>')


def _lanes(runs: Sequence[StoredRun]) -> str:
    header = ("run", "", "frames", "payload", "headers", "control", "skipped", "compression error")
    rows = []
    for stored in runs:
        for direction in ("up", "down"):
            lane = stored.run.traffic.get(direction, {})
            if lane:
                sizes = [format_bytes(lane[f"{part}_bytes"]) for part in ("payload", "header", "control")]
                rates = [f"{lane[rate]:.1%}" for rate in ("firing_rate", "relative_error")]
                rows.append((stored.label, direction, f"{lane['frames']:,}", *sizes, *rates))
    return _table(header, rows) if rows else "<p>Not recorded.</p>"


# ------------------------------------------------------------ configuration and papers


def _configuration(runs: Sequence[StoredRun]) -> str:
    parts = []
    for stored in runs:
        facts = "".join(
            f"<dt>{escape(name)}</dt><dd>{_fact(name, text)}</dd>"
            for name, text in stored.facts.items()
            if text
        )
        parts.append(
            f'<details class="card"><summary>{escape(stored.label)}</summary><dl>{facts}</dl></details>'
        )
    return _section("Configuration", "".join(parts))


def _fact(name: str, text: str) -> str:
    if name != "algorithm":
        return f"<code>{escape(text)}</code>"
    rules = "<br>".join(escape(part) for part in _parts(text))
    return f"<code>{rules}</code>"


def _parts(text: str) -> list[str]:
    """`Algorithm(local=SGD(...), pace=...)` -> one text per rule."""
    inside = re.fullmatch(r"\w+\((.*)\)", text, re.DOTALL)
    pieces, depth = [""], 0
    for letter in inside[1] if inside else text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces]


def _papers(runs: Sequence[StoredRun]) -> str:
    papers = list(dict.fromkeys(paper for stored in runs for paper in stored.papers))
    if not papers:
        return ""
    items = "".join(f"<li>{_paper(paper)}</li>" for paper in papers)
    bibtex = escape("\n\n".join(paper.bibtex() for paper in papers))
    return _section(
        "Papers to cite",
        f'<ol class="papers">{items}</ol><details><summary>BibTeX</summary><pre>{bibtex}</pre></details>',
    )


def _paper(paper: Any) -> str:
    text = f"{escape(paper.short.removesuffix('.'))}. <i>{escape(paper.title)}</i>. {escape(paper.venue)} {paper.year}."
    if not paper.arxiv:
        return text
    return f'{text} <a href="https://arxiv.org/abs/{escape(paper.arxiv)}">arXiv:{escape(paper.arxiv)}</a>'
