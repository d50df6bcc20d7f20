"""The page, part by part, top to bottom."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from statistics import fmean
from typing import Any

from fedpace.privacy.spent import COVERED
from fedpace.record.report.page import svg
from fedpace.record.report.page.clients import participation, partition, timelines
from fedpace.record.report.page.curves import Goal, curves
from fedpace.record.report.page.groups import RunGroup, StoredRun, card, grouped, repeat_word, section, table
from fedpace.record.report.page.text import escape
from fedpace.record.run.run import Run
from fedpace.record.run.units import byte_unit, format_bytes, format_seconds

MOST_CHIPS = 12  # seeds that a group's configuration names


def page(runs: Sequence[StoredRun], title: str = "", target: Goal | None = None, summary: str = "") -> str:
    """The whole page; it loads nothing from anywhere. `summary` is a table of the groups, as HTML."""
    named, groups = title or _title(runs), grouped(runs)
    parts = [
        _head(groups, named, target),
        _results(runs, groups, summary),
        curves(groups, target),
        timelines(groups),
        participation(groups),
        partition(groups),
        _traffic(groups),
        _configuration(groups),
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


def _head(groups: Sequence[RunGroup], title: str, target: Goal | None) -> str:
    legend = "".join(
        f'<li><span class="dot s{group.colour}"></span><b>{escape(group.label)}</b></li>' for group in groups
    )
    runs = [stored for group in groups for stored in group.runs]
    seeds = len({stored.run.seed for stored in runs})
    count = f"{len(runs)} run{'s' * (len(runs) > 1)}"
    known = f", {seeds} seeds" if repeat_word(runs) == "seed" else ""
    of = "algorithm" if known else "group"
    repeated = f" ({len(groups)} {of}{'s' * (len(groups) > 1)}{known})" if len(runs) > len(groups) else ""
    clients = " or ".join(str(n) for n in dict.fromkeys(stored.clients for stored in runs))
    goal = "" if target is None else f" Target: {escape(target[0])} {target[1]:g}."
    return (
        f"<header><h1>{escape(title)}</h1><p>{count}{repeated}, {clients} clients, "
        f'each at its own pace.{goal}{_caution(runs)}</p><ul class="legend">{legend}</ul></header>'
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


# ------------------------------------------------------------ results


def _results(runs: Sequence[StoredRun], groups: Sequence[RunGroup], summary: str) -> str:
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
            _real_time(stored.run),
            stored.state,
        )
        for stored in runs
    ]
    note = f"<p><small>Privacy covers {escape(COVERED)}.</small></p>" * private
    each = f'<div class="card scroll">{table(header, rows)}{note}</div>'
    if not summary:
        return section("Results", each)
    if len(runs) == len(groups):
        return section("Results", f'<div class="card scroll summary">{summary}</div>{each}')
    folded = f"<details><summary>Every run</summary>{each}</details>"
    return section("Results", f'<div class="card scroll summary">{summary}</div>{folded}')


def _measured(run: Run, name: str) -> str:
    return f"{run.metrics[name]:.4f}" if name in run.metrics else ""


def _real_time(run: Run) -> str:
    return format_seconds(run.summary["real_seconds"]) if "real_seconds" in run.summary else ""


# ------------------------------------------------------------ traffic


def _traffic(groups: Sequence[RunGroup]) -> str:
    sizes = {
        direction: [fmean(getattr(s.run, f"bytes_{direction}") for s in group.runs) for group in groups]
        for direction in ("up", "down")
    }
    unit, name = byte_unit(max(size for own in sizes.values() for size in own))
    bars = [(direction, [size / unit for size in own]) for direction, own in sizes.items()]
    chart = card(f"{name} by direction", svg.bar_chart(bars, "direction", name))
    lanes = card("Frames by direction", f'<div class="scroll">{_lanes(groups)}</div>')
    return section("Traffic", f'<div class="beside">{chart}{lanes}</div>')


def _lanes(groups: Sequence[RunGroup]) -> str:
    """Of the first run of each group."""
    header = ("run", "", "frames", "payload", "headers", "control", "skipped", "compression error")
    rows = []
    for group in groups:
        for direction in ("up", "down"):
            lane = group.first.run.traffic.get(direction, {})
            if lane:
                sizes = [format_bytes(lane[f"{part}_bytes"]) for part in ("payload", "header", "control")]
                rates = [f"{lane[rate]:.1%}" for rate in ("firing_rate", "relative_error")]
                rows.append((group.first.label, direction, f"{lane['frames']:,}", *sizes, *rates))
    return table(header, rows) if rows else "<p>Not recorded.</p>"


# ------------------------------------------------------------ configuration and papers


def _configuration(groups: Sequence[RunGroup]) -> str:
    return section("Configuration", "".join(_details(group) for group in groups))


def _details(group: RunGroup) -> str:
    """Of the first run; the others of a group differ from it in their seed, and in what that decides."""
    facts = "".join(
        f"<dt>{escape(name)}</dt><dd>{_fact(name, text)}</dd>" for name, text in _facts(group) if text
    )
    return f'<details class="card"><summary>{escape(group.label)}</summary><dl>{facts}</dl></details>'


def _facts(group: RunGroup) -> Iterator[tuple[str, str]]:
    if len(group.runs) > 1:
        seeds = [str(stored.run.seed) for stored in group.runs]
        different = list(dict.fromkeys(seeds))
        more = ", ..." * (len(different) > MOST_CHIPS)
        word = "seed" + "s" * (len(different) > 1)
        yield (
            "runs",
            f"{len(seeds)}, with {word} {', '.join(different[:MOST_CHIPS])}{more}; this is the first",
        )
    yield from group.first.facts.items()


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
    return section(
        "Papers to cite",
        f'<ol class="papers">{items}</ol><details><summary>BibTeX</summary><pre>{bibtex}</pre></details>',
    )


def _paper(paper: Any) -> str:
    text = f"{escape(paper.short.removesuffix('.'))}. <i>{escape(paper.title)}</i>. {escape(paper.venue)} {paper.year}."
    if not paper.arxiv:
        return text
    return f'{text} <a href="https://arxiv.org/abs/{escape(paper.arxiv)}">arXiv:{escape(paper.arxiv)}</a>'
