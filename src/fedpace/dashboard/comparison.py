"""Runs side by side: curves with intervals over seeds, tables with paired differences, and files for a paper."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fedpace.dashboard.answers import answer, store_of
from fedpace.dashboard.downloads import attached
from fedpace.errors import ConfigError
from fedpace.privacy.spent import COVERED
from fedpace.record.report.points import EPSILON, Points, points
from fedpace.statistics import clipped, estimate

if TYPE_CHECKING:
    from fedpace.study.study import Study
    from fedpace.study.table import TextTable

MOST_RUNS = 500
KINDS = ("report.html", "png", "csv", "tex")


def shown(request: Request) -> Response:
    """Curves and tables of the chosen runs and studies."""
    study = chosen(request)
    return answer(
        {
            "metric": study.metric,
            "metrics": _metrics(study),
            "baseline": study.baseline or next(iter(study.rows)),
            "target": study.target,
            "rows": [{"label": label, **_row(study, label)} for label in study.rows],
            "tables": [_table(each) for each in study.tables(real_time=True)],
            "covered": COVERED if EPSILON in _metrics(study) else None,
            "running": any(each.state == "running" for own in study.rows.values() for each in own),
        }
    )


def exported(request: Request) -> Response:
    """One of KINDS, to save."""
    study, kind = chosen(request), request.path_params["kind"]
    if kind not in KINDS:
        raise HTTPException(404, f"an export must be one of {', '.join(KINDS)}")
    if kind == "csv":
        return attached(study.to_csv(), "comparison.csv")
    if kind == "tex":
        return attached(study.to_latex(), "comparison.tex")
    if kind == "png":
        picture = io.BytesIO()
        study.plot().savefig(picture, format="png", dpi=150)
        return attached(picture.getvalue(), "comparison.png")
    with TemporaryDirectory() as folder:
        return attached(study.report(Path(folder) / "report.html").read_bytes(), "comparison.html")


def chosen(request: Request) -> Study:
    """The study that the query asks for; ConfigError if there is no such run."""
    from fedpace.study.saved import SavedRuns

    store, asked = store_of(request), request.query_params
    names = list(dict.fromkeys(asked.getlist("run")))
    if not names:
        raise ConfigError("runs to compare must be at least one; got none")
    inside = [each for name in names for each in store.names(name)]
    if len(inside) > MOST_RUNS:
        raise ConfigError(f"runs to compare must be at most {MOST_RUNS}; got {len(inside)}")
    if len(set(inside)) < len(inside):  # a study and one of its runs
        names = list(dict.fromkeys(inside))
    return SavedRuns(store).among(
        names,
        target=_target(asked.get("target", "")),
        metric=asked.get("metric") or None,
        baseline=asked.get("baseline", ""),
        title=asked.get("title", "")[:200],
    )


def _target(text: str) -> dict[str, float] | None:
    if not text:
        return None
    metric, _, value = text.rpartition("=")
    try:
        return {metric: float(value)}
    except ValueError:
        raise ConfigError(f"target must be METRIC=NUMBER; got {text!r}") from None


def _metrics(study: Study) -> list[str]:
    every = [each.run for own in study.rows.values() for each in own]
    names = dict.fromkeys(name for run in every for name in run.metrics)
    private = any(record.epsilon is not None for run in every for record in run.history[:1])
    return [*names, *[EPSILON] * (private and EPSILON not in names)]


def _row(study: Study, label: str) -> dict[str, Any]:
    own = study.rows[label]
    found = [points(each.run, study.metric, 1.0) for each in own]
    runs = [
        {
            "name": each.run.summary["name"],
            "seed": each.run.seed,
            "state": each.state,
            "real": _real(each.run, at),
            **at._asdict(),
        }
        for each, at in zip(own, found, strict=True)
    ]
    return {"runs": runs, "mean": _mean(runs, found, study.metric)}


def _real(run: Any, at: Points) -> list[float | None]:
    """Real seconds at the points of a curve; the initial model is at 0."""
    spent = run.summary.get("step_seconds") or []
    return [0.0 if step == 0 else spent[int(step) - 1] if step <= len(spent) else None for step in at.steps]


def _mean(runs: Sequence[dict[str, Any]], found: Sequence[Points], metric: str) -> dict[str, Any] | None:
    """Over seeds that were evaluated after the same steps, as far as all have come; None for a single one."""
    length = min(len(each.steps) for each in found)
    if len(found) < 2 or length == 0 or any(each.steps[:length] != found[0].steps[:length] for each in found):
        return None
    columns = zip(*(each.values[:length] for each in found), strict=True)
    values = [clipped(estimate(column), metric) for column in columns]
    axes = {
        name: [fmean(column) for column in zip(*(run[name][:length] for run in runs), strict=True)]
        for name in ("steps", "seconds", "traffic")
    }
    real = [
        None if None in column else fmean(column)
        for column in zip(*(r["real"][:length] for r in runs), strict=True)
    ]
    return {
        **axes,
        "real": real,
        "values": [each.mean for each in values],
        "low": [each.low for each in values],
        "high": [each.high for each in values],
    }


def _table(table: TextTable) -> dict[str, Any]:
    return {"header": table.header, "rows": table.rows, "align": table.align, "caption": table.caption}
