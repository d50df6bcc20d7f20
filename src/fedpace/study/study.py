"""Several algorithms with several seeds each, side by side: what `compare` and `sweep` return."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedpace.bibliography import PAPERS
from fedpace.disk import files
from fedpace.errors import unknown
from fedpace.privacy import Composed, composed
from fedpace.record import Run
from fedpace.record.report import compare, plot
from fedpace.record.report.compare import Target
from fedpace.record.report.page import StoredRun, page
from fedpace.record.run.units import format_bytes, format_seconds
from fedpace.statistics import RANGES, SeedMean, clipped, clipped_difference
from fedpace.study.summary import RowSummary, costs, summaries
from fedpace.study.table import TextTable
from fedpace.study.trial import StudyRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

WHOLE = ("steps", "virtual time", "uploaded", "downloaded", "real time")
AIMED = ("→ steps", "→ time", "→ up", "→ down", "→ real time")
COSTS = ("steps", "virtual_seconds", "bytes_up", "bytes_down")


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """Rows of runs, one run per seed, and what they say together.

    `metric` is the one that differences are taken in, against the row `baseline`.
    """

    rows: Mapping[str, Sequence[StudyRun]]
    metric: str
    target: Target | None = None
    baseline: str = ""  # empty: the first row
    title: str = ""

    def __post_init__(self) -> None:
        if self.baseline and self.baseline not in self.rows:
            raise unknown("baseline", self.baseline, self.rows)

    @property
    def runs(self) -> dict[str, list[Run]]:
        """The runs of each row, in the order of the seeds."""
        return {row: [each.run for each in own] for row, own in self.rows.items()}

    @property
    def seeds(self) -> list[int]:
        return list(dict.fromkeys(each.run.seed for own in self.rows.values() for each in own))

    @cached_property
    def summary(self) -> dict[str, RowSummary]:
        """Means with their intervals, costs, and differences from the baseline, row by row."""
        return summaries(self.rows, self.metric, self.target, self._base)

    @property
    def _base(self) -> str:
        return self.baseline or next(iter(self.rows))

    @cached_property
    def privacy(self) -> list[Composed]:
        """What all private runs cost together, if they are on the same clients: one for each adjacency."""
        spent = (each.run.privacy for own in self.rows.values() for each in own)
        return composed(each for each in spent if each is not None)

    def against(self, baseline: str) -> Study:
        """The same runs with another baseline."""
        return replace(self, baseline=baseline)

    # ------------------------------------------------------------ as a table

    def table(self) -> str:
        """Means with 95 % t-intervals and costs; below, differences from the baseline. As text."""
        return "\n\n".join(each.text() for each in self.tables())

    def tables(self, *, real_time: bool = False) -> list[TextTable]:
        """What `table` shows; real time is left out unless asked for: no result depends on it."""
        rows, differences = self.cells(real_time=real_time), self.differences()
        return [rows] if differences is None else [rows, differences]

    def to_markdown(self, path: str | Path | None = None) -> str:
        return _written("\n".join(each.markdown() for each in self.tables()), path)

    def to_latex(self, path: str | Path | None = None) -> str:
        r"""The tables as `tabular` for a paper, to be used with `\usepackage{booktabs}`."""
        return _written("\n".join(each.latex() for each in self.tables()), path)

    def to_csv(self, path: str | Path | None = None) -> str:
        """One line per run, as in `to_pandas`: every number of the table can be computed from it."""
        return _written(self.to_pandas().to_csv(index=False, lineterminator="\n"), path)

    def to_pandas(self) -> DataFrame:
        """One line per run: its row, seed and state, last metrics, cost, and cost to the target (inf: not reached)."""
        import pandas

        lines = [self._line(row, each) for row, own in self.rows.items() for each in own]
        return pandas.DataFrame(lines)

    def _line(self, row: str, each: StudyRun) -> dict[str, Any]:
        run = each.run
        whole = (len(run.history), run.virtual_seconds, run.bytes_up, run.bytes_down)
        line = {"row": row, "seed": run.seed, "state": each.state, **run.metrics}
        line |= dict(zip(COSTS, whole, strict=True))
        line |= {} if run.privacy is None else {"epsilon": run.privacy.epsilon}
        if self.target is not None:
            there = costs(each, self.target) or [math.inf] * len(COSTS)
            line |= {f"{name}_to_target": value for name, value in zip(COSTS, there, strict=True)}
        return line

    def __str__(self) -> str:
        return self.table()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table_html()

    def cells(self, *, real_time: bool = False) -> TextTable:
        """One row each: metrics, cost, number of seeds."""
        names = _accuracy_first(dict.fromkeys(name for row in self.summary.values() for name in row.metrics))
        timed = real_time and any(row.cost and row.cost.real_seconds for row in self.summary.values())
        repeated, aimed = len(self.seeds) > 1, self.target is not None
        counts = [*["reached"] * (aimed and repeated), *["seeds"] * repeated]
        private = bool(self.privacy)
        header = ["", *names, *["epsilon"] * private, *(AIMED if aimed else WHOLE)[: 4 + timed], *counts]
        rows = [
            [
                row,
                *(_mean(found.metrics.get(name), name) for name in names),
                *([self._epsilon(row)] if private else []),
                *_cost(found, timed),
                *([_reached(found)] if aimed and repeated else []),
                *([_seeds(found)] if repeated else []),
            ]
            for row, found in self.summary.items()
        ]
        return TextTable(header, rows, "l" + "r" * (len(header) - 1), self._caption(repeated))

    def _epsilon(self, row: str) -> str:
        """The largest of a row's runs."""
        spent = [each.run.privacy.epsilon for each in self.rows[row] if each.run.privacy is not None]
        return f"{max(spent):.4g}" if spent else ""

    def _caption(self, repeated: bool) -> str:
        said = []
        if self.target is not None:
            said.append("→ server steps, time and traffic to reach {} {:g}".format(*self.target))
            if repeated:
                said.append("   (medians over seeds; a run that does not reach it counts as infinite)")
        if repeated:
            said.append("± half-width of the 95 % t-interval over seeds")
            said += self._clipped_intervals()
        said += map(str, self.privacy)
        return "\n".join(said)

    def _clipped_intervals(self) -> list[str]:
        means = [(name, found) for row in self.summary.values() for name, found in row.metrics.items()]
        names = dict.fromkeys(name for name, found in means if clipped(found, name) != found)
        said = "{} (low to high): the 95 % t-interval, clipped to [{:g}, {:g}]; use more seeds"
        return [said.format(name, *RANGES[name]) for name in names]

    def differences(self) -> TextTable | None:
        """Paired by seed, from the baseline; None for a single row or a single seed."""
        if len(self.rows) < 2 or len(self.seeds) < 2:
            return None
        rows = [
            [row, *_difference(found, self.metric)]
            for row, found in self.summary.items()
            if found.difference is not None
        ]
        header = ["", f"{self.metric} minus {self._base}'s", "95 % interval", "p", "pairs"]
        caption = "mean over seeds, paired; p: two-sided paired t-test, Holm-corrected over the rows"
        return TextTable(header, rows, "lrrrr", caption)

    # ------------------------------------------------------------ as pictures

    def plot(self, path: str | Path | None = None) -> Figure:
        """The metric over steps, virtual time and traffic; saved too if a path is given."""
        figure = compare.picture(self.runs, self.target, self.title, metric=self.metric)
        if path is not None:
            plot.save(figure, path)
        return figure

    def report(self, path: str | Path, title: str = "") -> Path:
        """One self-contained web page about all of it."""
        target = files.require_writable(path, "report")
        files.write(
            target, page(self._stored(), title or self.title, self.target, self.table_html()).encode()
        )
        return target

    def table_html(self) -> str:
        return "".join(each.html() for each in self.tables())

    def _stored(self) -> list[StoredRun]:
        return [
            StoredRun(
                label=f"{row}, seed {each.run.seed}" if len(own) > 1 else row,
                run=each.run,
                clients=each.clients,
                state=each.state,
                facts={**each.facts, "note": each.note},
                papers=[PAPERS[key] for key in each.about.get("papers", ()) if key in PAPERS],
                group=row,
                partition=each.about.get("partition"),
            )
            for row, own in self.rows.items()
            for each in own
        ]


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        files.write(files.require_writable(path, "file"), text.encode())
    return text


def _accuracy_first(names: Mapping[str, object]) -> list[str]:
    first = ("accuracy", "loss")
    return sorted(names, key=lambda name: first.index(name) if name in first else len(first))


def shown(value: float) -> str:
    """Three decimals, or three digits where those would say nothing."""
    return f"{value:.3f}" if value == 0 or 1e-2 <= abs(value) < 1e4 else f"{value:.3g}"


def _mean(found: SeedMean | None, metric: str) -> str:
    if found is None:
        return ""
    if found.half_width is None:
        return shown(found.mean)
    possible = clipped(found, metric)
    if possible != found:
        return f"{found.mean:.3f} ({possible.low:.3f} to {possible.high:.3f})"
    plain = 1e-2 <= abs(found.mean) < 1e4 and found.half_width < 1e4
    return (
        f"{found.mean:.3f} ± {found.half_width:.3f}"
        if plain
        else f"{found.mean:.3g} ± {found.half_width:.2g}"
    )


def _seeds(found: RowSummary) -> str:
    return str(found.runs) if found.completed == found.runs else f"{found.completed} of {found.runs}"


def _cost(found: RowSummary, real_time: bool) -> list[str]:
    cost = found.cost
    empty = [""] * (3 + real_time)
    if cost is None:
        return ["diverged", *empty]
    if math.isinf(cost.steps):
        return ["not reached", *empty]
    seconds = "" if cost.real_seconds is None else format_seconds(cost.real_seconds)
    sizes = [format_bytes(cost.bytes_up), format_bytes(cost.bytes_down)]
    return [
        f"{cost.steps:.4g}",
        format_seconds(cost.virtual_seconds),
        *sizes,
        *([seconds] if real_time else []),
    ]


def _reached(found: RowSummary) -> str:
    return f"{found.cost.reached if found.cost else 0} of {found.runs}"


def _difference(found: RowSummary, metric: str) -> list[str]:
    if found.difference is None:
        return ["", "", "", ""]
    difference = clipped_difference(found.difference, metric)
    span = "" if difference.low is None else f"{difference.low:+.3g} to {difference.high:+.3g}"
    p = "" if found.p_holm is None else _p(found.p_holm)
    return [f"{difference.mean:+.3g}", span, p, str(difference.n)]


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def require_metric(known: Mapping[str, float], metric: str, what: str) -> str:
    if metric not in known:
        raise unknown(what, metric, known)
    return metric
