"""Client by client: timeline, staleness, participation, what the model achieves on each, and the data each has."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from fedpace.record.report.page import shares, svg
from fedpace.record.report.page.groups import RunGroup, StoredRun, card, cards, section, table
from fedpace.record.report.page.text import escape
from fedpace.record.run.timeline import UNUSED, Stretch
from fedpace.record.run.units import format_seconds

MOST_CLIENTS = 24  # rows of a timeline
MOST_BARS = 1500  # in a timeline; later activity is left out
MOST_STALENESS = 20  # bars of the histogram; the rest is counted in the last
MOST_COLUMNS = 100  # clients of a partition that are drawn


# ------------------------------------------------------------ timeline


def timelines(groups: Sequence[RunGroup]) -> str:
    """One per group, of the first of its runs that has one."""
    chosen = [next((s for s in group.runs if s.run.activities), None) for group in groups]
    made = [_timeline(stored) for stored in chosen if stored is not None]
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
    return section("Client timeline", f'{"".join(made)}<ul class="legend">{legend}</ul>') if made else ""


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


# ------------------------------------------------------------ staleness, participation, accuracy


def participation(groups: Sequence[RunGroup]) -> str:
    counts = {group.label: [_per_client(stored) for stored in group.runs] for group in groups}
    made = [
        card("Staleness of updates", _stale_chart(groups)),
        card("Participation per client, in descending order", _share_chart(groups, counts), readout=True),
        card("Fairness of participation", _fairness(groups, counts)),
        *_client_metrics(groups),
    ]
    return section("Staleness and participation", cards(made))


def _per_client(stored: StoredRun) -> list[int]:
    """Updates used of each client, in descending order; of those that never participated, none."""
    took = shares.participation(stored.run.history)
    return [*took, *[0] * (stored.clients - len(took))]


def _stale_chart(groups: Sequence[RunGroup]) -> str:
    found = [
        sum((shares.staleness(stored.run.history) for stored in group.runs), Counter()) for group in groups
    ]
    last = min(max((stale for counter in found for stale in counter), default=0), MOST_STALENESS)
    bars = []
    for stale in range(last + 1):
        label = f"{stale}+" if stale == MOST_STALENESS else str(stale)
        bars.append((label, [_share_of(counter, stale) for counter in found]))
    return svg.bar_chart(bars, "staleness in server steps", "share of updates")


def _share_of(counter: Mapping[int, int], stale: int) -> float:
    total = sum(counter.values()) or 1
    if stale < MOST_STALENESS:
        return counter.get(stale, 0) / total
    return sum(count for at, count in counter.items() if at >= stale) / total


def _share_chart(groups: Sequence[RunGroup], counts: Mapping[str, Sequence[Sequence[int]]]) -> str:
    return svg.line_chart(
        [_ranked(group, counts[group.label]) for group in groups], "clients", "updates used", zero=True
    )


def _ranked(group: RunGroup, columns: Sequence[Sequence[float]]) -> svg.Series:
    """Rank by rank, the mean over the runs."""
    means = [fmean(values) for values in zip(*columns, strict=False)]
    return svg.Series(group.label, group.colour, [float(n + 1) for n in range(len(means))], means)


def _fairness(groups: Sequence[RunGroup], counts: Mapping[str, Sequence[Sequence[int]]]) -> str:
    rows = []
    for group in groups:
        own = counts[group.label]
        took = fmean(sum(count > 0 for count in each) for each in own)
        means = [f"{fmean(index(each) for each in own):.3f}" for index in (shares.jain, shares.gini)]
        rows.append((group.label, f"{took:g}/{group.first.clients}", *means))
    note = "<p><small>Jain's index is 1 and Gini's 0 when all clients participate equally.</small></p>"
    header = ("", "participated", "Jain", "Gini")
    return f'<div class="scroll">{table(header, rows)}</div>{note}'


def _client_metrics(groups: Sequence[RunGroup]) -> list[str]:
    """What the last model achieves on each client, where that is known; and beside how often the client took part."""
    known = {group.label: _values(group) for group in groups if _values(group)}
    if not known:
        return []
    shown = [group for group in groups if group.label in known]
    metric = next(found["metric"] for own in known.values() for found in own)
    ordered = {label: [sorted(found["values"]) for found in own] for label, own in known.items()}
    lines = svg.line_chart([_ranked(group, ordered[group.label]) for group in shown], "clients", metric)
    rows = [(group.label, *_worst(ordered[group.label])) for group in shown]
    return [
        card(f"{metric.capitalize()} per client, in ascending order", lines, readout=True),
        card(f"{metric.capitalize()} and participation, client by client", _scatter(shown, metric)),
        card(
            f"{metric.capitalize()} over clients",
            f'<div class="scroll">{table(("", "mean", "lowest tenth", "lowest", "highest"), rows)}</div>',
        ),
    ]


def _values(group: RunGroup) -> list[Mapping[str, Any]]:
    found = (stored.run.summary.get("client_metric") for stored in group.runs)
    return [each for each in found if each is not None]


def _worst(columns: Sequence[Sequence[float]]) -> list[str]:
    """Means over the runs."""
    numbers = [
        (fmean(each), fmean(each[: max(1, len(each) // 10)]), each[0], each[-1]) for each in columns if each
    ]
    return [f"{fmean(values):.3f}" for values in zip(*numbers, strict=True)]


def _scatter(groups: Sequence[RunGroup], metric: str) -> str:
    dots = []
    for group in groups:
        stored = next(s for s in group.runs if "client_metric" in s.run.summary)
        took = Counter(client for record in stored.run.history for client in record.clients)
        for client, value in enumerate(stored.run.summary["client_metric"]["values"]):
            tip = f"{stored.label}, client {client}: {took[client]} updates, {metric} {value:.3g}"
            dots.append(svg.Dot(float(took[client]), value, group.colour, tip))
    return svg.scatter(dots, "updates used", metric)


# ------------------------------------------------------------ partition


def partition(groups: Sequence[RunGroup]) -> str:
    """How the data is split: classes by client where there are classes, else samples by client."""
    known = next((s for group in groups for s in group.runs if s.partition and s.partition["samples"]), None)
    if known is None or known.partition is None:
        return ""
    samples, labels = known.partition["samples"], known.partition["labels"]
    seed = f", seed {known.run.seed}" if sum(len(group.runs) for group in groups) > len(groups) else ""
    most = f" (the first {MOST_COLUMNS})" if len(samples) > MOST_COLUMNS else ""
    bars = svg.bar_chart(
        [(str(at), [count]) for at, count in enumerate(samples[:MOST_COLUMNS])], "client", "samples"
    )
    made = [card(f"Samples per client{seed}{most}", bars)]
    if labels:
        made.append(
            card(f"Classes per client{seed}{most}", svg.heat_map(labels[:MOST_COLUMNS], "client", "class"))
        )
    return section("Partition", cards(made))
